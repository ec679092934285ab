package persistence

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// A segment is a file of the journal as tidwall/wal lays it out in its binary
// format. Its name is the index of its first frame, and the name of the next one
// is that index plus the number of frames:
//
//	journal/00000000000000000001    frames 1 to 812
//	journal/00000000000000000813    frames 813 to 1640
//
//	segment = any number of ( length of the frame, uvarint | frame )
//
// The size is a soft target: a segment is closed behind the frame that reaches it.
const (
	segmentNameLen = 20
	// startSuffix, endSuffix and tempSuffix mark what a truncation by the library
	// leaves when it is interrupted. This package never truncates with it.
	startSuffix = ".START"
	endSuffix   = ".END"
	tempSuffix  = ".TEMP"

	// segmentBytesMin and segmentBytesMax bound Config.SegmentBytes.
	segmentBytesMin = 4 << 10
	segmentBytesMax = 64 << 20
	// segmentFileBytesMax is the largest file that can be a segment.
	segmentFileBytesMax = segmentBytesMax + frameBytesMax + 16
)

// segment is one file of the journal.
type segment struct {
	first uint64 // index of its first frame
	size  int64  // bytes
}

func segmentName(first uint64) string { return fmt.Sprintf("%0*d", segmentNameLen, first) }

// parseSegment reads the index from a name of 20 digits and a suffix.
func parseSegment(name string) (first uint64, suffix string, ok bool) {
	if len(name) < segmentNameLen {
		return 0, "", false
	}
	first, err := strconv.ParseUint(name[:segmentNameLen], 10, 64)
	return first, name[segmentNameLen:], err == nil && first > 0
}

// listing is what a journal directory holds.
type listing struct {
	segments []segment // ascending
	temps    []string  // unfinished files
	start    string    // name of a START file, if there is one
	end      string    // name of an END file, if there is one
}

// listJournal reads a journal directory. Other files are left alone.
func listJournal(fs vfs.FS, dir string) (listing, error) {
	infos, err := fs.ReadDir(dir)
	if err != nil {
		return listing{}, fmt.Errorf("list journal: %w", err)
	}
	var out listing
	for _, info := range infos {
		first, suffix, ok := parseSegment(info.Name)
		switch {
		case !ok:
		case suffix == "":
			out.segments = append(out.segments, segment{first: first, size: info.Size})
		case strings.HasSuffix(suffix, tempSuffix):
			out.temps = append(out.temps, info.Name)
		case suffix == startSuffix && out.start == "":
			out.start = info.Name
		case suffix == startSuffix || suffix == endSuffix:
			out.end = info.Name
		}
	}
	return out, nil
}

// readFile reads a whole file of at most limit bytes into fresh memory.
func readFile(fs vfs.FS, name string, limit int64) (data []byte, err error) {
	info, err := fs.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("read file: %w", err)
	}
	if info.Size > limit {
		return nil, &DamageError{
			File: name, Offset: limit,
			Expected: fmt.Sprintf("the end of the file after at most %d bytes", limit),
			Found:    fmt.Sprintf("%d bytes", info.Size),
		}
	}
	f, err := fs.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read file: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data = make([]byte, info.Size)
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return data, nil
}

// writeFile makes a file durable under its name or leaves the old one: a
// temporary file, fsync, rename, fsync of the directory. A temporary file that it
// couldn't complete is removed, so that it doesn't fill the disk.
func writeFile(fs vfs.FS, name string, data []byte) error {
	temp := name + tempSuffix
	err := writeTemp(fs, temp, data)
	if err == nil {
		err = fs.Rename(temp, name)
	}
	if err != nil {
		if rerr := fs.Remove(temp); !errors.Is(rerr, iofs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
		return fmt.Errorf("write file: %w", err)
	}
	if err := fs.SyncDir(filepath.Dir(name)); err != nil {
		return fmt.Errorf("write file %s: %w: %w", name, errUnsureName, err)
	}
	return nil
}

// errUnsureName says that a file has its name, but perhaps not on disk. Nothing may
// build on it, and a second fsync proves nothing.
var errUnsureName = errors.New("sync directory")

// writeTemp writes a file whose name nobody relies on yet, and syncs it.
func writeTemp(fs vfs.FS, temp string, data []byte) error {
	f, err := fs.Create(temp)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", temp, err)
	}
	return nil
}

// rewriteFile writes the bytes that a file shows over itself, and syncs it.
func rewriteFile(fs vfs.FS, name string, data []byte) error {
	f, err := fs.OpenWrite(name)
	if err != nil {
		return fmt.Errorf("rewrite file: %w", err)
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("rewrite %s: %w", name, err)
	}
	return nil
}
