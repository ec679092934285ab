package keyactor

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/pyrula/pyrula-node/flow"
)

// fakeRun is as much of a run as a key needs beside it.
type fakeRun struct {
	id       flow.RunID
	workflow string
	order    flow.Instant
	stamp    *flow.Stamp
	started  bool
	fence    uint64
	status   flow.Status // StatusTerminated with a fence is a hold
	tokens   int         // taken in its life
	params   []byte      // of a run that was made of a batch
}

func (r *fakeRun) home() flow.KeyID { return r.stamp.Home(r.workflow) }

// house is what one shard keeps in memory: keys and a table of runs. The live
// house and its replay are two of them.
type house struct {
	keys   map[flow.KeyID]*Key
	runs   map[flow.RunID]*fakeRun
	tenant map[flow.KeyID][]*fakeRun // the runs at home in a key
}

func newHouse() *house {
	return &house{
		keys: make(map[flow.KeyID]*Key), runs: make(map[flow.RunID]*fakeRun), tenant: make(map[flow.KeyID][]*fakeRun),
	}
}

func (h *house) key(id flow.KeyID) *Key {
	if h.keys[id] == nil {
		h.keys[id] = New(id)
	}
	return h.keys[id]
}

// apply is what a host does with a record: fill in, key, run. A batch that is cut is a run
// from then on (P67).
func (h *house) apply(rec flow.Record) {
	run := h.runs[rec.Run]
	switch {
	case rec.Kind == flow.RecBatchCut:
		params, _, _ := h.key(rec.Key).Batch()
		h.key(rec.Key).Apply(&rec)
		rec = flow.Record{Kind: flow.RecSubmitted, At: rec.At, Fields: flow.Fields{
			Run: rec.Run, Order: rec.Order, Workflow: rec.Key.Workflow, Stamp: rec.Stamp, Payload: params,
		}}
		h.apply(rec)
		return
	case rec.Kind == flow.RecSubmitted:
		run = &fakeRun{id: rec.Run, workflow: rec.Workflow, order: rec.Order, stamp: rec.Stamp, params: rec.Payload}
		h.runs[rec.Run] = run
		rec.Key = run.home()
		h.tenant[rec.Key] = append(h.tenant[rec.Key], run)
	case rec.Kind < flow.RecAsked:
		rec.Key, rec.Order, rec.Stamp = run.home(), run.order, run.stamp
		if run.started {
			rec.Flags |= flow.FlagStarted
		}
	}
	h.key(rec.Key).Apply(&rec)
	if rec.Kind < flow.RecAsked {
		run.apply(&rec)
	}
}

func (r *fakeRun) apply(rec *flow.Record) {
	switch rec.Kind {
	case flow.RecSubmitted, flow.RecWoken, flow.RecExpired:
		r.status, r.fence = flow.StatusQueued, 0
	case flow.RecAdmitted:
		r.status, r.fence, r.started = flow.StatusExecuting, rec.Fence, true
		if rec.Flags.Has(flow.FlagToken) {
			r.tokens++
		}
	case flow.RecCompleted:
		r.status, r.fence = flow.StatusCompleted, 0
	case flow.RecFailed:
		r.status, r.fence = flow.StatusFailed, 0
	case flow.RecRetrying, flow.RecSuspended:
		r.status, r.fence = flow.StatusSuspended, 0
	case flow.RecCancelled:
		r.status, r.fence = flow.StatusCancelled, 0
	case flow.RecTerminated:
		r.status, r.fence = flow.StatusTerminated, rec.Fence
	case flow.RecContinued:
		r.status = flow.StatusContinued
	case flow.RecHoldFreed:
		r.fence = 0
	}
}

// restored is the key as it comes out of a snapshot of this house.
func (h *house) restored(id flow.KeyID) (*Key, error) {
	var b bytes.Buffer
	if err := h.key(id).EncodeMsgpack(msgpack.NewEncoder(&b)); err != nil {
		return nil, err
	}
	k := new(Key)
	if err := k.DecodeMsgpack(msgpack.NewDecoder(&b)); err != nil {
		return nil, err
	}
	for _, r := range slices.Backward(h.tenant[id]) { // any order will do
		k.Adopt(Adopted{Run: r.id, Order: r.order, Stamp: r.stamp, Started: r.started, Fence: r.fence, Status: r.adopted()})
	}
	return k, k.Check()
}

func (r *fakeRun) adopted() flow.Status {
	if r.status.Ended() && r.fence == 0 {
		return flow.StatusCompleted // an ended run that holds nothing
	}
	return r.status
}

// channel is the outbox of one key for another.
type channel struct{ from, to flow.KeyID }

