package flow

import (
	"hash/crc32"

	"github.com/pyrula/pyrula-node/flow/pack"
)

const (
	// stampSlots bounds the stamps that one Shared remembers.
	stampSlots = 1 << 12
	// maxStampRaw bounds the bytes of a stamp that is remembered, so that the keys of
	// hostile records don't stay.
	maxStampRaw = 512
)

// Shared remembers names and stamps that were read, so that equal ones are one and a
// stamp that comes again isn't decoded again. What it remembers is bounded. It is
// owned by one goroutine; nil remembers nothing. The zero value is empty.
type Shared struct {
	names  pack.Names
	stamps []sharedStamp // by a hash of raw; a newer one takes the place of an older
}

type sharedStamp struct {
	raw   []byte
	stamp *Stamp
}

var stampHash = crc32.MakeTable(crc32.Castagnoli) // in hardware, and the same on every machine

// Name reads a text of at most limit bytes that few values fill.
func (s *Shared) Name(r *pack.Reader, limit int) string {
	if s == nil {
		return r.Text(limit)
	}
	return r.Name(&s.names, limit)
}

// ReadStamp reads what WriteStamp wrote. The stamp may be shared: it must not be
// changed.
func ReadStamp(r *pack.Reader, shared *Shared) *Stamp {
	if shared == nil || r.Failed() {
		return readStamp(r, nil)
	}
	ahead := r.Ahead()
	raw := ahead[:min(len(ahead), maxStampRaw)]
	raw = raw[:pack.Extent(raw)]
	if len(raw) <= 1 {
		return readStamp(r, shared) // nothing to remember, or not to be seen from here
	}
	slot := shared.slot(raw)
	if slot.stamp != nil && string(slot.raw) == string(raw) {
		r.Pass(len(raw))
		return slot.stamp
	}
	// The bytes are kept before they are read, since then they are gone.
	slot.raw, slot.stamp = append(slot.raw[:0], raw...), nil
	stamp := readStamp(r, shared)
	if !r.Failed() {
		slot.stamp = stamp
	}
	return stamp
}

func (s *Shared) slot(raw []byte) *sharedStamp {
	if s.stamps == nil {
		s.stamps = make([]sharedStamp, stampSlots)
	}
	return &s.stamps[crc32.Checksum(raw, stampHash)%stampSlots]
}
