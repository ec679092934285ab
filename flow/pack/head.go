package pack

import (
	"encoding/binary"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// What lies in memory is read here without the decoder, in the forms that a Writer
// usually gives it. A length of 0 stands for every other form, and for what isn't
// whole: then the decoder decides.

// number is the integer at the start of b, and the length of its form.
func number(b []byte) (v int64, length int) {
	if len(b) == 0 {
		return 0, 0
	}
	switch c := b[0]; {
	case msgpcode.IsFixedNum(c):
		return int64(int8(c)), 1
	case c == msgpcode.Uint8 && len(b) > 1:
		return int64(b[1]), 2
	case c == msgpcode.Uint16 && len(b) > 2:
		return int64(binary.BigEndian.Uint16(b[1:])), 3
	case c == msgpcode.Uint32 && len(b) > 4:
		return int64(binary.BigEndian.Uint32(b[1:])), 5
	case (c == msgpcode.Uint64 || c == msgpcode.Int64) && len(b) > 8:
		return int64(binary.BigEndian.Uint64(b[1:])), 9
	}
	return 0, 0
}

// text is the string or the bytes at the start of b, within b, and the length of its
// form.
func text(b []byte) (s []byte, length int) {
	if len(b) == 0 {
		return nil, 0
	}
	var n, from int
	switch c := b[0]; {
	case msgpcode.IsFixedString(c):
		n, from = int(c&msgpcode.FixedStrMask), 1
	case (c == msgpcode.Str8 || c == msgpcode.Bin8) && len(b) > 1:
		n, from = int(b[1]), 2
	case (c == msgpcode.Str16 || c == msgpcode.Bin16) && len(b) > 2:
		n, from = int(binary.BigEndian.Uint16(b[1:])), 3
	default:
		return nil, 0
	}
	if n > len(b)-from {
		return nil, 0
	}
	return b[from : from+n], from + n
}

// array is the length of the array whose head stands at the start of b: one byte.
func array(b []byte) (n int, ok bool) {
	if len(b) == 0 || !msgpcode.IsFixedArray(b[0]) {
		return 0, false
	}
	return int(b[0] & msgpcode.FixedArrayMask), true
}

// Extent is the length of the value at the start of b, with all that is in it; 0 when
// it isn't whole, or not in the forms that a Writer usually gives it. It is quick, and
// says nothing about whether the value is legal.
func Extent(b []byte) int {
	at := 0
	for left := 1; left > 0; left-- {
		rest := b[at:]
		if len(rest) == 0 {
			return 0
		}
		if n, ok := array(rest); ok {
			left += n
			at++
			continue
		}
		n := scalar(rest)
		if n == 0 {
			return 0
		}
		at += n
	}
	return at
}

// scalar is the length of the value at the start of b, which holds no others; 0 when it
// isn't whole or not in the usual forms.
func scalar(b []byte) int {
	if b[0] == msgpcode.False || b[0] == msgpcode.True {
		return 1
	}
	if _, n := number(b); n > 0 {
		return n
	}
	_, n := text(b)
	return n
}
