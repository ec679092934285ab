package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// fsAppender lays files out as the library does, on any FS: the stand-in that lets
// tests put the append side on a disk that can fail or lose its power. Its file
// operations, and their order, are those of the library.
type fsAppender struct {
	fs   vfs.FS
	cfg  appenderConfig
	file vfs.File
	size int
	last uint64
	buf  []byte
}

// onFS opens fsAppenders on fs.
func onFS(fs vfs.FS) openAppender {
	return func(cfg appenderConfig) (appender, error) {
		a := &fsAppender{fs: fs, cfg: cfg, last: cfg.last}
		list, err := listJournal(fs, cfg.dir)
		if err != nil {
			return nil, err
		}
		if len(list.segments) == 0 {
			a.file, err = fs.Create(filepath.Join(cfg.dir, segmentName(1)))
			return a, err
		}
		tail := list.segments[len(list.segments)-1]
		a.size = int(tail.size)
		a.file, err = fs.OpenWrite(filepath.Join(cfg.dir, segmentName(tail.first)))
		return a, err
	}
}

func (a *fsAppender) Append(index uint64, frame []byte) error {
	if index != a.last+1 {
		return fmt.Errorf("frame %d behind frame %d", index, a.last)
	}
	if a.size > a.cfg.segmentBytes {
		if err := a.cycle(); err != nil {
			return err
		}
	}
	a.buf = append(binary.AppendUvarint(a.buf[:0], uint64(len(frame))), frame...)
	if _, err := a.file.Write(a.buf); err != nil {
		return err
	}
	a.size += len(a.buf)
	a.last = index
	if a.size >= a.cfg.segmentBytes {
		if err := a.cycle(); err != nil {
			return err
		}
	}
	if a.cfg.lazy {
		return nil
	}
	return a.file.Sync()
}

func (a *fsAppender) cycle() error {
	if err := a.file.Sync(); err != nil {
		return err
	}
	if err := a.file.Close(); err != nil {
		return err
	}
	file, err := a.fs.Create(filepath.Join(a.cfg.dir, segmentName(a.last+1)))
	a.file, a.size = file, 0
	return err
}

func (a *fsAppender) Sync() error { return a.file.Sync() }

func (a *fsAppender) Close() error {
	if a.file == nil {
		return os.ErrInvalid // as the library does when it couldn't make a segment
	}
	return errors.Join(a.file.Sync(), a.file.Close())
}

// TestStandInWritesWhatTheLibraryWrites fails when the stand-in of the crash tests
// leaves other files than the library for the same frames.
func TestStandInWritesWhatTheLibraryWrites(t *testing.T) {
	frames := make([][]byte, 60)
	for i := range frames {
		frames[i] = make([]byte, 100+37*i)
		for j := range frames[i] {
			frames[i][j] = byte(i + j)
		}
	}
	dirs := map[string]openAppender{t.TempDir(): openWAL, t.TempDir(): onFS(vfs.OS{})}
	content := make(map[string]map[string]string)
	for dir, open := range dirs {
		for i, f := range frames {
			a, err := open(appenderConfig{dir: dir, segmentBytes: segmentBytesMin, last: uint64(i)})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(a.Append(uint64(i+1), f), a.Close()); err != nil {
				t.Fatal(err)
			}
		}
		content[dir] = make(map[string]string)
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			data, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			content[dir][e.Name()] = string(data)
		}
	}
	var sets []map[string]string
	for _, c := range content {
		sets = append(sets, c)
	}
	if len(sets[0]) < 5 || len(sets[0]) != len(sets[1]) {
		t.Fatalf("%d and %d segments", len(sets[0]), len(sets[1]))
	}
	for name, data := range sets[0] {
		if sets[1][name] != data {
			t.Errorf("segment %s differs", name)
		}
	}
}
