package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

// Bounds of the journal. They limit what is written, and what a damaged length
// can make the reader allocate.
const (
	// frameItemsMax is the number of items in one frame.
	frameItemsMax = 4096
	// frameBodyBytesMax is the body of one frame.
	frameBodyBytesMax = 4 << 20
	// commitBytesMax is what one commit takes from the queue; a single larger item
	// travels alone.
	commitBytesMax = 1 << 20
	// itemBytesMax is one encoded item: the largest entry and its head.
	itemBytesMax = engine.MaxEntryBytes + itemHeadBytesMax
)

// A frame is what one group commit writes: the data of one entry of tidwall/wal.
// Numbers are little endian.
//
//	offset  bytes
//	     0      4  magic "pyrj"
//	     4      1  version, 1
//	     5      1  flags
//	     6      8  node epoch: the boot counter of the life that wrote the frame
//	    14      8  wal index: the number of the frame, 1, 2, 3, ...
//	    22      8  first seq: journal number of the first item
//	    30      4  item count, at least 1
//	    34      4  body length
//	    38      4  crc32c of bytes 0 to 37 and of the body
//	    42         body: item count times ( item length, 4 bytes | item )
//
// Index and epoch stand under the checksum, so a frame in a wrong place is found
// out even when each of its bytes is right: indexes are contiguous, first seq
// goes on where the frame before ended, epochs never fall and never exceed the
// manifest's. A run of zeros is never a frame, since its length would be zero.
const (
	frameMagic   = "pyrj"
	frameVersion = 1

	offVersion = 4
	offFlags   = 5
	offEpoch   = 6
	offIndex   = 14
	offFirst   = 22
	offItems   = 30
	offBody    = 34
	offSum     = 38

	frameHeadBytes  = 42
	frameBytesMax   = frameHeadBytes + frameBodyBytesMax
	itemLengthBytes = 4
)

const (
	// flagSynced says that every earlier frame was on disk when this one was
	// written: damage before such a frame can't come from a power cut.
	flagSynced = 1 << iota
	// flagLazy says that this life acknowledges before it calls fsync: more than
	// one frame behind this one may be torn by a power cut.
	flagLazy

	flagsKnown = flagSynced | flagLazy
)

// castagnoli is the polynomial that processors have an instruction for.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrNewerFormat is returned for a file, frame or item that is whole but written
// in a format that this program doesn't know. Nothing is cut or repaired then.
var ErrNewerFormat = errors.New("persistence: format is newer than this program")

// errFrame is the base of what can be wrong with the bytes of a frame.
var errFrame = errors.New("not a whole frame")

// frame is a decoded frame. body aliases the bytes it was decoded from.
type frame struct {
	flags uint8
	epoch uint64
	index uint64
	first uint64
	items uint32
	body  []byte
}

// next is the journal number of the item after the frame.
func (f frame) next() uint64 { return f.first + uint64(f.items) }

// decodeFrame checks and decodes a frame that fills data exactly. An error is
// errFrame, wrapped with what was found, or ErrNewerFormat.
func decodeFrame(data []byte) (frame, error) {
	f, err := peekFrame(data)
	if err != nil {
		return frame{}, err
	}
	if len(data) != frameHeadBytes+len(f.body) {
		return frame{}, fmt.Errorf("%w: %d bytes, the head says %d", errFrame, len(data), frameHeadBytes+len(f.body))
	}
	stored := binary.LittleEndian.Uint32(data[offSum:])
	if sum := frameSum(data[:offSum], f.body); sum != stored {
		return frame{}, fmt.Errorf("%w: checksum %08x, stored %08x", errFrame, sum, stored)
	}
	// The checksum comes first: a flipped bit in the version is damage, a whole
	// frame of another version is not.
	if data[offVersion] != frameVersion || f.flags&^flagsKnown != 0 {
		return frame{}, fmt.Errorf("frame %d version %d flags %02x: %w", f.index, data[offVersion], f.flags, ErrNewerFormat)
	}
	return f, nil
}

// peekFrame reads the head at the start of data without looking at the checksum.
// The body is cut from data, which may go on behind it.
func peekFrame(data []byte) (frame, error) {
	if len(data) < frameHeadBytes {
		return frame{}, fmt.Errorf("%w: %d bytes, a head has %d", errFrame, len(data), frameHeadBytes)
	}
	if string(data[:offVersion]) != frameMagic {
		return frame{}, fmt.Errorf("%w: magic %q", errFrame, data[:offVersion])
	}
	f := frame{
		flags: data[offFlags],
		epoch: binary.LittleEndian.Uint64(data[offEpoch:]),
		index: binary.LittleEndian.Uint64(data[offIndex:]),
		first: binary.LittleEndian.Uint64(data[offFirst:]),
		items: binary.LittleEndian.Uint32(data[offItems:]),
	}
	body := binary.LittleEndian.Uint32(data[offBody:])
	switch {
	case body > frameBodyBytesMax:
		return frame{}, fmt.Errorf("%w: body of %d bytes, at most %d", errFrame, body, frameBodyBytesMax)
	case f.items == 0 || f.items > frameItemsMax:
		return frame{}, fmt.Errorf("%w: %d items, 1 to %d", errFrame, f.items, frameItemsMax)
	case int(body) > len(data)-frameHeadBytes:
		return frame{}, fmt.Errorf("%w: body of %d bytes, %d are there", errFrame, body, len(data)-frameHeadBytes)
	}
	f.body = data[frameHeadBytes : frameHeadBytes+int(body)]
	return f, nil
}

// frameSum is the checksum over the head up to the checksum, and the body.
func frameSum(head, body []byte) uint32 {
	return crc32.Update(crc32.Update(0, castagnoli, head), castagnoli, body)
}

// frameWriter builds one frame after the other in a buffer that it keeps. It is
// for one goroutine.
type frameWriter struct {
	codec itemEncoder
	items uint32
}

// reset begins a frame.
func (w *frameWriter) reset() {
	w.items = 0
	w.codec.reset()
}

// add appends one item.
func (w *frameWriter) add(it *item) error {
	w.items++
	return w.codec.encode(it)
}

// finish fills the head of a frame whose items were added. The result is valid
// until the next reset.
func (w *frameWriter) finish(f frame) []byte {
	buf := w.codec.out.b
	copy(buf, frameMagic)
	buf[offVersion] = frameVersion
	buf[offFlags] = f.flags
	binary.LittleEndian.PutUint64(buf[offEpoch:], f.epoch)
	binary.LittleEndian.PutUint64(buf[offIndex:], f.index)
	binary.LittleEndian.PutUint64(buf[offFirst:], f.first)
	binary.LittleEndian.PutUint32(buf[offItems:], w.items)
	binary.LittleEndian.PutUint32(buf[offBody:], uint32(len(buf)-frameHeadBytes))
	binary.LittleEndian.PutUint32(buf[offSum:], frameSum(buf[:offSum], buf[frameHeadBytes:]))
	return buf
}
