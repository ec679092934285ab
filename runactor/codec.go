package runactor

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/pyrula/pyrula-node/flow"
)

// A run in a snapshot is one msgpack array:
//
//	[ version, id, status, marks, order, workflow, params, stamp,
//	  trigger, idempotency key, request id, past ]
//
//	stamp  nil | [ version, rank, unknown, gate, ... ]
//	gate   [ kind, key name, key, max, interval, burst ]
//	past   nil | [ fence, worker, version, lease, backoff, attempts, attempt,
//	               failures, started, until, last kind, last fence, ended,
//	               result, error type, error text, reason, dropped, [ entry, ... ] ]
//	entry  [ kind, at, until, fence, attempt, text, text ]
//
// The end of a lease is not in it: Resume makes a new one.
const (
	snapshotVersion = 1

	runParts   = 12
	gateParts  = 6
	stampParts = 3 // and one for each gate
	pastParts  = 19
	entryParts = 7
)

// What a decoder takes before it calls a snapshot damaged. The bounds are looser
// than those of Step, so that what was accepted once can always be read back.
const (
	maxTextBytes = 64 << 10
	maxBodyBytes = 2 << 20
	maxGates     = 8
	readChunk    = 64 << 10 // at most this much is allocated ahead of the bytes read
)

// ErrSnapshot is the family of everything that can't be decoded into a run:
// damage, or a format that is newer than this build.
var ErrSnapshot = errors.New("runactor: can't decode the run")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrSnapshot, fmt.Sprintf(format, args...))
}

// Fingerprint is the run's whole durable state in bytes: equal for equal states.
// It is what a snapshot holds.
func (r *Run) Fingerprint() []byte {
	var buf bytes.Buffer
	if err := r.EncodeMsgpack(msgpack.NewEncoder(&buf)); err != nil {
		panic("runactor: a buffer refused bytes: " + err.Error()) // it grows or panics by itself
	}
	return buf.Bytes()
}

// EncodeMsgpack writes the whole run but the end of its lease. Error: the
// encoder's own.
func (r *Run) EncodeMsgpack(enc *msgpack.Encoder) error {
	w := writer{enc: enc}
	w.array(runParts)
	w.number(snapshotVersion)
	w.body(r.id[:])
	w.number(int64(r.status))
	w.number(int64(r.marks))
	w.number(int64(r.order))
	w.text(r.workflow)
	w.body(r.params)
	w.stamp(r.stamp)
	w.text(r.trigger)
	w.text(r.idempotencyKey)
	w.text(r.requestID)
	w.past(r.past)
	return w.err
}

// writer chains encoder calls and keeps the first error.
type writer struct {
	enc *msgpack.Encoder
	err error
}

func (w *writer) array(n int) {
	if w.err == nil {
		w.err = w.enc.EncodeArrayLen(n)
	}
}

func (w *writer) number(v int64) {
	if w.err == nil {
		w.err = w.enc.EncodeInt(v)
	}
}

func (w *writer) text(s string) {
	if w.err == nil {
		w.err = w.enc.EncodeString(s)
	}
}

// body writes bytes; nil and empty are one.
func (w *writer) body(b []byte) {
	if b == nil {
		b = []byte{}
	}
	if w.err == nil {
		w.err = w.enc.EncodeBytes(b)
	}
}

func (w *writer) absent() {
	if w.err == nil {
		w.err = w.enc.EncodeNil()
	}
}

func (w *writer) flag(yes bool) {
	if w.err == nil {
		w.err = w.enc.EncodeBool(yes)
	}
}

func (w *writer) stamp(s *flow.Stamp) {
	if s == nil {
		w.absent()
		return
	}
	w.array(stampParts + len(s.Gates))
	w.text(s.Version)
	w.number(s.VersionRank)
	w.flag(s.Unknown)
	for i := range s.Gates {
		g := &s.Gates[i]
		w.array(gateParts)
		w.number(int64(g.Kind))
		w.text(g.KeyName)
		w.text(g.Key)
		w.number(g.Max)
		w.number(int64(g.Interval))
		w.number(g.Burst)
	}
}

func (w *writer) past(p *past) {
	if p == nil {
		w.absent()
		return
	}
	w.array(pastParts)
	w.number(int64(p.fence))
	w.text(p.worker)
	w.text(p.version)
	w.number(int64(p.lease))
	w.number(int64(p.backoff))
	w.number(p.attempts)
	w.number(p.attempt)
	w.number(p.failures)
	w.number(int64(p.started))
	w.number(int64(p.until))
	w.number(int64(p.last.kind))
	w.number(int64(p.last.fence))
	w.number(int64(p.ended))
	w.body(p.result)
	w.text(p.errType)
	w.text(p.errText)
	w.text(p.reason)
	w.number(p.journal.dropped)
	w.array(len(p.journal.kept))
	for i := range p.journal.kept {
		e := &p.journal.kept[i]
		w.array(entryParts)
		w.number(int64(e.kind))
		w.number(int64(e.at))
		w.number(int64(e.until))
		w.number(int64(e.fence))
		w.number(e.attempt)
		w.text(e.a)
		w.text(e.b)
	}
}
