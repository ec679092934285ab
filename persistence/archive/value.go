package archive

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

const (
	// formatVersion is the format of a file, valueVersion that of a value in it.
	formatVersion = 1
	valueVersion  = 1

	sumBytes  = 1 + 4       // version, checksum
	headBytes = 8 + 1 + 2   // ended, kind, length of the group
	idBytes   = 16          // engine.ArchiveID
	listBytes = 2 + 1       // of a list key besides group and id
	endOfKeys = idBytes + 1 // so many 0xFF are behind every id
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// open is a value without its version and checksum, once both are right.
func open(key, value []byte) (sealed []byte, wrong string) {
	if len(value) < sumBytes {
		return nil, fmt.Sprintf("value of %x has %d bytes", key, len(value))
	}
	if value[0] != valueVersion {
		return nil, fmt.Sprintf("value of %x has version %d, want %d", key, value[0], valueVersion)
	}
	want := binary.BigEndian.Uint32(value[1:])
	if have := sum(key, value[sumBytes:]); have != want {
		return nil, fmt.Sprintf("value of %x has checksum %08x, want %08x", key, have, want)
	}
	return value[sumBytes:], ""
}

func sum(key, rest []byte) uint32 {
	return crc32.Update(crc32.Update(0, castagnoli, key), castagnoli, rest)
}

// seal fills in version and checksum of the value that begins at buf[from].
func seal(buf []byte, from int, key []byte) []byte {
	buf[from] = valueVersion
	binary.BigEndian.PutUint32(buf[from+1:], sum(key, buf[from+sumBytes:]))
	return buf
}

// appendItem appends the value of an item.
func appendItem(buf []byte, it *engine.Archived) []byte {
	from := len(buf)
	buf = append(buf, make([]byte, sumBytes)...)
	buf = binary.BigEndian.AppendUint64(buf, uint64(it.Ended))
	buf = append(buf, it.Kind)
	buf = binary.BigEndian.AppendUint16(buf, uint16(len(it.Group)))
	buf = append(buf, it.Group...)
	buf = append(buf, it.Body...)
	return seal(buf, from, it.ID[:])
}

// appendKey appends the value of a key.
func appendKey(buf []byte, key *engine.ArchivedKey) []byte {
	from := len(buf)
	buf = append(buf, make([]byte, sumBytes)...)
	buf = append(buf, key.Value...)
	return seal(buf, from, []byte(key.Text))
}

// stored is an item as a value holds it. Its slices are those of the value.
type stored struct {
	ended int64
	kind  uint8
	group []byte
	body  []byte
}

func readItem(id, value []byte) (it stored, wrong string) {
	b, wrong := open(id, value)
	if wrong != "" {
		return stored{}, wrong
	}
	if len(b) < headBytes {
		return stored{}, fmt.Sprintf("value of %x ends in its head", id)
	}
	n := int(binary.BigEndian.Uint16(b[9:]))
	if len(b) < headBytes+n || b[8] == 0 {
		return stored{}, fmt.Sprintf("value of %x has a wrong head", id)
	}
	return stored{
		ended: int64(binary.BigEndian.Uint64(b)), kind: b[8], group: b[headBytes : headBytes+n], body: b[headBytes+n:],
	}, ""
}

// list names one list: the items of a group and a kind.
type list struct {
	group string
	kind  uint8
}

// prefix is what the keys of a list begin with.
func (l list) prefix() []byte {
	buf := binary.BigEndian.AppendUint16(make([]byte, 0, listBytes+len(l.group)+endOfKeys), uint16(len(l.group)))
	buf = append(buf, l.group...)
	return append(buf, l.kind)
}

// key is the place of an item in the list.
func (l list) key(id []byte) []byte { return append(l.prefix(), id...) }

// parseListKey says which list a key of the lists belongs to.
func parseListKey(key []byte) (l list, ok bool) {
	if len(key) < listBytes+idBytes {
		return list{}, false
	}
	n := int(binary.BigEndian.Uint16(key))
	if len(key) != listBytes+n+idBytes {
		return list{}, false
	}
	return list{group: string(key[2 : 2+n]), kind: key[2+n]}, key[2+n] != 0
}

// counters is what a file says about itself.
type counters struct {
	items uint64
	bytes uint64 // of bodies, or of keys with their values
}

func (c counters) encode() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, c.items), c.bytes)
}

func parseCounters(b []byte) (counters, bool) {
	if len(b) != 16 {
		return counters{}, false
	}
	return counters{items: binary.BigEndian.Uint64(b), bytes: binary.BigEndian.Uint64(b[8:])}, true
}
