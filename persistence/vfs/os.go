package vfs

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// dirMode and fileMode keep other users out of the data.
	dirMode  = 0o750
	fileMode = 0o640
)

// OS is the file system of the operating system. The zero value is ready.
type OS struct{}

var _ FS = OS{}

// Create makes or empties a file.
func (OS) Create(name string) (File, error) {
	return open(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY)
}

// Open opens a file for reading.
func (OS) Open(name string) (File, error) { return open(name, os.O_RDONLY) }

// OpenWrite opens an existing file at its end.
func (OS) OpenWrite(name string) (File, error) {
	f, err := open(name, os.O_WRONLY)
	if err != nil {
		return nil, err
	}
	if _, err := f.(osFile).Seek(0, io.SeekEnd); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func open(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, fileMode)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Rename renames a file.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove deletes a file.
func (OS) Remove(name string) error { return os.Remove(name) }

// MkdirAll makes a directory.
func (OS) MkdirAll(dir string) error { return os.MkdirAll(dir, dirMode) }

// ReadDir lists the regular files of a directory.
func (OS) ReadDir(dir string) ([]Info, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []Info
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue // removed since the listing
		}
		if err != nil {
			return nil, err
		}
		out = append(out, Info{Name: e.Name(), Size: info.Size()})
	}
	return out, nil
}

// Stat describes a file.
func (OS) Stat(name string) (Info, error) {
	info, err := os.Stat(name)
	if err != nil {
		return Info{}, err
	}
	return Info{Name: info.Name(), Size: info.Size()}, nil
}

// SyncDir calls fsync on a directory.
func (OS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

// Lock takes flock(LOCK_EX|LOCK_NB), which the kernel gives back when the process
// ends in whatever way.
func (OS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, fileMode)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("flock %s: %w", name, err), f.Close())
	}
	return f, nil
}

// Free asks statfs for the space that an unprivileged process can use.
func (OS) Free(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("statfs %s: %w", dir, err)
	}
	return st.Bavail * uint64(st.Bsize), nil
}

// osFile is a file of the operating system.
type osFile struct{ *os.File }

// Truncate cuts the file and moves to its end.
func (f osFile) Truncate(size int64) error {
	if err := f.File.Truncate(size); err != nil {
		return err
	}
	_, err := f.Seek(size, io.SeekStart)
	return err
}
