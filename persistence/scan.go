package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// scanBounds is what the manifest says about the journal.
type scanBounds struct {
	// need is the lowest index that recovery needs. Segments wholly below it are
	// left out: they are what an interrupted deletion has left.
	need uint64
	// durable is an index that was on disk once: the journal must reach it.
	durable uint64
	// epoch is the highest epoch that a frame may have.
	epoch uint64
	// mark is a frame and the item behind it; nil when nobody remembers one.
	mark *mark
}

// found is what a scan has found.
type found struct {
	segments []segment // those that count, ascending
	obsolete []segment // those below need
	first    uint64    // index of the first frame, or of the next when there is none
	last     uint64    // index of the last frame; first-1 when there is none
	next     uint64    // journal number of the next item, 0 when no frame was seen
	epoch    uint64    // of the last frame
	flags    uint8     // of the last frame
	frames   int64
	items    int64
	bytes    int64
	// good are the whole frames of the last segment, torn what stands behind them.
	good, torn []byte
}

// scanner walks all frames of a journal in order and decides about damage:
//
//   - In a segment that isn't the last one every byte was synced before the next
//     file was made: damage there is refused.
//   - In the last segment the bytes from the first bad frame on are a torn tail if
//     they can be one: the write that was under way. A whole frame behind them, or
//     more bytes than one frame has, were written after it was on disk: refused.
//   - A whole frame in the wrong place is refused wherever it stands.
//
// A life that acknowledges before fsync (flagLazy) leaves a longer tail, of which
// the disk may have kept any piece: there only a frame that says that all before
// it was on disk (flagSynced) proves damage.
//
// Bit rot in the last frame looks like a torn write and can't be told from one
// without a second copy. So the cut bytes are counted and kept beside.
type scanner struct {
	fs     vfs.FS
	dir    string
	bounds scanBounds
	// visit is called for each frame in order; nil visits nothing. The frame
	// aliases the segment's memory, which stays valid.
	visit func(frame) error
	// segment is called before each segment is read; nil does nothing.
	segment func(s segment, at, of int) error

	found found
}

// run scans the journal. Errors: *DamageError, ErrNewerFormat, I/O, and those of
// visit.
func (s *scanner) run() (found, error) {
	list, err := listJournal(s.fs, s.dir)
	if err != nil {
		return found{}, err
	}
	s.found = found{}
	s.found.obsolete, s.found.segments = splitObsolete(list.segments, s.bounds.need)
	if err := s.start(); err != nil {
		return found{}, err
	}
	for i, seg := range s.found.segments {
		if s.segment != nil {
			if err := s.segment(seg, i, len(s.found.segments)); err != nil {
				return found{}, err
			}
		}
		if err := s.scanSegment(seg, i == len(s.found.segments)-1); err != nil {
			return found{}, err
		}
	}
	if s.found.last < s.bounds.durable {
		return found{}, &DamageError{
			File: s.dir, Offset: 0,
			Expected: fmt.Sprintf("a journal up to frame %d", s.bounds.durable),
			Found:    fmt.Sprintf("its end behind frame %d", s.found.last),
		}
	}
	return s.found, nil
}

// splitObsolete divides off the segments that end below need.
func splitObsolete(all []segment, need uint64) (obsolete, rest []segment) {
	n := 0
	for n+1 < len(all) && all[n+1].first <= need {
		n++
	}
	return all[:n], all[n:]
}

// start checks where the journal begins.
func (s *scanner) start() error {
	if len(s.found.segments) == 0 {
		s.found.first, s.found.last = 1, 0
		return nil
	}
	first := s.found.segments[0].first
	s.found.first, s.found.last = first, first-1
	if first > s.bounds.need {
		return &DamageError{
			File: filepath.Join(s.dir, segmentName(first)), Offset: 0,
			Expected: fmt.Sprintf("a journal from frame %d on", s.bounds.need),
			Found:    fmt.Sprintf("frame %d as the first", first),
		}
	}
	return nil
}

func (s *scanner) scanSegment(seg segment, last bool) error {
	name := filepath.Join(s.dir, segmentName(seg.first))
	if want := s.found.last + 1; seg.first != want {
		return &DamageError{
			File: name, Offset: 0,
			Expected: fmt.Sprintf("a segment that begins with frame %d", want),
			Found:    fmt.Sprintf("one that begins with frame %d", seg.first),
		}
	}
	data, err := readFile(s.fs, name, segmentFileBytesMax)
	if err != nil {
		return err
	}
	at := 0
	for at < len(data) {
		f, size, err := cutFrame(data[at:])
		if errors.Is(err, ErrNewerFormat) {
			return fmt.Errorf("%s offset %d: %w", name, at, err)
		}
		if err != nil {
			bad := badFrame{name: name, data: data, at: at, cause: err}
			if last && s.tornTail(bad) {
				break
			}
			return s.damage(bad)
		}
		if err := s.accept(f, name, at); err != nil {
			return err
		}
		at += size
	}
	s.found.bytes += int64(at)
	if last {
		s.found.good, s.found.torn = data[:at:at], data[at:]
	}
	return nil
}

// cutFrame takes the frame, and its length, from the start of data. size is the
// number of bytes of both.
func cutFrame(data []byte) (f frame, size int, err error) {
	n, k := binary.Uvarint(data)
	if k <= 0 {
		return frame{}, 0, fmt.Errorf("%w: no length", errFrame)
	}
	if n < frameHeadBytes || n > frameBytesMax {
		return frame{}, 0, fmt.Errorf("%w: length %d, %d to %d", errFrame, n, frameHeadBytes, frameBytesMax)
	}
	if n > uint64(len(data)-k) {
		return frame{}, 0, fmt.Errorf("%w: length %d, %d bytes are there", errFrame, n, len(data)-k)
	}
	f, err = decodeFrame(data[k : k+int(n)])
	return f, k + int(n), err
}

