package transport

import (
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds how deep a value may be nested. Whoever reads it later recurses
// once for each level.
const maxDepth = 1000

// skip reads over one value of any type, checking that it is JSON. depth is that
// of the value: the outermost has 0.
func (r *reader) skip(depth int) {
	switch c := r.peek(); {
	case r.err != nil:
	case c == '"':
		r.quoted()
	case c == '{' || c == '[':
		if depth == maxDepth {
			r.wrong(fmt.Sprintf("must be nested at most %d deep", maxDepth))
			return
		}
		r.skipMany(depth + 1)
	case c == 't':
		r.word("true")
	case c == 'f':
		r.word("false")
	case c == 'n':
		r.word("null")
	case c == '-' || (c >= '0' && c <= '9'):
		r.skipNumber()
	default:
		r.broken()
	}
}

// skipMany reads over an object or an array.
func (r *reader) skipMany(depth int) {
	object := r.b[r.i] == '{'
	closing := r.b[r.i] + 2 // in ASCII both brackets close two after they open
	r.i++
	if r.peek() == closing {
		r.i++
		return
	}
	for r.err == nil {
		if object {
			if r.peek() != '"' {
				r.broken()
				return
			}
			if r.quoted(); r.peek() != ':' {
				r.broken()
				return
			}
			r.i++
		}
		r.skip(depth)
		switch r.peek() {
		case ',':
			r.i++
		case closing:
			r.i++
			return
		default:
			r.broken()
			return
		}
	}
}

// skipNumber reads over a number: -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?
func (r *reader) skipNumber() {
	if r.b[r.i] == '-' {
		r.i++
	}
	if r.at('0') {
		r.i++
	} else if !r.run() {
		return
	}
	if r.at('.') {
		if r.i++; !r.run() {
			return
		}
	}
	if r.at('e') || r.at('E') {
		r.i++
		if r.at('+') || r.at('-') {
			r.i++
		}
		r.run()
	}
}

// run reads one digit or more.
func (r *reader) run() bool {
	start := r.i
	for r.i < len(r.b) && r.b[r.i] >= '0' && r.b[r.i] <= '9' {
		r.i++
	}
	if r.i == start {
		r.broken()
	}
	return r.i > start
}

func (r *reader) at(c byte) bool { return r.i < len(r.b) && r.b[r.i] == c }

// quoted reads over a string and says whether it has escapes.
func (r *reader) quoted() (escaped bool) {
	r.i++
	for r.i < len(r.b) {
		switch c := r.b[r.i]; {
		case c == '"':
			r.i++
			return escaped
		case c == '\\':
			escaped = true
			if !r.escape() {
				return escaped
			}
		case c < 0x20:
			r.broken()
			return escaped
		default:
			r.i++
		}
	}
	r.broken()
	return escaped
}

// escape reads over one escape.
func (r *reader) escape() bool {
	r.i++
	if r.i >= len(r.b) {
		r.broken()
		return false
	}
	switch r.b[r.i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		r.i++
		return true
	case 'u':
		r.i++
		for range 4 {
			if r.i >= len(r.b) || hexValue(r.b[r.i]) < 0 {
				r.broken()
				return false
			}
			r.i++
		}
		return true
	}
	r.broken()
	return false
}

func hexValue(c byte) rune {
	switch {
	case c >= '0' && c <= '9':
		return rune(c - '0')
	case c >= 'a' && c <= 'f':
		return rune(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return rune(c-'A') + 10
	}
	return -1
}

// text reads a string and undoes its escapes. Without any it is a part of the
// document.
func (r *reader) text() []byte {
	start := r.i + 1
	escaped := r.quoted()
	if r.err != nil {
		return nil
	}
	in := r.b[start : r.i-1]
	if !escaped {
		return in
	}
	out, ok := unescape(in)
	if !ok {
		// Replaced by U+FFFD, two different texts would become one.
		r.wrong("must not hold half of a surrogate pair")
	}
	return out
}

// unescape undoes the escapes of a string that quoted has read. It is false for
// half of a surrogate pair.
func unescape(in []byte) ([]byte, bool) {
	out := make([]byte, 0, len(in))
	for i := 0; i < len(in); {
		if in[i] != '\\' {
			out = append(out, in[i])
			i++
			continue
		}
		c := in[i+1]
		i += 2
		if c != 'u' {
			out = append(out, plain(c))
			continue
		}
		u := hex4(in[i:])
		i += 4
		if utf16.IsSurrogate(u) {
			if len(in)-i < 6 || in[i] != '\\' || in[i+1] != 'u' {
				return nil, false
			}
			if u = utf16.DecodeRune(u, hex4(in[i+2:])); u == utf8.RuneError {
				return nil, false
			}
			i += 6
		}
		out = utf8.AppendRune(out, u)
	}
	return out, true
}

// plain is the byte that a one-letter escape stands for.
func plain(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

func hex4(b []byte) rune {
	return hexValue(b[0])<<12 | hexValue(b[1])<<8 | hexValue(b[2])<<4 | hexValue(b[3])
}
