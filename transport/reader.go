package transport

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// reader reads one JSON document that lies whole in memory, strictly: an unknown
// field, a field that stands twice, a wrong type and trailing data are errors that
// name the field and what would be right (R24). encoding/json matches names in any
// case, lets the last of two equal names win and can't say where an unknown field
// stands; hence an own reader, which is also several times faster.
//
// The first error stays and stops every loop, so callers look at err once, at the
// end. A null is read as if the field were missing.
//
// What it returns owns its bytes: the document may be overwritten afterwards. Events are
// the exception: they are parts of a document that is their own.
type reader struct {
	b     []byte
	i     int
	err   error
	kind  error   // of refused values: flow.ErrInvalid, or flow.ErrConfiguration in a declaration
	path  []place // of the value that is being read
	names []named // of the open objects' fields so far, to find one that stands twice
	// missing is the first required field that isn't there. It is told when nothing
	// else is wrong: what isn't JSON at all is the better news.
	missing error
}

// named is a field of an open object, and whether it is null.
type named struct {
	text []byte
	null bool
}

// place is one step of a path: a field, or an element when index isn't negative.
type place struct {
	name  []byte
	index int
}

// reset begins a new document. A document that isn't UTF-8 is refused at once.
func (r *reader) reset(b []byte) {
	*r = reader{b: b, kind: flow.ErrInvalid, path: r.path[:0], names: r.names[:0]}
	if utf8.Valid(b) {
		return
	}
	for i := 0; i < len(b); {
		c, n := utf8.DecodeRune(b[i:])
		if c == utf8.RuneError && n == 1 {
			r.err = malformed(i, "the body is not UTF-8")
			return
		}
		i += n
	}
}

// forget lets go of the document and of what points into it.
func (r *reader) forget() {
	clear(r.path[:cap(r.path)])
	clear(r.names[:cap(r.names)])
	*r = reader{path: r.path[:0], names: r.names[:0]}
}

func malformed(offset int, what string) error {
	return problem(wire.CodeMalformed, fmt.Sprintf("%s: offset %d", what, offset))
}

// broken says that the document is not JSON at the current byte.
func (r *reader) broken() {
	if r.err == nil {
		what := "not JSON"
		if r.i >= len(r.b) {
			what = "the JSON ends too early"
		}
		r.err = malformed(r.i, what)
	}
}

// wrong refuses the current value.
func (r *reader) wrong(want string) {
	if r.err == nil {
		r.err = &flow.FieldError{Kind: r.kind, Field: r.where(), Want: want}
	}
}

// unknown refuses the current field.
func (r *reader) unknown() { r.wrongName("is not a field of this request") }

// wrongName refuses the current field for its name.
func (r *reader) wrongName(want string) {
	if r.err == nil {
		r.err = fieldProblem(wire.CodeUnknownField, r.where(), want)
	}
}

// where is the path of the current value: "runs[3].params". The document itself
// is "body".
func (r *reader) where() string {
	if len(r.path) == 0 {
		return "body"
	}
	var text []byte
	for _, p := range r.path {
		switch {
		case p.index >= 0:
			text = append(strconv.AppendInt(append(text, '['), int64(p.index), 10), ']')
		case len(text) > 0:
			text = append(append(text, '.'), shown(p.name)...)
		default:
			text = append(text, shown(p.name)...)
		}
	}
	return string(text)
}

