package runactor

import (
	"bytes"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/pyrula/pyrula-node/flow"
)

const (
	second = flow.Instant(flow.Second)
	lease  = 10 * flow.Second // of every scenario unless said; it expires after 13 s
)

// failer is what a world needs of a test: *testing.T and *rapid.T have it.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// world hosts one run as a shard does: Step, Apply, log. Beside the live run lives
// a replica that gets nothing but the log, through the codec, and is compared
// after each record: replay of every prefix is the live run.
type world struct {
	t       failer
	run     *Run
	replica *Run
	now     flow.Instant
	out     flow.Out
	log     []logged
	grants  int
	frees   int
	ends    int
	left    map[uint64]bool // fences whose hold is over
	laws    ledger
	large   bool // the run is too large to be written down after each record
}

// logged is one record as the journal holds it, and the run's state after it.
type logged struct {
	body  []byte
	at    flow.Instant
	after []byte
}

func testID(n byte) flow.RunID {
	return flow.NewRunID(flow.Instant(n)*second, 7, flow.Entropy{1, 2, 3, 4, 5, 6, 7, 8, 9, n})
}

func newWorld(t failer) *world { return newWorldOf(t, testID(1)) }

func newWorldOf(t failer, id flow.RunID) *world {
	return &world{t: t, run: New(id), replica: New(id), left: make(map[uint64]bool)}
}

var testStamp = &flow.Stamp{
	Version: "2", VersionRank: 2,
	Gates: []flow.Gate{{Kind: flow.GateLimit, KeyName: "tenant", Key: "acme", Max: 1}},
}

// in is an input of the run with its id filled in.
func (w *world) in(k flow.InputKind, f flow.Fields) *flow.Input {
	f.Run = w.run.ID()
	return &flow.Input{Kind: k, Fields: f}
}

// step is one turn: Step, which must change nothing and append nothing when it
// refuses, and then Apply of what it decided.
func (w *world) step(k flow.InputKind, f flow.Fields) *flow.Out {
	w.t.Helper()
	return w.send(w.in(k, f))
}

// steps is an InSteps of these parts.
func (w *world) steps(fence uint64, parts ...flow.Input) *flow.Out {
	w.t.Helper()
	in := w.in(flow.InSteps, flow.Fields{Fence: fence})
	in.Parts = parts
	return w.send(in)
}

// did is a step's outcome, as a part of InSteps.
func did(name string, visit int64, result string) flow.Input {
	return flow.Input{Kind: flow.InStep, Fields: flow.Fields{Name: name, Visit: visit, Payload: []byte(result)}}
}

// take asks for a kept signal, as a part of InSteps.
func take(name string, visit int64) flow.Input {
	return flow.Input{Kind: flow.InTake, Fields: flow.Fields{Name: name, Visit: visit}}
}

// send is a step for an input that is ready.
func (w *world) send(in *flow.Input) *flow.Out {
	w.t.Helper()
	w.out.Reset()
	before := w.written(w.run)
	dueBefore, okBefore := w.run.Due()
	w.run.Step(w.now, in, &w.out)
	if due, ok := w.run.Due(); due != dueBefore || ok != okBefore || !bytes.Equal(before, w.written(w.run)) {
		w.t.Fatalf("Step(%v) changed the run", in.Kind)
	}
	if w.out.Err != nil && len(w.out.Records)+len(w.out.Effects) > 0 {
		w.t.Fatalf("Step(%v) refused with %v and appended %v %v", in.Kind, w.out.Err, w.out.Records, w.out.Effects)
	}
	for i := range w.out.Records {
		w.apply(&w.out.Records[i])
	}
	w.settle()
	w.laws.turn(w, in)
	return &w.out
}

// admit is what the home key does: a record that no input of the run makes.
func (w *world) admit(f flow.Fields) {
	w.t.Helper()
	f.Run = w.run.ID()
	w.apply(&flow.Record{Kind: flow.RecAdmitted, At: w.now, Fields: f})
	w.settle()
}

// hold admits the run under a fence with the usual worker, lease and tries.
func (w *world) hold(fence uint64) {
	w.t.Helper()
	w.admit(flow.Fields{Fence: fence, Worker: "w1", Version: "2", Lease: lease, Attempts: 3, Backoff: 5 * flow.Second})
}

func (w *world) submit() {
	w.t.Helper()
	w.step(flow.InSubmit, flow.Fields{
		Order: w.now, Workflow: "sync", Payload: []byte(`{"tenant":"acme"}`), Stamp: testStamp,
		Trigger: "client", RequestID: "r-1",
	})
	if w.out.Err != nil {
		w.t.Fatalf("submit: %v", w.out.Err)
	}
}

// written is the run's whole state, unless that is too large to look at again and again.
func (w *world) written(r *Run) []byte {
	if w.large {
		return nil
	}
	return r.Fingerprint()
}

func (w *world) apply(rec *flow.Record) {
	w.t.Helper()
	if rec.At != w.now || rec.Run != w.run.ID() {
		w.t.Fatalf("%v is of %v at %d, not of %v at %d", rec.Kind, rec.Run, rec.At, w.run.ID(), w.now)
	}
	w.run.Apply(rec)
	w.count(rec)
	w.laws.record(w, rec)
	if rec.Kind >= flow.RecVolatile {
		return
	}
	wr := flow.NewWriter()
	wr.Record(rec)
	l := logged{body: wr.Bytes(), at: rec.At, after: w.written(w.run)}
	w.log = append(w.log, l)
	w.replica.Apply(l.record(w.t))
	if !bytes.Equal(w.written(w.replica), l.after) {
		w.t.Fatalf("after %v replay is\n%+v\nlive is\n%+v", rec.Kind, w.replica.View(), w.run.View())
	}
}

