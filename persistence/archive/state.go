package archive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// state is where everything stands after one transaction.
type state struct {
	meta

	owner    string
	oldest   int64 // first instant of the first day that wasn't removed; keys.db only
	data     tree  // runs, or keys
	lists    tree
	counters counters
}

func (s *state) pagesOf(path string, r io.ReaderAt) pages {
	return pages{file: path, r: r, size: s.pageSize, limit: s.pages}
}

// readState reads the newest state of a file and checks what an opener relies on:
// both meta pages, the length, the free list, the buckets, the format. When only the
// meta pages are sound, there are both a state and an error.
func readState(path, name string, disk *os.File) (*state, error) {
	m, err := readMetas(path, disk)
	if err != nil {
		return nil, err
	}
	s := &state{meta: m}
	p := s.pagesOf(path, disk)
	info, err := disk.Stat()
	if err != nil {
		return s, fmt.Errorf("read archive file: %w", err)
	}
	if have, want := info.Size(), int64(s.pages)*int64(s.pageSize); have < want {
		return s, p.damaged("it has %d bytes of %d", have, want)
	}
	if _, err := freeList(&p, m.free); err != nil {
		return s, err
	}
	return s, s.readBuckets(&p, name)
}

// readMetas returns the newer of the two meta pages. bbolt makes do with one; but a
// meta page is one sector, which a disk writes whole, so a wrong one isn't a torn
// write: it may be the one that the last acknowledged transaction wrote.
func readMetas(path string, disk io.ReaderAt) (meta, error) {
	var metas [2]meta
	size := pageBytes
	for i := range metas {
		buf := make([]byte, pageHead+metaBytes+8)
		n, err := disk.ReadAt(buf, int64(i*size))
		if err != nil && !errors.Is(err, io.EOF) {
			return meta{}, fmt.Errorf("read meta page of %s: %w", path, err)
		}
		m, wrong := parseMeta(i, buf[:n])
		if wrong != "" {
			return meta{}, &DamageError{File: path, What: wrong}
		}
		metas[i], size = m, m.pageSize
	}
	m, other := metas[0], metas[1]
	if other.tx > m.tx {
		m, other = other, m
	}
	if m.pageSize != other.pageSize || m.tx-other.tx != 1 || m.pages < 4 || m.pages > 1<<40 {
		return meta{}, &DamageError{File: path, What: "its meta pages contradict each other"}
	}
	return m, nil
}

// freeList returns the pages that the next transaction may use again.
func freeList(p *pages, id uint64) ([]uint64, error) {
	if id == noFreeList {
		return nil, p.damaged("it has no free list, so another program has written to it")
	}
	data, err := p.raw(id, nil)
	if err != nil {
		return nil, err
	}
	if native.Uint64(data) != id || native.Uint16(data[8:]) != freePage {
		return nil, p.damaged("page %d isn't the free list", id)
	}
	n, ids := uint64(native.Uint16(data[10:])), data[pageHead:]
	if n == 0xFFFF {
		n, ids = native.Uint64(ids), ids[8:]
	}
	if n > uint64(len(ids)/8) {
		return nil, p.damaged("the free list has %d pages", n)
	}
	free := make([]uint64, n)
	for i := range free {
		free[i] = native.Uint64(ids[i*8:])
		if free[i] < 2 || free[i] >= p.limit || i > 0 && free[i] <= free[i-1] {
			return nil, p.damaged("page %d in the free list isn't one", free[i])
		}
	}
	return free, nil
}

// readBuckets finds the buckets of a file and reads what it says about itself.
func (s *state) readBuckets(p *pages, name string) error {
	root := cursor{pages: p, tree: tree{root: s.root}}
	about, err := findBucket(&root, metaBucket)
	if err != nil {
		return err
	}
	c := cursor{pages: p, tree: about}
	format, _, err := c.get(formatKey)
	if err != nil {
		return err
	}
	if len(format) != 4 {
		return p.damaged("it doesn't say its format")
	}
	if v := binary.BigEndian.Uint32(format); v > formatVersion {
		return fmt.Errorf("%s has format %d, and this build reads up to %d: %w", p.file, v, formatVersion, ErrNewerFormat)
	} else if v == 0 {
		return p.damaged("it has format 0")
	}
	said, _, err := c.get(nameKey)
	if err != nil {
		return err
	}
	if string(said) != name {
		return p.damaged("it is called %s inside", said)
	}
	owner, _, err := c.get(ownerKey)
	if err != nil {
		return err
	}
	s.owner = string(owner)
	oldest, _, err := c.get(oldestKey)
	if err != nil {
		return err
	}
	if len(oldest) == 8 {
		s.oldest = int64(binary.BigEndian.Uint64(oldest))
	}
	count, _, err := c.get(countersKey)
	if err != nil {
		return err
	}
	var ok bool
	if s.counters, ok = parseCounters(count); !ok {
		return p.damaged("it has no counters")
	}
	if s.data, err = findBucket(&root, dataBucket(name)); err != nil || name == KeysName {
		return err
	}
	s.lists, err = findBucket(&root, listsBucket)
	return err
}

func findBucket(root *cursor, name []byte) (tree, error) {
	value, ok, err := root.bucket(name)
	if err != nil {
		return tree{}, err
	}
	if ok {
		var t tree
		if t, ok = parseTree(value); ok {
			return t, nil
		}
	}
	return tree{}, root.pages.damaged("it has no bucket %s", name)
}