// world plays the host around keys: it steps, applies, replays through the codec
// beside it, carries letters, and watches what must hold in every history.
type world struct {
	now     flow.Instant
	live    *house
	replay  *house
	mail    map[channel][]flow.Input
	pairs   []channel // with mail, in the order in which they got some
	fence   uint64
	order   flow.Instant
	serial  uint64
	out     flow.Out
	w       *flow.Writer
	r       *flow.Reader
	letters int
	offers  int
	log     []flow.Record
	watch   watch
	ledger  *ledger          // what must come of events
	def     *flow.Definition // by which events are judged; nil for a world without any
	light   bool             // compare nothing after each step: for many runs
	fail    func(format string, args ...any)
}

const start flow.Instant = 1_000 * flow.Instant(flow.Second)

func newWorld(fail func(format string, args ...any)) *world {
	w := &world{
		now: start, live: newHouse(), replay: newHouse(), mail: make(map[channel][]flow.Input),
		w: flow.NewWriter(), r: flow.NewReader(), fail: fail,
	}
	w.watch = newWatch(w)
	w.ledger = newLedger(w)
	return w
}

// commit is the part of a turn after Step: records go through the codec into the
// replay, and into the live keys; letters go into the mail.
func (w *world) commit() {
	for i := range w.out.Records {
		rec := w.out.Records[i]
		if rec.At != w.now {
			w.fail("record %v at %d, not at %d", rec.Kind, rec.At, w.now)
		}
		w.watch.before(&rec)
		w.live.apply(rec)
		w.log = append(w.log, rec)
		w.replay.apply(w.coded(&rec))
		w.compare(rec.Kind)
	}
	for i := range w.out.Effects {
		e := &w.out.Effects[i]
		if e.Kind != flow.EffSend {
			continue
		}
		w.letters++
		c := channel{from: e.Peer, to: e.Key}
		if len(w.mail[c]) == 0 {
			w.pairs = append(w.pairs, c)
		}
		w.mail[c] = append(w.mail[c], e.Letter())
	}
	w.out.Reset()
}

// coded is the record as a reader of the journal gets it.
func (w *world) coded(rec *flow.Record) flow.Record {
	w.w.Reset()
	w.w.Record(rec)
	var back flow.Record
	err := w.r.Reset(w.w.Bytes())
	if err == nil {
		err = w.r.Record(&back)
	}
	if err != nil {
		w.fail("record %v through the codec: %v", rec.Kind, err)
	}
	back.At = rec.At
	return back
}

// compare: every key checks, and its replay is the same. A key that is idle may
// have been forgotten on the live side. A batch is opened for an event, which is the
// next record of the same entry.
func (w *world) compare(after flow.RecordKind) {
	if w.light || after == flow.RecBatchOpened {
		return
	}
	for id, k := range w.live.keys {
		if err := k.Check(); err != nil {
			w.fail("after %v: %v", after, err)
		}
		other := w.replay.key(id)
		if k.Idle(w.now) && other.Idle(w.now) {
			continue
		}
		if a, b := k.Fingerprint(), other.Fingerprint(); !bytes.Equal(a, b) {
			w.fail("after %v the replay differs:\n%s\n%s", after, a, b)
		}
	}
}

// step sends one input to a key.
func (w *world) step(in flow.Input) int {
	ready := w.live.key(in.Key).Ready(w.now)
	if w.decide(&in); w.out.Err != nil {
		w.fail("input %v: %v", in.Kind, w.out.Err)
	}
	n := len(w.out.Records)
	if in.Kind == flow.InOffer && (n == 0) != (ready == 0) {
		w.fail("ready is %d and an offer made %d records", ready, n)
	}
	w.watch.input(&in)
	w.commit()
	return n
}

// decide is a Step, and the proof that it changes nothing.
func (w *world) decide(in *flow.Input) {
	k := w.live.key(in.Key)
	var before []byte
	if !w.light {
		before = k.Fingerprint()
	}
	w.out.Reset()
	k.Step(w.now, in, &w.out)
	if !w.light && !bytes.Equal(before, k.Fingerprint()) {
		w.fail("Step of %v changed the key", in.Kind)
	}
}

// input is a step and what a host does after it: ticks until nothing comes.
func (w *world) input(in flow.Input) int {
	n := w.step(in)
	w.settle()
	return n
}

func (w *world) settle() {
	for _, id := range w.keyIDs() {
		w.tick(id)
	}
}

func (w *world) tick(id flow.KeyID) int {
	n := 0
	for w.step(flow.Input{Kind: flow.InKeyTick, Fields: flow.Fields{Key: id}}) > 0 {
		n++
	}
	return n
}

func (w *world) keyIDs() []flow.KeyID {
	ids := make([]flow.KeyID, 0, len(w.live.keys))
	for id := range w.live.keys {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b flow.KeyID) int { return strings.Compare(a.String(), b.String()) })
	return ids
}

