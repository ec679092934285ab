package archive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// Layout of a bbolt file, in the byte order of the machine:
//
//	page    id 8 | kind 2 | count 2 | overflow 4 | elements | keys and values
//	meta    magic 4 | version 4 | page size 4 | flags 4 | root 8, 8 | free list 8 | pages 8 | tx 8 | FNV-1a 8
//	branch  offset 4 | key length 4 | page 8
//	leaf    flags 4 | offset 4 | key length 4 | value length 4
//
// An offset counts from its element. The value of a bucket is root 8 | sequence 8;
// with root 0 a page of its own follows in the value.
const (
	pageHead  = 16
	elemBytes = 16
	bucketLen = 16

	branchPage = 0x01
	leafPage   = 0x02
	metaPage   = 0x04
	freePage   = 0x10

	boltMagic   = 0xED0CDAED
	boltVersion = 2
	metaBytes   = 56 // without the checksum
	noFreeList  = ^uint64(0)

	// pageSizeMax bounds what a damaged file can make us allocate.
	pageSizeMax = 1 << 16
)

var native = binary.NativeEndian

// page is a page whose elements all lie inside of it.
type page struct {
	id    uint64 // zero: inside of a bucket's value
	data  []byte // with its overflow
	kind  uint16
	count int
}

// parsePage checks a page that claims to be id.
func parsePage(id uint64, data []byte) (p page, wrong string) {
	if len(data) < pageHead {
		return page{}, fmt.Sprintf("page %d has %d bytes", id, len(data))
	}
	p = page{id: id, data: data, kind: native.Uint16(data[8:]), count: int(native.Uint16(data[10:]))}
	if have := native.Uint64(data); have != id {
		return page{}, fmt.Sprintf("page %d says it is %d", id, have)
	}
	if p.kind != branchPage && p.kind != leafPage {
		return page{}, fmt.Sprintf("page %d is of kind %#x", id, p.kind)
	}
	ends := pageHead + p.count*elemBytes
	if ends > len(data) || p.kind == branchPage && p.count == 0 {
		return page{}, fmt.Sprintf("page %d has %d elements", id, p.count)
	}
	for i := range p.count {
		off, key, value := p.element(i)
		if off < uint64(ends) || key == 0 || off+key+value > uint64(len(data)) {
			return page{}, fmt.Sprintf("element %d of page %d lies outside of the page", i, id)
		}
		if p.kind == leafPage && native.Uint32(p.at(i)) > 1 {
			return page{}, fmt.Sprintf("element %d of page %d is of no known kind", i, id)
		}
	}
	return p, ""
}

func (p page) at(i int) []byte { return p.data[pageHead+i*elemBytes:] }

// element says where the key of an element begins, and how long key and value are.
func (p page) element(i int) (off, key, value uint64) {
	e := p.at(i)
	base := uint64(pageHead + i*elemBytes)
	if p.kind == branchPage {
		return base + uint64(native.Uint32(e)), uint64(native.Uint32(e[4:])), 0
	}
	return base + uint64(native.Uint32(e[4:])), uint64(native.Uint32(e[8:])), uint64(native.Uint32(e[12:]))
}

func (p page) key(i int) []byte {
	off, n, _ := p.element(i)
	return p.data[off : off+n : off+n]
}

func (p page) value(i int) []byte {
	off, k, n := p.element(i)
	return p.data[off+k : off+k+n : off+k+n]
}

// child is the page below an element of a branch.
func (p page) child(i int) uint64 { return native.Uint64(p.at(i)[8:]) }

// isBucket says whether the value of a leaf's element is a bucket.
func (p page) isBucket(i int) bool { return native.Uint32(p.at(i)) == 1 }

// meta is what one meta page says.
type meta struct {
	pageSize int
	root     uint64
	free     uint64 // page of the free list
	pages    uint64 // pages of the file; those behind were never used
	tx       uint64
}

// parseMeta checks a page that claims to be meta page id.
func parseMeta(id int, data []byte) (m meta, wrong string) {
	if len(data) < pageHead+metaBytes+8 {
		return meta{}, "it ends in a meta page"
	}
	b := data[pageHead:]
	if native.Uint32(b) != boltMagic {
		return meta{}, "it isn't a bbolt file"
	}
	if native.Uint64(data) != uint64(id) || native.Uint16(data[8:]) != metaPage {
		return meta{}, fmt.Sprintf("page %d says it is %d", id, native.Uint64(data))
	}
	if v := native.Uint32(b[4:]); v != boltVersion {
		return meta{}, fmt.Sprintf("it has bbolt version %d, want %d", v, boltVersion)
	}
	h := fnv.New64a()
	_, _ = h.Write(b[:metaBytes]) // a hash takes everything
	if h.Sum64() != native.Uint64(b[metaBytes:]) {
		return meta{}, "it has a meta page with a wrong checksum"
	}
	m = meta{
		pageSize: int(native.Uint32(b[8:])), root: native.Uint64(b[16:]), free: native.Uint64(b[32:]),
		pages: native.Uint64(b[40:]), tx: native.Uint64(b[48:]),
	}
	if m.pageSize < 1<<10 || m.pageSize > pageSizeMax || m.pageSize&(m.pageSize-1) != 0 {
		return meta{}, fmt.Sprintf("it has pages of %d bytes", m.pageSize)
	}
	return m, ""
}

// pages reads the pages of one file.
type pages struct {
	file  string // path, for errors
	r     io.ReaderAt
	size  int    // bytes of a page
	limit uint64 // pages of the file
}

func (p *pages) damaged(format string, args ...any) error {
	return &DamageError{File: p.file, What: fmt.Sprintf(format, args...)}
}

// readAt fills buf from a page on.
func (p *pages) readAt(buf []byte, id uint64) error {
	_, err := p.r.ReadAt(buf, int64(id)*int64(p.size))
	if errors.Is(err, io.EOF) {
		return p.damaged("it is cut off at page %d", id)
	}
	if err != nil {
		return fmt.Errorf("read page %d of %s: %w", id, p.file, err)
	}
	return nil
}

// raw reads a page with its overflow into buf, which may grow.
func (p *pages) raw(id uint64, buf []byte) ([]byte, error) {
	if id < 2 || id >= p.limit {
		return buf, p.damaged("a page points to page %d of %d", id, p.limit)
	}
	if cap(buf) < p.size {
		buf = make([]byte, p.size)
	}
	buf = buf[:p.size]
	if err := p.readAt(buf, id); err != nil {
		return buf, err
	}
	over := uint64(native.Uint32(buf[12:]))
	if over == 0 {
		return buf, nil
	}
	if over >= p.limit-id {
		return buf, p.damaged("page %d is %d pages long", id, over+1)
	}
	all := int(over+1) * p.size
	if cap(buf) < all {
		buf = append(make([]byte, 0, all), buf...)
	}
	buf = buf[:all]
	return buf, p.readAt(buf[p.size:], id+1)
}

// tree is one bucket.
type tree struct {
	root   uint64
	inline []byte // the page, when root is zero
}

func parseTree(value []byte) (tree, bool) {
	if len(value) < bucketLen {
		return tree{}, false
	}
	t := tree{root: native.Uint64(value)}
	if t.root == 0 {
		t.inline = append([]byte(nil), value[bucketLen:]...)
	}
	return t, true
}
