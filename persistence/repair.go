package persistence

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pyrula/pyrula-node/persistence/vfs"
)

const (
	// droppedDir holds copies of bytes that were cut off the journal.
	droppedDir = "dropped"
	// droppedKeep is the number of those copies that are kept, the newest ones.
	droppedKeep = 4
	// droppedRoom is what a copy must leave free, for what the start has to write yet.
	droppedRoom = 1 << 20
	// droppedSuffix ends their names: <segment>-<offset>.cut
	droppedSuffix = ".cut"
)

// refuseTruncation refuses a journal directory in which the library was interrupted
// while it truncated. The library would finish that by itself when it is opened, and
// delete segments without looking into the file that replaces them. This package
// deletes whole segments and never truncates with the library, so such a file comes
// from another program, and nobody here knows what it is worth.
func refuseTruncation(fs vfs.FS, dir string) error {
	list, err := listJournal(fs, dir)
	if err != nil {
		return err
	}
	for _, name := range []string{list.start, list.end} {
		if name != "" {
			return &DamageError{
				File: filepath.Join(dir, name), Offset: 0,
				Expected: "segments only", Found: "an unfinished truncation by another program",
			}
		}
	}
	return nil
}

// removeUnfinished deletes the files of a journal directory that were being written.
func removeUnfinished(fs vfs.FS, dir string) error {
	list, err := listJournal(fs, dir)
	if err != nil {
		return err
	}
	for _, name := range list.temps {
		if err := fs.Remove(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("remove unfinished file: %w", err)
		}
	}
	return nil
}

// repair makes the journal on disk equal to what the scan has accepted: segments
// that aren't needed go, a torn tail is cut, and the last segment is written anew.
// dataDir is the directory above the journal. It is safe to be interrupted at any
// point and to be run again. uncopied says why the torn tail has no copy, if it has
// none.
func repair(fs vfs.FS, dataDir, dir string, fd found) (uncopied, err error) {
	if err := removeSegments(fs, dir, fd.obsolete); err != nil {
		return nil, err
	}
	if len(fd.segments) == 0 {
		return nil, nil
	}
	last := filepath.Join(dir, segmentName(fd.segments[len(fd.segments)-1].first))
	if len(fd.torn) > 0 {
		// The copy is for a human. A full disk must not keep the node from starting for
		// want of it.
		uncopied = keepCopy(fs, dataDir, last, fd)
		if err := cutFile(fs, last, int64(len(fd.good))); err != nil {
			return uncopied, err
		}
	}
	return uncopied, renew(fs, last, fd.good)
}

// renew makes what was read of the last segment durable. After an fsync that failed in
// an earlier life the page cache may show bytes that the disk lacks, and no later fsync
// writes them. So what was read is written to a fresh file before it counts.
//
// A full disk has no room for that file. Then the same bytes are written over
// themselves: that makes the pages dirty, so the fsync writes them, and needs no new
// blocks. It is safe as well, since nothing changes. Wherever the disk has a frame
// already, a power cut halfway leaves old bytes or new ones, and they are equal. Where it
// hasn't, the frame was never acknowledged by a life that syncs first; a part of it is a
// torn tail, as before. The copy goes first because a disk that loses its power
// while it writes a sector may spoil that sector: then the old file is still there.
func renew(fs vfs.FS, name string, data []byte) error {
	err := writeFile(fs, name, data)
	if isFull(err) {
		err = rewriteFile(fs, name, data)
	}
	if err != nil {
		return fmt.Errorf("renew last segment: %w", err)
	}
	return nil
}

// isFull says whether an operation failed for want of space and has left what was
// there before.
func isFull(err error) bool {
	return !errors.Is(err, errUnsureName) && (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT))
}

// cutFile cuts a file and makes the cut durable.
func cutFile(fs vfs.FS, name string, size int64) error {
	f, err := fs.OpenWrite(name)
	if err != nil {
		return fmt.Errorf("cut torn tail: %w", err)
	}
	err = f.Truncate(size)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("cut torn tail of %s: %w", name, err)
	}
	if err := fs.SyncDir(filepath.Dir(name)); err != nil {
		return fmt.Errorf("cut torn tail of %s: sync directory: %w", name, err)
	}
	return nil
}

// keepCopy writes the torn bytes beside the journal, for a human to look at, and
// removes all but the newest copies.
func keepCopy(fs vfs.FS, dataDir, segmentPath string, fd found) error {
	if free, err := fs.Free(dataDir); err != nil || free < uint64(len(fd.torn))+droppedRoom {
		return fmt.Errorf("keep a copy of the torn tail: %w", errors.Join(err, fmt.Errorf("%d bytes are free", free)))
	}
	dir := filepath.Join(dataDir, droppedDir)
	if err := fs.MkdirAll(dir); err != nil {
		return fmt.Errorf("keep a copy of the torn tail: %w", err)
	}
	// Names grow with the journal, so the order of names is the order of age.
	name := fmt.Sprintf("%s-%010d%s", filepath.Base(segmentPath), len(fd.good), droppedSuffix)
	if err := writeFile(fs, filepath.Join(dir, name), fd.torn); err != nil {
		return fmt.Errorf("keep a copy of the torn tail: %w", err)
	}
	infos, err := fs.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("keep a copy of the torn tail: %w", err)
	}
	infos = slices.DeleteFunc(infos, func(i vfs.Info) bool { return !strings.HasSuffix(i.Name, droppedSuffix) })
	for len(infos) > droppedKeep {
		if err := fs.Remove(filepath.Join(dir, infos[0].Name)); err != nil {
			return fmt.Errorf("remove an old copy of a torn tail: %w", err)
		}
		infos = infos[1:]
	}
	return nil
}

// removeSegments deletes whole segments, the oldest first, and makes that
// durable. Any of them may be gone already.
func removeSegments(fs vfs.FS, dir string, segments []segment) error {
	for _, seg := range segments {
		err := fs.Remove(filepath.Join(dir, segmentName(seg.first)))
		if err != nil && !errors.Is(err, iofs.ErrNotExist) {
			return fmt.Errorf("remove segment: %w", err)
		}
	}
	if len(segments) == 0 {
		return nil
	}
	if err := fs.SyncDir(dir); err != nil {
		return fmt.Errorf("sync journal directory: %w", err)
	}
	return nil
}