// record commits one record of a run.
func (w *world) record(kind flow.RecordKind, f flow.Fields) {
	w.out.Record(kind, w.now).Fields = f
	w.commit()
	w.settle()
}

func (w *world) submit(stamp *flow.Stamp) flow.RunID { return w.submitAt(stamp, w.nextOrder()) }

// nextOrder is the submit instant of a run that comes now: they rise.
func (w *world) nextOrder() flow.Instant {
	w.order = max(w.now, w.order+1)
	return w.order
}

// submitAt queues a run at an older place, as a run that was handed on has.
func (w *world) submitAt(stamp *flow.Stamp, order flow.Instant) flow.RunID {
	id := w.newRun(order)
	w.record(flow.RecSubmitted, flow.Fields{Run: id, Order: order, Workflow: "w", Stamp: stamp})
	return id
}

func (w *world) newRun(at flow.Instant) flow.RunID {
	var e flow.Entropy
	w.serial++
	binary.BigEndian.PutUint64(e[2:], w.serial)
	return flow.NewRunID(at, 0, e)
}

// offer lends one unit of credit and says which run it admitted, if any.
func (w *world) offer(key flow.KeyID) (flow.RunID, bool) {
	w.fence++
	w.offers++
	at := len(w.log)
	w.input(flow.Input{Kind: flow.InOffer, Fields: flow.Fields{
		Key: key, Claim: w.fence, Fence: w.fence, Worker: "worker", Version: "1", Lease: 10 * flow.Second, Attempts: 1,
	}})
	return w.admittedSince(at)
}

func (w *world) admittedSince(at int) (flow.RunID, bool) {
	for _, rec := range w.log[at:] {
		if rec.Kind == flow.RecAdmitted {
			return rec.Run, true
		}
	}
	return flow.RunID{}, false
}

// offerAll offers until an offer moves nothing, and returns who was admitted.
func (w *world) offerAll(key flow.KeyID) []flow.RunID {
	at := len(w.log)
	for w.live.key(key).Ready(w.now) > 0 {
		w.offer(key)
	}
	var runs []flow.RunID
	for _, rec := range w.log[at:] {
		if rec.Kind == flow.RecAdmitted {
			runs = append(runs, rec.Run)
		}
	}
	return runs
}

// deliver hands over the oldest letter of a channel; a token comes with a unit of
// credit or without.
func (w *world) deliver(c channel, credit flow.Flags) flow.Input {
	in := w.mail[c][0]
	w.mail[c] = w.mail[c][1:]
	if len(w.mail[c]) == 0 {
		w.pairs = slices.DeleteFunc(w.pairs, func(p channel) bool { return p == c })
	}
	if in.Kind == flow.InToken && credit != 0 {
		w.fence++
		in.Flags |= credit
		in.Fence, in.Claim, in.Worker, in.Version = w.fence, w.fence, "worker", "1"
		in.Lease, in.Attempts = 10*flow.Second, 1
	}
	w.input(in)
	return in
}

// deliverAll empties the mail in the order of the channels.
func (w *world) deliverAll(credit flow.Flags) {
	for i := 0; len(w.pairs) > 0; i++ {
		if i > 100_000 {
			w.fail("letters don't come to an end")
		}
		w.deliver(w.pairs[0], credit)
	}
}

// leave is the end of a run that holds nothing: home is told first.
func (w *world) leave(run flow.RunID, kind flow.RecordKind) {
	w.step(flow.Input{Kind: flow.InLeave, Fields: flow.Fields{Key: w.live.runs[run].home(), Run: run}})
	w.record(kind, flow.Fields{Run: run})
}

// advance moves the clock and lets every key act on it.
func (w *world) advance(to flow.Instant) {
	w.now = max(w.now, to)
	w.settle()
}

// due is the earliest deadline of any key.
func (w *world) due() (flow.Instant, bool) {
	at := flow.MaxInstant
	for _, k := range w.live.keys {
		if d, ok := k.Due(w.now); ok {
			if d.At <= w.now || d.Absolute {
				w.fail("%v is due at %d, now is %d", k.ID(), d.At, w.now)
			}
			at = min(at, d.At)
		}
	}
	return at, at != flow.MaxInstant
}

func (w *world) run(id flow.RunID) *fakeRun { return w.live.runs[id] }

func (w *world) String() string {
	var b bytes.Buffer
	for i := range w.log {
		rec := &w.log[i]
		fmt.Fprintf(&b, "%v %v %v key %v fence %d flags %b before %d after %d\n", rec.At-start, rec.Kind, rec.Run, rec.Key, rec.Fence, rec.Flags, rec.Before, rec.After)
	}
	return b.String()
}