// shown bounds a name that a client chose, before it is given back.
func shown(name []byte) string {
	const most = flow.MaxNameBytes
	if len(name) <= most {
		return string(name)
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(name[cut]) {
		cut--
	}
	return string(name[:cut]) + "..."
}

// end reads what follows the document: nothing but white space.
func (r *reader) end() error {
	if r.err == nil {
		r.space()
		if r.i < len(r.b) {
			r.err = malformed(r.i, "data after the JSON document")
		}
	}
	if r.err == nil {
		r.err = r.missing
	}
	return r.err
}

func (r *reader) space() {
	for r.i < len(r.b) {
		switch r.b[r.i] {
		case ' ', '\t', '\n', '\r':
			r.i++
		default:
			return
		}
	}
}

// peek is the next byte that isn't white space, or 0 at the end and after an error.
func (r *reader) peek() byte {
	if r.err != nil {
		return 0
	}
	r.space()
	if r.i >= len(r.b) {
		return 0
	}
	return r.b[r.i]
}

// null reads a null if one is next.
func (r *reader) null() bool {
	if r.peek() != 'n' {
		return false
	}
	return r.word("null")
}

func (r *reader) word(w string) bool {
	if len(r.b)-r.i < len(w) || string(r.b[r.i:r.i+len(w)]) != w {
		r.broken()
		return false
	}
	r.i += len(w)
	return true
}

// members is the state of a loop over an object; elements over an array.
type members struct {
	base     int // the names of this object begin here
	begun    bool
	required []string
}

type elements struct {
	n     int
	most  int
	least int
	begun bool
}

// object begins an object; member reads its next field's name:
//
//	for m := r.object("fence"); r.member(&m); {
//		switch r.name() {
//
// An object without one of its required fields is refused. One that stands in a field
// which is required too has its whole name: "error.type".
func (r *reader) object(required ...string) members {
	m := members{base: len(r.names), required: required}
	switch r.peek() {
	case '{':
		r.i++
		r.path = append(r.path, place{index: -1})
	case 0:
		r.broken()
	default:
		r.mismatch("must be a JSON object")
	}
	return m
}

func (r *reader) member(m *members) bool {
	c := r.peek()
	switch {
	case r.err != nil:
		return false
	case c == '}':
		r.i++
		r.need(m)
		r.path = r.path[:len(r.path)-1]
		r.names = r.names[:m.base]
		return false
	case m.begun && c == ',':
		r.i++
		c = r.peek()
	case m.begun:
		r.broken()
		return false
	}
	m.begun = true
	if c != '"' {
		r.broken()
		return false
	}
	name := r.text()
	if r.peek() != ':' {
		r.broken()
		return false
	}
	r.i++
	r.path[len(r.path)-1].name = name
	return r.first(named{name, r.peek() == 'n'}, m.base)
}

// need remembers the first required field that an object doesn't have.
func (r *reader) need(m *members) {
	for _, required := range m.required {
		name, _, _ := strings.Cut(required, ".")
		there := slices.ContainsFunc(r.names[m.base:], func(n named) bool { return string(n.text) == name && !n.null })
		if !there && r.missing == nil {
			r.path[len(r.path)-1].name = []byte(required)
			r.missing = &flow.FieldError{Kind: r.kind, Field: r.where(), Want: "is required"}
		}
	}
}

// first refuses a field that stands twice: which of the two counts would be a
// guess, and a guess about a fence is no fence.
func (r *reader) first(name named, base int) bool {
	for _, earlier := range r.names[base:] {
		if string(earlier.text) == string(name.text) {
			r.wrong("must not stand twice")
			return false
		}
	}
	r.names = append(r.names, name)
	return true
}

// name is the name of the current field.
func (r *reader) name() string { return string(r.path[len(r.path)-1].name) }

// list begins an array of 1 to most elements; element steps to the next one. That it
// isn't empty is for the shape's check to say. listUpTo is list for an array that may
// be empty.
func (r *reader) list(most int) elements { return r.listFrom(1, most) }

func (r *reader) listUpTo(most int) elements { return r.listFrom(0, most) }

func (r *reader) listFrom(least, most int) elements {
	switch r.peek() {
	case '[':
		r.i++
		r.path = append(r.path, place{index: -1})
	case 0:
		r.broken()
	default:
		r.mismatch("must be a JSON array")
	}
	return elements{least: least, most: most}
}

// bounds says how many entries a list may have.
func (l *elements) bounds() string {
	if l.least == 0 {
		return fmt.Sprintf("must hold at most %d entries", l.most)
	}
	return fmt.Sprintf("must hold %d to %d entries", l.least, l.most)
}

func (r *reader) element(l *elements) bool {
	c := r.peek()
	switch {
	case r.err != nil:
		return false
	case c == ']':
		r.i++
		r.path = r.path[:len(r.path)-1]
		return false
	case l.begun && c == ',':
		r.i++
	case l.begun:
		r.broken()
		return false
	}
	l.begun = true
	if l.n == l.most {
		// Refused here and not after reading: the rest may be long.
		r.path = r.path[:len(r.path)-1]
		r.wrong(l.bounds())
		return false
	}
	r.path[len(r.path)-1].index = l.n
	l.n++
	return true
}

// mismatch refuses a value of another type, or what isn't a value at all.
func (r *reader) mismatch(want string) {
	start := r.i
	if r.skip(0); r.err == nil {
		r.i = start
		r.wrong(want)
	}
}

// str reads a string.
func (r *reader) str() string {
	if r.null() {
		return ""
	}
	if r.peek() != '"' {
		r.mismatch("must be a string")
		return ""
	}
	return string(r.text())
}

// strPtr is str, and nil when it is missing.
func (r *reader) strPtr() *string {
	if r.null() {
		return nil
	}
	return new(r.str())
}

// integer reads a whole number that fits 64 bits with a sign. want says what would be
// right; the bounds are checked later.
func (r *reader) integer(want string) int64 {
	if r.null() {
		return 0
	}
	token := r.digits(want)
	if r.err != nil {
		return 0
	}
	n, err := strconv.ParseInt(string(token), 10, 64)
	if err != nil {
		r.wrong(want)
	}
	return n
}

func (r *reader) integerPtr(want string) *int64 {
	if r.null() {
		return nil
	}
	return new(r.integer(want))
}

// fence reads a whole number without a sign.
func (r *reader) fence() uint64 {
	if r.null() {
		return 0
	}
	const want = "must be the fence of the grant, an integer of at least 1"
	token := r.digits(want)
	if r.err != nil {
		return 0
	}
	n, err := strconv.ParseUint(string(token), 10, 64)
	if err != nil {
		r.wrong(want)
	}
	return n
}

// number reads any number that fits a 64-bit float.
func (r *reader) number() float64 {
	if r.null() {
		return 0
	}
	token := r.digits("must be a number")
	if r.err != nil {
		return 0
	}
	n, err := strconv.ParseFloat(string(token), 64)
	if err != nil {
		r.wrong("must be a number")
	}
	return n
}

func (r *reader) numberPtr() *float64 {
	if r.null() {
		return nil
	}
	return new(r.number())
}

// digits reads the text of a number, a part of the document.
func (r *reader) digits(want string) []byte {
	c := r.peek()
	if c != '-' && (c < '0' || c > '9') {
		r.mismatch(want)
		return nil
	}
	start := r.i
	r.skipNumber()
	return r.b[start:r.i]
}

func (r *reader) boolean() bool {
	switch r.peek() {
	case 't':
		return r.word("true")
	case 'f':
		r.word("false")
	default:
		if !r.null() {
			r.mismatch("must be true or false")
		}
	}
	return false
}

// raw reads any value as it is written, and nil for null.
func (r *reader) raw() json.RawMessage {
	if r.null() {
		return nil
	}
	start := r.i
	r.skip(0)
	return r.since(start)
}

// since is what was read from a byte on: an exact copy, since it may be kept for as long
// as a run is queued, and the whole body would be kept with it.
func (r *reader) since(start int) json.RawMessage {
	if r.err != nil {
		return nil
	}
	own := make(json.RawMessage, r.i-start)
	copy(own, r.b[start:r.i])
	return own
}
