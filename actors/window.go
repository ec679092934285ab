package actors

import (
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// effectKind says what leaves the shard.
type effectKind uint8

const (
	effectAnswer effectKind = iota
	effectGrant
	effectLetter    // letter number of shard leaves the outbox
	effectAck       // all letters of shard up to number were received
	effectDeclared  // the node's cache of declarations is renewed
	effectCandidate // a worker is to compute a run's key
)

// effect is one thing that leaves the shard once its records are durable.
type effect struct {
	kind   effectKind
	answer answer
	grant  grantedMsg
	shard  engine.ShardID
	number uint64
	again  bool
	defs   *definitions

	candidate Candidate
}

// window holds the effects of entries that aren't durable yet, in order: the
// first law is that they leave nowhere else.
type window struct {
	effects []held
	head    int
}

type held struct {
	seq engine.Seq
	effect
}

// hold keeps e until seq is durable.
func (w *window) hold(seq engine.Seq, e effect) {
	w.effects = append(w.effects, held{seq, e})
}

// release hands over, in order, what depends on nothing after upto.
func (w *window) release(upto engine.Seq, f func(*effect)) {
	for w.head < len(w.effects) && w.effects[w.head].seq <= upto {
		f(&w.effects[w.head].effect)
		w.effects[w.head] = held{}
		w.head++
	}
	if w.head == len(w.effects) {
		w.effects, w.head = w.effects[:0], 0
	}
}

// fail answers every question that is still held with ErrOutcomeUnknown, and
// drops the rest: their records may or may not be in the log.
func (w *window) fail(f func(answer)) {
	for i := w.head; i < len(w.effects); i++ {
		if e := &w.effects[i]; e.kind == effectAnswer {
			f(answer{ask: e.answer.ask, item: e.answer.item, err: flow.ErrOutcomeUnknown})
		}
	}
	*w = window{}
}

// ring is a queue of messages.
type ring struct {
	msgs []any
	head int
}

func (r *ring) push(m any) { r.msgs = append(r.msgs, m) }

func (r *ring) len() int { return len(r.msgs) - r.head }

func (r *ring) front() any { return r.msgs[r.head] }

func (r *ring) pop() any {
	m := r.msgs[r.head]
	r.msgs[r.head] = nil
	r.head++
	if r.head == len(r.msgs) {
		r.msgs, r.head = r.msgs[:0], 0
	}
	return m
}
