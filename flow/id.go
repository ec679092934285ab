package flow

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/zeebo/xxh3"
)

// Partitions is the number of hash ranges of keys. It is fixed for ever: run ids
// carry a partition.
const Partitions = 1024

// Partition is one of the hash ranges of keys.
type Partition uint16

// RunID names one run: a UUIDv7 whose first ten random bits are the partition of
// the run's home key (P14), so any node routes any id without a look-up, and ids
// sort by time. The zero value names no run. On the wire it is "run_" and 26
// Crockford characters.
type RunID [16]byte

// Entropy is what makes a run id unique; the caller draws it.
type Entropy [10]byte

// ErrBadRunID says that a text is not a run id.
var ErrBadRunID = errors.New(`flow: a run id is "run_" and 26 characters of Crockford's base 32`)

const (
	runIDPrefix  = "run_"
	runIDTextLen = len(runIDPrefix) + 26
	crockford    = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
)

// NewRunID makes the id of a run that lives in partition p.
//
//	48 bit milliseconds | 4 bit version 7 | 10 bit partition | 2 bit random | 2 bit variant | 62 bit random
func NewRunID(now Instant, p Partition, e Entropy) RunID {
	var id RunID
	ms := uint64(now.Millis())
	binary.BigEndian.PutUint64(id[:8], ms<<16)
	a := uint16(p&(Partitions-1))<<2 | uint16(e[0])&3
	binary.BigEndian.PutUint16(id[6:8], 0x7000|a)
	copy(id[8:], e[2:])
	id[8] = id[8]&0x3F | 0x80
	return id
}

// IsZero says that id names no run.
func (id RunID) IsZero() bool { return id == RunID{} }

// Partition is the partition of the run's home key.
func (id RunID) Partition() Partition {
	return Partition(binary.BigEndian.Uint16(id[6:8]) >> 2 & (Partitions - 1))
}

// Compare orders ids by time of creation, then by their bits.
func (id RunID) Compare(o RunID) int {
	a, b := binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(o[:8])
	if a == b {
		a, b = binary.BigEndian.Uint64(id[8:]), binary.BigEndian.Uint64(o[8:])
	}
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// String is the wire form.
func (id RunID) String() string { return string(id.AppendText(make([]byte, 0, runIDTextLen))) }

// AppendText appends the wire form to b.
func (id RunID) AppendText(b []byte) []byte {
	b = append(b, runIDPrefix...)
	hi, lo := binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])
	// 128 bits are 26 digits of 5 bits with two spare bits in the first digit.
	for shift := 125; shift >= 0; shift -= 5 {
		var v uint64
		switch {
		case shift >= 64:
			v = hi >> (shift - 64)
		case shift > 59:
			v = hi<<(64-shift) | lo>>shift
		default:
			v = lo >> shift
		}
		b = append(b, crockford[v&31])
	}
	return b
}

// MarshalText is the wire form, for encoding/json.
func (id RunID) MarshalText() ([]byte, error) {
	return id.AppendText(make([]byte, 0, runIDTextLen)), nil
}

// UnmarshalText reads the wire form. Error: ErrBadRunID.
func (id *RunID) UnmarshalText(b []byte) error {
	v, err := ParseRunID(string(b))
	if err == nil {
		*id = v
	}
	return err
}

// ParseRunID reads the wire form, in either case. Error: ErrBadRunID.
func ParseRunID(s string) (RunID, error) {
	var id RunID
	if len(s) != runIDTextLen || s[:len(runIDPrefix)] != runIDPrefix {
		return id, badRunID(s)
	}
	var hi, lo uint64
	for i := len(runIDPrefix); i < len(s); i++ {
		v := crockfordValue(s[i])
		if v < 0 || (i == len(runIDPrefix) && v > 7) {
			return RunID{}, badRunID(s)
		}
		hi = hi<<5 | lo>>59
		lo = lo<<5 | uint64(v)
	}
	binary.BigEndian.PutUint64(id[:8], hi)
	binary.BigEndian.PutUint64(id[8:], lo)
	return id, nil
}

func badRunID(s string) error {
	if len(s) > 64 {
		s = s[:64] + "..."
	}
	return fmt.Errorf("%q: %w", s, ErrBadRunID)
}

func crockfordValue(c byte) int {
	if c >= 'a' && c <= 'z' {
		c -= 'a' - 'A'
	}
	return int(crockfordDigits[c])
}

// crockfordDigits is the value of each character, -1 for those that are none.
var crockfordDigits = func() (digits [256]int8) {
	for i := range digits {
		digits[i] = -1
	}
	for i := range len(crockford) {
		digits[crockford[i]] = int8(i)
	}
	return digits
}()

// KeyKind tells the actor of a resolved key value from the shared queue of runs
// that have no gate.
type KeyKind uint8

// The kinds of key actor.
const (
	KeyOfValue KeyKind = iota // the actor of (workflow, resolved key value)
	KeyUngated                // a shard's queue of a workflow's runs without gates
	KeyUnknown                // a shard's queue of its runs that were submitted before anybody declared it
)

// KeyID names a key actor. Any value is just a value: "", "*" and ":" name
// themselves (S99), and the ungated queue is told apart by its kind, never by a
// reserved value.
type KeyID struct {
	Workflow string
	Value    string
	Kind     KeyKind
}

// Partition is where the key actor of a value lives (P14). The other kinds have no
// partition of their own: every shard has one, and its runs carry random ones.
func (k KeyID) Partition() Partition {
	var buf [128]byte
	// The length keeps (workflow "a", value "bc") apart from ("ab", "c").
	b := binary.LittleEndian.AppendUint32(buf[:0], uint32(len(k.Workflow)))
	b = append(append(b, k.Workflow...), k.Value...)
	return Partition(xxh3.Hash(b) % Partitions)
}

// String is for people: logs and error texts.
func (k KeyID) String() string {
	switch k.Kind {
	case KeyUngated:
		return k.Workflow + " (no gate)"
	case KeyUnknown:
		return k.Workflow + " (unknown gates)"
	default:
		return fmt.Sprintf("%s key %q", k.Workflow, k.Value)
	}
}

// TextPartition is the partition of the actor of a global text, such as an
// idempotency key.
func TextPartition(s string) Partition { return Partition(xxh3.HashString(s) % Partitions) }