// settle is the end of a turn: between two records of one turn a run may be on its way.
func (w *world) settle() {
	w.t.Helper()
	if err := w.run.Check(); err != nil {
		w.t.Fatalf("after %v: %v", w.kinds(), err)
	}
}

// count keeps the books that Check can't: over the whole life each admission is
// freed once, the run ends once, and no fence counts after its hold (P51).
func (w *world) count(rec *flow.Record) {
	w.t.Helper()
	if w.left[rec.Fence] {
		w.t.Fatalf("%v with fence %d, which has left", rec.Kind, rec.Fence)
	}
	switch {
	case rec.Kind == flow.RecAdmitted:
		w.grants++
	case frees(rec):
		w.frees++
		w.left[rec.Fence] = true
	}
	if endsRun(rec.Kind) {
		w.ends++
	}
	held, ended := 0, 0
	if w.run.Held() {
		held = 1
	}
	if w.run.Status().Ended() {
		ended = 1
	}
	if w.grants != w.frees+held || w.ends != ended {
		w.t.Fatalf("after %v: %d admissions, %d freed, held %d; %d endings, ended %d",
			rec.Kind, w.grants, w.frees, held, w.ends, ended)
	}
}

// frees says whether the record frees the slot of its run.
func frees(rec *flow.Record) bool {
	switch rec.Kind {
	case flow.RecCompleted, flow.RecRetrying, flow.RecSuspended, flow.RecExpired, flow.RecHoldFreed:
		return true
	case flow.RecCancelled, flow.RecFailed: // a suspended run can end so, too
		return rec.Fence != 0
	}
	return false
}

func (l logged) record(t failer) *flow.Record {
	t.Helper()
	rd := flow.NewReader()
	if err := rd.Reset(l.body); err != nil {
		t.Fatalf("log: %v", err)
	}
	rec := new(flow.Record)
	if err := rd.Record(rec); err != nil {
		t.Fatalf("log: %v", err)
	}
	rec.At = l.at
	return rec
}

// replayed is a run made of the first n records of the log.
func (w *world) replayed(n int) *Run {
	w.t.Helper()
	r := New(w.run.ID())
	for i, l := range w.log[:n] {
		r.Apply(l.record(w.t))
		if !w.large && !bytes.Equal(r.Fingerprint(), l.after) {
			w.t.Fatalf("replay differs from the live run after record %d of %d", i+1, n)
		}
	}
	return r
}

// restart is a crash: the run is made of the log, and then Resume.
func (w *world) restart() {
	w.t.Helper()
	w.adopt(w.replayed(len(w.log)))
}

// restore is a crash with nothing but a snapshot.
func (w *world) restore() {
	w.t.Helper()
	r := New(flow.RunID{})
	if err := r.DecodeMsgpack(msgpack.NewDecoder(bytes.NewReader(w.run.Fingerprint()))); err != nil {
		w.t.Fatalf("snapshot: %v", err)
	}
	if r.Held() {
		if _, ok := r.Due(); ok {
			w.t.Fatalf("a run out of a snapshot has the end of a lease before Resume")
		}
	}
	w.adopt(r)
}

func (w *world) adopt(r *Run) {
	w.t.Helper()
	if !bytes.Equal(r.Fingerprint(), w.run.Fingerprint()) {
		w.t.Fatalf("rebuilt is\n%+v\nlive is\n%+v", r.View(), w.run.View())
	}
	w.run = r
	w.out.Reset()
	w.run.Resume(w.now, &w.out)
	for i := range w.out.Records {
		if w.out.Records[i].Kind < flow.RecVolatile {
			w.t.Fatalf("Resume writes %v", w.out.Records[i].Kind)
		}
		w.apply(&w.out.Records[i])
	}
	w.settle()
}

// tick lets the run act on its deadline.
func (w *world) tick() *flow.Out {
	w.t.Helper()
	return w.step(flow.InRunTick, flow.Fields{})
}

// kinds are the kinds of the last turn's records.
func (w *world) kinds() []flow.RecordKind {
	var k []flow.RecordKind
	for i := range w.out.Records {
		k = append(k, w.out.Records[i].Kind)
	}
	return k
}

// flags are those of the last turn's only answer.
func (w *world) flags() flow.Flags {
	w.t.Helper()
	return w.answered().Flags
}

// answered is the last turn's only answer.
func (w *world) answered() *flow.Effect {
	w.t.Helper()
	var found *flow.Effect
	for i := range w.out.Effects {
		if e := &w.out.Effects[i]; e.Kind == flow.EffAnswer {
			if found != nil || e.Run != w.run.ID() {
				w.t.Fatalf("want one answer, got %+v", w.out.Effects)
			}
			found = e
		}
	}
	if w.out.Err != nil || found == nil {
		w.t.Fatalf("want one answer, got %+v, error %v", w.out.Effects, w.out.Err)
	}
	return found
}

// letters are what the last turn sent.
func (w *world) letters() []flow.Input {
	var list []flow.Input
	for i := range w.out.Effects {
		if e := &w.out.Effects[i]; e.Kind == flow.EffSend {
			list = append(list, e.Letter())
		}
	}
	return list
}

var _ failer = (*testing.T)(nil)
