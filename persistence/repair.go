package persistence

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pyrula/pyrula-node/persistence/vfs"
)

const (
	// droppedDir holds copies of bytes that were cut off the journal.
	droppedDir = "dropped"
	// droppedKeep is the number of those copies that are kept, the newest ones.
	droppedKeep = 4
	// droppedSuffix ends their names: <segment>-<offset>.cut
	droppedSuffix = ".cut"
)

// finishTruncation brings a journal directory into the state that the scan
// expects, before anybody opens it. The library would do so itself, but it
// deletes what stands before a START file without looking into it.
//
// This package deletes whole segments by itself and never truncates through the
// library, so a START file can only come from another tool. It is believed when
// each of its frames is whole and need, the lowest index that recovery needs,
// isn't below its first. A truncation of the end is never ours and is refused.
func finishTruncation(fs vfs.FS, dir string, need uint64) error {
	list, err := listJournal(fs, dir)
	if err != nil {
		return err
	}
	for _, name := range list.temps {
		if err := fs.Remove(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("remove unfinished file: %w", err)
		}
	}
	if list.end != "" {
		return &DamageError{
			File: filepath.Join(dir, list.end), Offset: 0,
			Expected: "segments only", Found: "an unfinished truncation of the journal's end",
		}
	}
	if list.start != "" {
		if err := finishStart(fs, dir, list, need); err != nil {
			return err
		}
	}
	if len(list.temps) == 0 && list.start == "" {
		return nil
	}
	if err := fs.SyncDir(dir); err != nil {
		return fmt.Errorf("sync journal directory: %w", err)
	}
	return nil
}

// finishStart checks a START file and puts it in the place of the segments that
// it replaces.
func finishStart(fs vfs.FS, dir string, list listing, need uint64) error {
	first, _, _ := parseSegment(list.start)
	path := filepath.Join(dir, list.start)
	if first > need {
		return &DamageError{
			File: path, Offset: 0,
			Expected: fmt.Sprintf("a journal from frame %d on", need),
			Found:    fmt.Sprintf("a truncation up to frame %d", first),
		}
	}
	data, err := readFile(fs, path, segmentFileBytesMax)
	if err != nil {
		return err
	}
	for at, index := 0, first; at < len(data); index++ {
		f, size, err := cutFrame(data[at:])
		if err == nil && f.index != index {
			err = fmt.Errorf("frame %d", f.index)
		}
		if err != nil {
			return &DamageError{
				File: path, Offset: int64(at),
				Expected: fmt.Sprintf("frame %d", index), Found: err.Error(),
			}
		}
		at += size
	}
	for _, seg := range list.segments {
		if seg.first >= first {
			break
		}
		if err := fs.Remove(filepath.Join(dir, segmentName(seg.first))); err != nil {
			return fmt.Errorf("finish truncation: %w", err)
		}
	}
	if err := fs.Rename(path, strings.TrimSuffix(path, startSuffix)); err != nil {
		return fmt.Errorf("finish truncation: %w", err)
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
	// After an fsync that failed in an earlier life the page cache may show bytes
	// that the disk lacks, and no later fsync writes them. So what was read is
	// written to a fresh file before it counts as durable.
	if err := writeFile(fs, last, fd.good); err != nil {
		return uncopied, fmt.Errorf("rewrite last segment: %w", err)
	}
	return uncopied, nil
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
