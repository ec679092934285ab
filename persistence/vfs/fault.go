package vfs

import (
	"fmt"
	"io"
	"sync"
)

// Kind names an operation.
type Kind string

// The operations that a Fault counts.
const (
	OpCreate   Kind = "create"
	OpOpen     Kind = "open"
	OpRead     Kind = "read"
	OpWrite    Kind = "write"
	OpSync     Kind = "sync"
	OpTruncate Kind = "truncate"
	OpClose    Kind = "close"
	OpRename   Kind = "rename"
	OpRemove   Kind = "remove"
	OpMkdir    Kind = "mkdir"
	OpReadDir  Kind = "readdir"
	OpStat     Kind = "stat"
	OpSyncDir  Kind = "syncdir"
	OpLock     Kind = "lock"
	OpFree     Kind = "free"
)

// Op is one operation on a file system.
type Op struct {
	Kind  Kind
	Name  string
	Index int // number of operations before this one, over the life of the Fault
}

// Fault wraps an FS and asks before every operation whether it shall fail.
//
//	f := vfs.NewFault(fs, func(op vfs.Op) error {
//		if op.Index == 3 { return syscall.EIO }
//		return nil
//	})
//
// A write that fails writes the first half of its bytes, as a full disk does.
type Fault struct {
	inner FS
	check func(Op) error

	mu    sync.Mutex
	count int
}

var _ FS = (*Fault)(nil)

// NewFault wraps inner. check runs before each operation, never twice at a time;
// a nil result lets the operation through, an error is what the caller gets.
func NewFault(inner FS, check func(Op) error) *Fault {
	return &Fault{inner: inner, check: check}
}

// Count is the number of operations so far, the failed ones included.
func (f *Fault) Count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}

func (f *Fault) ask(kind Kind, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	op := Op{Kind: kind, Name: name, Index: f.count}
	f.count++
	if err := f.check(op); err != nil {
		return fmt.Errorf("%s %s: %w", kind, name, err)
	}
	return nil
}

func (f *Fault) wrap(kind Kind, name string, open func(string) (File, error)) (File, error) {
	if err := f.ask(kind, name); err != nil {
		return nil, err
	}
	file, err := open(name)
	if err != nil {
		return nil, err
	}
	return &faultFile{File: file, fs: f, name: name}, nil
}

// Create makes or empties a file.
func (f *Fault) Create(name string) (File, error) { return f.wrap(OpCreate, name, f.inner.Create) }

// Open opens a file for reading.
func (f *Fault) Open(name string) (File, error) { return f.wrap(OpOpen, name, f.inner.Open) }

// OpenWrite opens an existing file at its end.
func (f *Fault) OpenWrite(name string) (File, error) { return f.wrap(OpOpen, name, f.inner.OpenWrite) }

// Rename renames a file.
func (f *Fault) Rename(from, to string) error {
	if err := f.ask(OpRename, from); err != nil {
		return err
	}
	return f.inner.Rename(from, to)
}

// Remove deletes a file.
func (f *Fault) Remove(name string) error {
	if err := f.ask(OpRemove, name); err != nil {
		return err
	}
	return f.inner.Remove(name)
}

// MkdirAll makes a directory.
func (f *Fault) MkdirAll(dir string) error {
	if err := f.ask(OpMkdir, dir); err != nil {
		return err
	}
	return f.inner.MkdirAll(dir)
}

// ReadDir lists a directory.
func (f *Fault) ReadDir(dir string) ([]Info, error) {
	if err := f.ask(OpReadDir, dir); err != nil {
		return nil, err
	}
	return f.inner.ReadDir(dir)
}

// Stat describes a file.
func (f *Fault) Stat(name string) (Info, error) {
	if err := f.ask(OpStat, name); err != nil {
		return Info{}, err
	}
	return f.inner.Stat(name)
}

// SyncDir syncs a directory.
func (f *Fault) SyncDir(dir string) error {
	if err := f.ask(OpSyncDir, dir); err != nil {
		return err
	}
	return f.inner.SyncDir(dir)
}

// Lock takes a lock.
func (f *Fault) Lock(name string) (io.Closer, error) {
	if err := f.ask(OpLock, name); err != nil {
		return nil, err
	}
	return f.inner.Lock(name)
}

// Free is the free space.
func (f *Fault) Free(dir string) (uint64, error) {
	if err := f.ask(OpFree, dir); err != nil {
		return 0, err
	}
	return f.inner.Free(dir)
}

// faultFile is a file of a Fault.
type faultFile struct {
	File
	fs   *Fault
	name string
}

func (f *faultFile) Read(p []byte) (int, error) {
	if err := f.fs.ask(OpRead, f.name); err != nil {
		return 0, err
	}
	return f.File.Read(p)
}

func (f *faultFile) Write(p []byte) (int, error) {
	if err := f.fs.ask(OpWrite, f.name); err != nil {
		n, werr := f.File.Write(p[:len(p)/2])
		if werr != nil {
			return n, werr
		}
		return n, err
	}
	return f.File.Write(p)
}

func (f *faultFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.fs.ask(OpWrite, f.name); err != nil {
		n, werr := f.File.WriteAt(p[:len(p)/2], off)
		if werr != nil {
			return n, werr
		}
		return n, err
	}
	return f.File.WriteAt(p, off)
}

func (f *faultFile) Sync() error {
	if err := f.fs.ask(OpSync, f.name); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *faultFile) Truncate(size int64) error {
	if err := f.fs.ask(OpTruncate, f.name); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *faultFile) Close() error {
	if err := f.fs.ask(OpClose, f.name); err != nil {
		if cerr := f.File.Close(); cerr != nil {
			return cerr
		}
		return err
	}
	return f.File.Close()
}