// accept checks the place of a whole frame and visits it.
func (s *scanner) accept(f frame, name string, at int) error {
	fd := &s.found
	wrong := func(expected, is string) error {
		return &DamageError{File: name, Offset: int64(at), Expected: expected, Found: is}
	}
	switch {
	case f.index != fd.last+1:
		return wrong(fmt.Sprintf("frame %d", fd.last+1), fmt.Sprintf("frame %d", f.index))
	case f.epoch < fd.epoch || f.epoch > s.bounds.epoch:
		return wrong(fmt.Sprintf("an epoch from %d to %d", fd.epoch, s.bounds.epoch), fmt.Sprintf("epoch %d", f.epoch))
	case fd.next != 0 && f.first != fd.next:
		return wrong(fmt.Sprintf("item %d", fd.next), fmt.Sprintf("item %d", f.first))
	case !s.bounds.mark.agrees(f):
		return wrong(fmt.Sprintf("item %d behind frame %d", s.bounds.mark.Next, s.bounds.mark.Frame),
			fmt.Sprintf("a frame %d of the journal of another node", f.index))
	}
	if s.visit != nil {
		err := s.visit(f)
		if errors.Is(err, errItem) {
			return wrong("a frame of whole items", err.Error())
		}
		if errors.Is(err, ErrNewerFormat) {
			return fmt.Errorf("%s offset %d: %w", name, at, err)
		}
		if err != nil {
			return err
		}
	}
	fd.last, fd.epoch, fd.flags, fd.next = f.index, f.epoch, f.flags, f.next()
	fd.frames++
	fd.items += int64(f.items)
	return nil
}

// badFrame is a place in a segment where no whole frame stands.
type badFrame struct {
	name  string
	data  []byte // the whole segment
	at    int
	cause error
}

func (s *scanner) damage(b badFrame) error {
	return &DamageError{
		File: b.name, Offset: int64(b.at),
		Expected: fmt.Sprintf("frame %d", s.found.last+1), Found: b.cause.Error(),
	}
}

// tornTail says whether the bytes from a bad frame to the end of the last segment
// can be what a crash left of unfinished writes.
func (s *scanner) tornTail(b badFrame) bool {
	rest := b.data[b.at:]
	if s.reachesEnd(rest) {
		return true
	}
	lazy := s.found.flags&flagLazy != 0
	if !lazy {
		if len(rest) > binary.MaxVarintLen32+frameBytesMax || s.endsEarly(rest) {
			return false
		}
	}
	return !s.laterFrame(rest, lazy)
}

// endsEarly says whether rest begins with the outline of the expected frame, and
// goes on behind it. A write that was under way has nothing behind it.
func (s *scanner) endsEarly(rest []byte) bool {
	n, k := binary.Uvarint(rest)
	if k <= 0 || n > frameBytesMax || uint64(len(rest)-k) <= n {
		return false
	}
	f, err := peekFrame(rest[k : k+int(n)])
	return err == nil && f.index == s.found.last+1 && frameHeadBytes+len(f.body) == int(n)
}

// reachesEnd says whether rest is the beginning of the expected frame and nothing
// else: its two lengths agree, and it ends where the file does or would end behind it.
// Then there is no later frame to search for, whatever its body looks like.
func (s *scanner) reachesEnd(rest []byte) bool {
	n, k := binary.Uvarint(rest)
	if k <= 0 || n > frameBytesMax || uint64(len(rest)-k) > n || len(rest)-k < frameHeadBytes {
		return false
	}
	head := rest[k:]
	return string(head[:offVersion]) == frameMagic &&
		uint64(binary.LittleEndian.Uint32(head[offBody:]))+frameHeadBytes == n &&
		binary.LittleEndian.Uint64(head[offIndex:]) == s.found.last+1 &&
		binary.LittleEndian.Uint64(head[offFirst:]) == s.found.next
}

// laterFrame searches rest for a whole frame that comes after the expected one.
// In a lazy life only a frame counts before which everything was synced.
//
// Payloads are chosen by others and may hold thousands of false heads; checksums
// are computed over a bounded number of bytes, and running out of them counts as
// having found a frame, which refuses the start instead of cutting.
func (s *scanner) laterFrame(rest []byte, lazy bool) bool {
	budget := searchPasses * len(rest)
	for at := 1; at+frameHeadBytes <= len(rest); at++ {
		if rest[at] != frameMagic[0] {
			continue
		}
		f, err := peekFrame(rest[at:])
		if err != nil || !s.plausible(f, len(rest)) || (lazy && f.flags&flagSynced == 0) {
			continue
		}
		size := frameHeadBytes + len(f.body)
		if budget -= size; budget < 0 {
			return true
		}
		if _, err := decodeFrame(rest[at : at+size]); err == nil || errors.Is(err, ErrNewerFormat) {
			return true
		}
	}
	return false
}

// searchPasses bounds the search for later frames: so many times the length of
// what is searched.
const searchPasses = 64

// plausible says whether a head can belong to a frame behind the expected one. The
// numbers of its items can't be guessed by whoever writes a body, since a journal begins
// with a random one; and the items in between had at least a byte each.
func (s *scanner) plausible(f frame, restBytes int) bool {
	ahead := f.index - (s.found.last + 1)
	near := s.found.next == 0 || f.first-s.found.next <= uint64(restBytes)
	return f.index > s.found.last+1 && ahead <= uint64(restBytes/frameHeadBytes) && near &&
		f.epoch >= s.found.epoch && f.epoch <= s.bounds.epoch && f.first > s.found.next
}
