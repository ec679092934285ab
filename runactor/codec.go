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
//	  trigger, idempotency key, request id, past, lineage ]
//
//	stamp    nil | see flow.WriteStamp
//	lineage  nil | [ gated from, gated root, parent, origin ]
//	past   nil | [ fence, worker, version, lease, backoff, attempts, attempt,
//	               failures, started, until, last kind, last fence, ended,
//	               result, error type, error text, reason, dropped, [ entry, ... ],
//	               since, wait, successor, chain, book ]
//	entry  [ kind, at, until, fence, attempt, text, text, nil | [ name, visit, runs ] ]
//	wait   nil | [ kind, name, visit, number, runs, [ nil | outcome, ... ] ]
//	book   nil | [ last, fresh, state, [ item, ... ], [ signal, ... ], [ waiter, ... ] ]
//	item   [ kind, name, visit, payload, error type, error text, cost, signal, request,
//	         runs, [ outcome, ... ] ]
//	outcome [ status, payload, error type, error text ]
//
// Runs are ids of 16 bytes in one text of bytes. The end of a lease is not in it: Resume
// makes a new one. Version 1 had no lineage, and nothing behind the entries.
const (
	snapshotVersion = 2

	runParts      = 13
	pastParts     = 24
	entryParts    = 8
	lineageParts  = 4
	detailParts   = 3
	waitParts     = 6
	bookParts     = 6
	itemParts     = 11
	outcomeParts  = 4
	oldRunParts   = 12
	oldPastParts  = 19
	oldEntryParts = 7
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
	writeLineage(&w, r.from)
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
		if e.more == nil {
			w.Nil()
			continue
		}
		w.Array(detailParts)
		w.Text(e.more.name)
		w.Number(e.more.visit)
		w.Bytes(flow.EncodeRunIDs(e.more.runs))
	}
	w.Number(int64(p.since))
	b := p.book
	if b == nil {
		b = &emptyBook
	}
	writeWait(w, &b.wait)
	flow.WriteRunID(w, &b.successor)
	w.Number(int64(b.chain))
	writeBook(w, p.book)
}

func writeLineage(w *pack.Writer, l *lineage) {
	if l == nil {
		w.Nil()
		return
	}
	w.Array(lineageParts)
	flow.WriteRunID(w, &l.gatedFrom)
	flow.WriteRunID(w, &l.gatedRoot)
	flow.WriteRunID(w, &l.parent)
	w.Text(l.origin)
}

func writeWait(w *pack.Writer, v *wait) {
	if v.kind == waitNone {
		w.Nil()
		return
	}
	w.Array(waitParts)
	w.Number(int64(v.kind))
	w.Text(v.name)
	w.Number(v.visit)
	w.Number(int64(v.number))
	w.Bytes(flow.EncodeRunIDs(v.awaited))
	w.Array(len(v.known))
	for i := range v.known {
		if !v.ended[i] {
			w.Nil()
			continue
		}
		writeOutcome(w, &v.known[i])
	}
}

func writeOutcome(w *pack.Writer, o *Outcome) {
	w.Array(outcomeParts)
	w.Number(int64(o.Status))
	w.Bytes(o.Payload)
	w.Text(o.ErrType)
	w.Text(o.ErrText)
}

func writeBook(w *pack.Writer, b *book) {
	if b == nil || b.empty() {
		w.Nil()
		return
	}
	w.Array(bookParts)
	w.Number(int64(b.last))
	w.Number(int64(b.fresh))
	w.Bytes(b.state)
	w.Array(len(b.items))
	for i := range b.items {
		writeItem(w, &b.items[i])
	}
	w.Array(len(b.signals))
	for i := range b.signals {
		flow.WriteSignal(w, &b.signals[i])
	}
	w.Array(len(b.waiters))
	for i := range b.waiters {
		flow.WriteWaiter(w, &b.waiters[i])
	}
}

func writeItem(w *pack.Writer, it *Item) {
	w.Array(itemParts)
	w.Number(int64(it.Kind))
	w.Text(it.Name)
	w.Number(it.Visit)
	w.Bytes(it.Payload)
	w.Text(it.ErrType)
	w.Text(it.ErrText)
	w.Number(it.Cost)
	w.Number(int64(it.Signal))
	w.Text(it.Request)
	w.Bytes(flow.EncodeRunIDs(it.Runs))
	w.Array(len(it.Outcomes))
	for i := range it.Outcomes {
		writeOutcome(w, &it.Outcomes[i])
	}
}
