package runactor

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/pack"
)

// A run in a snapshot is one msgpack array:
//
//	[ version, id, status, marks, order, workflow, params, stamp,
//	  trigger, idempotency key, request id, past ]
//
//	stamp  nil | see flow.WriteStamp
//	past   nil | [ fence, worker, version, lease, backoff, attempts, attempt,
//	               failures, started, until, last kind, last fence, ended,
//	               result, error type, error text, reason, dropped, [ entry, ... ] ]
//	entry  [ kind, at, until, fence, attempt, text, text ]
//
// The end of a lease is not in it: Resume makes a new one.
const (
	snapshotVersion = 1

	runParts   = 12
	pastParts  = 19
	entryParts = 7
)

// What a decoder takes before it calls a snapshot damaged. The bounds are looser
// than those of Step, so that what was accepted once can always be read back.
const (
	maxTextBytes = 64 << 10
	maxBodyBytes = 2 << 20
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
	w := pack.NewWriter(enc)
	w.Array(runParts)
	w.Number(snapshotVersion)
	flow.WriteRunID(&w, &r.id)
	w.Number(int64(r.status))
	w.Number(int64(r.marks))
	w.Number(int64(r.order))
	w.Text(r.workflow)
	w.Bytes(r.params)
	flow.WriteStamp(&w, r.stamp)
	w.Text(r.trigger)
	w.Text(r.idempotencyKey)
	w.Text(r.requestID)
	writePast(&w, r.past)
	return w.Err()
}

func writePast(w *pack.Writer, p *past) {
	if p == nil {
		w.Nil()
		return
	}
	w.Array(pastParts)
	w.Number(int64(p.fence))
	w.Text(p.worker)
	w.Text(p.version)
	w.Number(int64(p.lease))
	w.Number(int64(p.backoff))
	w.Number(p.attempts)
	w.Number(p.attempt)
	w.Number(p.failures)
	w.Number(int64(p.started))
	w.Number(int64(p.until))
	w.Number(int64(p.last.kind))
	w.Number(int64(p.last.fence))
	w.Number(int64(p.ended))
	w.Bytes(p.result)
	w.Text(p.errType)
	w.Text(p.errText)
	w.Text(p.reason)
	w.Number(p.journal.dropped)
	w.Array(len(p.journal.kept))
	for i := range p.journal.kept {
		e := &p.journal.kept[i]
		w.Array(entryParts)
		w.Number(int64(e.kind))
		w.Number(int64(e.at))
		w.Number(int64(e.until))
		w.Number(int64(e.fence))
		w.Number(e.attempt)
		w.Text(e.a)
		w.Text(e.b)
	}
}
