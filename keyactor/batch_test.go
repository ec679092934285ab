package keyactor

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/flow"
)

// mustSend sends an event that has to be taken.
func mustSend(t *testing.T, w *world, key flow.KeyID, event, id string) flow.RunID {
	t.Helper()
	run, err := w.send(key, event, id)
	if err != nil {
		t.Fatalf("event %.40s: %v", event, err)
	}
	return run
}

// refused sends an event that must be refused; the ledger compares what the error says.
func refused(t *testing.T, w *world, key flow.KeyID, event, id string) {
	t.Helper()
	if _, err := w.send(key, event, id); !errors.Is(err, flow.ErrBufferFull) {
		t.Fatalf("event %.40s: error %v, want a full buffer", event, err)
	}
}

func wantBatches(t *testing.T, w *world, key flow.KeyID, want string) {
	t.Helper()
	if got := w.batches(key); got != want {
		t.Fatalf("the runs of %v are %s, want %s", key, got, want)
	}
}

// TestP72DeadlineIsNotMovedIntoThePast: a longest wait that is declared while a batch is
// open, and is over at its next event, fires it at once and not at the old deadline.
func TestP72DeadlineIsNotMovedIntoThePast(t *testing.T) {
	w := testWorld(t)
	w.def = debounce(flow.Hour, 0)
	mustSend(t, w, keyX, padded("a", 0), "")
	w.advance(w.now.Add(20 * second))
	w.def = debounce(2*second, 5*second)
	mustSend(t, w, keyX, padded("b", 0), "")
	if w.fire(keyX, true) == 0 {
		at, ok := w.due()
		if !ok {
			t.Fatal("nothing says when the batch is to be fired")
		}
		w.advance(at)
		w.fire(keyX, true)
	}
	wantBatches(t, w, keyX, "[a b]")
}

// TestP70_P72DueStaysDueAtTheLongestWait: when no worker is alive, an endless stream writes
// one record for each event, and not the end of the longest wait again and again.
func TestP70_P72DueStaysDueAtTheLongestWait(t *testing.T) {
	w := testWorld(t)
	w.def = debounce(2*second, 5*second)
	for range 4 {
		mustSend(t, w, keyX, padded("a", 0), "")
		w.advance(w.now.Add(2 * second))
	}
	w.fire(keyX, false)
	from := len(w.log)
	for range 3 {
		mustSend(t, w, keyX, padded("b", 0), "")
		w.fire(keyX, false)
		w.advance(w.now.Add(second))
	}
	wantKinds(t, "while it is due", w.kinds(from), flow.RecEvent, flow.RecEvent, flow.RecEvent)
	for _, rec := range w.log[from:] {
		if rec.Until != 0 {
			t.Errorf("an event that moved nothing writes the deadline %d", rec.Until)
		}
	}
	w.fire(keyX, true)
	wantBatches(t, w, keyX, "[a a a a b b b]")
}

// TestP34_P72DebounceEventEndsDue: an event that comes after the deadline, with no worker
// alive, starts the window again; only a Collect batch stays due.
func TestP34_P72DebounceEventEndsDue(t *testing.T) {
	for name, c := range map[string]struct {
		def *flow.Definition
		due bool
	}{"collect": {collect(9, second, 0), true}, "debounce": {debounce(second, 0), false}} {
		w := testWorld(t)
		w.def = c.def
		mustSend(t, w, keyX, padded("a", 0), "")
		w.advance(w.now.Add(flow.Hour))
		if w.fire(keyX, false) != 1 || w.fire(keyX, false) != 0 {
			t.Fatalf("%s: due is written otherwise than once", name)
		}
		if _, ok := w.due(); ok {
			t.Fatalf("%s: a batch that waits for a worker has a timer (R12)", name)
		}
		mustSend(t, w, keyX, padded("b", 0), "")
		if fired := w.fire(keyX, true) > 0; fired != c.due {
			t.Fatalf("%s: fired %t", name, fired)
		}
		w.advance(w.now.Add(second))
		w.fire(keyX, true)
		wantBatches(t, w, keyX, "[a b]")
	}
}

// TestP33FullAsDeclaredMakesRoom: a buffer that has no room, and is full by what is
// declared now, is cut and doesn't refuse the event.
func TestP33FullAsDeclaredMakesRoom(t *testing.T) {
	w := testWorld(t)
	w.def = debounce(flow.Hour, 0)
	for _, name := range []string{"a", "b"} {
		mustSend(t, w, keyX, padded(name, flow.MaxBatchBytes/2), "")
	}
	w.def = collect(2, second, 0)
	mustSend(t, w, keyX, padded("c", 0), "")
	wantBatches(t, w, keyX, "[a b]")
	mustSend(t, w, keyX, padded("d", 0), "")
	wantBatches(t, w, keyX, "[a b] [c d]")
}

// TestP33CutBeforeTheEvent: with max_bytes declared, an event that finds no room opens the
// next batch, and may fill that in the same step: two runs, in order, and the answer names
// the second.
func TestP33CutBeforeTheEvent(t *testing.T) {
	for _, c := range []struct {
		most   int64
		size   int
		runs   string
		filled bool
	}{
		{flow.MaxBatchBytes, 400 << 10, "[a]", false},
		{flow.MaxEventBytes, flow.MaxEventBytes, "[a] [b]", true},
		{flow.MaxEventBytes + 1, flow.MaxEventBytes, "[a]", false}, // ids count for the bound, not for max_bytes
		{700 << 10, 700 << 10, "[a] [b]", true},
		{700 << 10, 700<<10 - 1, "[a]", false},
	} {
		w := testWorld(t)
		w.def = collect(9, second, c.most)
		mustSend(t, w, keyX, padded("a", 400<<10), "i")
		w.advance(w.now.Add(second - 1)) // the window of a doesn't count for b
		run := mustSend(t, w, keyX, padded("b", c.size), "i2")
		wantBatches(t, w, keyX, c.runs)
		if made := w.ledger.made; run.IsZero() == c.filled || (c.filled && run != made[1]) {
			t.Fatalf("%d bytes: the answer names %v, made are %v", c.size, run, made)
		}
		if c.filled {
			if a, b := w.run(w.ledger.made[0]), w.run(w.ledger.made[1]); !a.place().before(b.place()) {
				t.Fatalf("%d bytes: the runs stand at %d and %d (P61)", c.size, a.order, b.order)
			}
			continue
		}
		w.advance(w.now.Add(second - 1))
		if w.fire(keyX, true) != 0 {
			t.Fatalf("%d bytes: fired within the window of its first event (P66)", c.size)
		}
		w.advance(w.now.Add(1))
		w.fire(keyX, true)
		wantBatches(t, w, keyX, "[a] [b]")
	}
}

// TestS78_P70Bounds: the event that fills the buffer exactly is taken, by number and by
// bytes; the next is refused, and nothing of it is kept: not even its id.
func TestS78_P70Bounds(t *testing.T) {
	for name, def := range map[string]*flow.Definition{"debounce": debounce(5*second, 0), "collect": collect(flow.MaxBatchEvents, 5*second, 0)} {
		w := testWorld(t)
		w.def = def
		mustSend(t, w, keyX, padded("a", 1000), "i")
		const room = flow.MaxBatchBytes - 1001 // the id counts too
		refused(t, w, keyX, padded("b", room+1), "")
		refused(t, w, keyX, padded("b", room), "b")
		mustSend(t, w, keyX, padded("b", room-1), "b")
		before := w.live.key(keyX).Fingerprint()
		w.advance(w.now.Add(second))
		refused(t, w, keyX, padded("c", 0), "j")
		mustSend(t, w, keyX, padded("a", 1000), "i") // a repeat is answered like the first, full or not
		if got := w.live.key(keyX).Fingerprint(); string(got) != string(before) {
			t.Fatalf("%s: the buffer changed", name)
		}
		w.advance(w.now.Add(4 * second))
		w.fire(keyX, true)
		mustSend(t, w, keyX, padded("c", 0), "j")
		w.advance(w.now.Add(5 * second))
		w.fire(keyX, true)
		wantBatches(t, w, keyX, "[a b] [c]")
	}
}

// TestS78_P70_P33ByNumber: 10,000 events are a batch of Collect and all that Debounce keeps.
func TestS78_P70_P33ByNumber(t *testing.T) {
	for name, c := range map[string]struct {
		def  *flow.Definition
		full bool // cut by its last event
	}{
		"debounce": {debounce(5*second, 0), false}, "collect": {collect(flow.MaxBatchEvents, 5*second, 0), true},
		"other max": {collect(flow.MaxBatchEvents, 5*second, flow.MaxBatchBytes), true},
	} {
		w := testWorld(t)
		w.light = true
		w.def = c.def
		for i := range flow.MaxBatchEvents - 1 {
			mustSend(t, w, keyX, padded(fmt.Sprint(i), 0), fmt.Sprint(i))
		}
		w.light = false
		run := mustSend(t, w, keyX, padded("last", 0), "last")
		if run.IsZero() == c.full {
			t.Fatalf("%s: the last event is answered with run %v", name, run)
		}
		if !c.full {
			refused(t, w, keyX, padded("over", 0), "over")
			mustSend(t, w, keyX, padded("again", 0), "7") // a repeat
			w.snapshots(t)
			w.advance(w.now.Add(5 * second))
			w.fire(keyX, true)
		}
		events, _ := w.ledger.read(w.run(w.ledger.made[0]).params)
		if len(events) != flow.MaxBatchEvents || len(w.ledger.made) != 1 {
			t.Fatalf("%s: %d events in %d runs", name, len(events), len(w.ledger.made))
		}
	}
}

// snapshots replaces every key by what a snapshot makes of it.
func (w *world) snapshots(t *testing.T) {
	t.Helper()
	for _, id := range w.keyIDs() {
		k, err := w.live.restored(id)
		if err != nil {
			t.Fatal(err)
		}
		w.live.keys[id] = k
		w.ledgerState(id)
	}
}

// TestP68OneIsABatch: every event fires, also one that finds a batch of an older declaration.
func TestP68OneIsABatch(t *testing.T) {
	w := testWorld(t)
	w.def = collect(1, second, 0)
	for _, name := range []string{"a", "b"} {
		if mustSend(t, w, keyX, padded(name, 0), "i").IsZero() {
			t.Fatal("no run in the answer")
		}
	}
	w.def = debounce(second, 0)
	mustSend(t, w, keyX, padded("c", 0), "")
	w.def = collect(1, second, 0)
	if mustSend(t, w, keyX, padded("d", 0), "").IsZero() {
		t.Fatal("no run in the answer")
	}
	wantBatches(t, w, keyX, "[a] [b] [c d]")
}

// TestP66LaterDeclarations: a deadline that is written stays, whatever is declared later; a
// Debounce event moves it by what is declared then.
func TestP66LaterDeclarations(t *testing.T) {
	w := testWorld(t)
	w.def = collect(9, 10*second, 0)
	mustSend(t, w, keyX, padded("a", 0), "")
	at := func(want flow.Span) {
		t.Helper()
		if got, _, _ := w.live.key(keyX).BatchDeadline(); got != start.Add(want) {
			t.Fatalf("the deadline is at %d, want %d", got-start, want)
		}
	}
	w.advance(start.Add(second))
	w.def = collect(9, second, 0)
	mustSend(t, w, keyX, padded("b", 0), "")
	at(10 * second)
	w.def = debounce(3*second, 0)
	at(10 * second)
	mustSend(t, w, keyX, padded("c", 0), "") // and it may come nearer
	at(4 * second)
	w.def = debounce(30*second, 30*second)
	mustSend(t, w, keyX, padded("d", 0), "")
	at(30 * second)
	w.def = collect(5, second, 0)
	if run := mustSend(t, w, keyX, padded("e", 0), ""); run.IsZero() {
		t.Fatal("the fifth doesn't fill it")
	}
	wantBatches(t, w, keyX, "[a b c d e]")
}

// TestP71_S84FarDeadlines: near the last moment that can be named no deadline wraps into the
// past, and none is before the first one.
func TestP71_S84FarDeadlines(t *testing.T) {
	for name, def := range map[string]*flow.Definition{
		"collect": collect(9, flow.MaxWindow, 0), "debounce": debounce(flow.MaxWindow, 0), "longest": debounce(second, flow.MaxWindow),
	} {
		for _, now := range []flow.Instant{flow.MaxInstant.Add(-second), flow.MaxInstant - 1} {
			w := testWorld(t)
			w.now, w.def = now, def
			mustSend(t, w, keyX, padded("a", 0), "")
			mustSend(t, w, keyX, padded("b", 0), "")
			w.snapshots(t)
			if at, _, _ := w.live.key(keyX).BatchDeadline(); at <= now {
				t.Fatalf("%s: at %d the deadline is %d", name, now, at)
			}
			if w.fire(keyX, true) != 0 {
				t.Fatalf("%s: fired early", name)
			}
		}
	}
	w := testWorld(t)
	w.now, w.def = 1, debounce(1, 1)
	mustSend(t, w, keyX, padded("a", 0), "")
	if at, _, _ := w.live.key(keyX).BatchDeadline(); at != 2 || w.fire(keyX, true) != 0 {
		t.Fatalf("at the first moment the deadline is %d", at)
	}
}

// TestP72NeverEarly: nothing is fired a moment before its time, and at its time it is.
func TestP72NeverEarly(t *testing.T) {
	for name, def := range map[string]*flow.Definition{"collect": collect(9, second, 0), "debounce": debounce(second, 0), "longest": debounce(second, second)} {
		w := testWorld(t)
		w.def = def
		mustSend(t, w, keyX, padded("a", 0), "")
		if at, ok := w.due(); !ok || at != start.Add(second) {
			t.Fatalf("%s: to be looked at at %d", name, at)
		}
		w.advance(start.Add(second) - 1)
		if w.fire(keyX, true)+w.fire(keyX, false) != 0 {
			t.Fatalf("%s: fired early", name)
		}
		w.advance(start.Add(second))
		w.fire(keyX, true)
		wantBatches(t, w, keyX, "[a]")
	}
}

// TestP67OldTimersDoNothing: a timer of an older batch finds another deadline.
func TestP67OldTimersDoNothing(t *testing.T) {
	w := testWorld(t)
	w.def = collect(2, second, 0)
	mustSend(t, w, keyX, padded("a", 0), "")
	w.advance(w.now.Add(second - 1))
	mustSend(t, w, keyX, padded("b", 0), "") // full: its timer is still set
	mustSend(t, w, keyX, padded("c", 0), "")
	for range 2 {
		w.advance(w.now + 1)
		if w.fire(keyX, true)+w.fire(keyX, false) != 0 {
			t.Fatal("the timer of the first batch fired the second")
		}
	}
	w.advance(w.now.Add(second))
	if w.fire(keyX, true) != 1 || w.fire(keyX, true) != 0 {
		t.Fatal("fired otherwise than once")
	}
	wantBatches(t, w, keyX, "[a b] [c]")
}

// TestS76_P67RepeatsAreOfOneBatch: an id counts within its key and the open batch; what is
// remembered beyond is the shard's.
func TestS76_P67RepeatsAreOfOneBatch(t *testing.T) {
	w := testWorld(t)
	w.def = collect(2, second, 0)
	mustSend(t, w, keyX, padded("a", 0), "7")
	mustSend(t, w, keyX, padded("copy", 0), "7")
	mustSend(t, w, keyY, padded("b", 0), "7")
	mustSend(t, w, keyX, padded("c", 0), "")
	mustSend(t, w, keyX, padded("d", 0), "") // no id is no repeat of no id
	mustSend(t, w, keyX, padded("e", 0), "7")
	wantBatches(t, w, keyX, "[a c] [d e]")
	w.advance(w.now.Add(second))
	w.fireAll(true)
	wantBatches(t, w, keyY, "[b]")
}

// TestP67_R8NoBatchWithoutAnID: the id of a batch is the one of its run, so an event that would
// open one without it is a host's error, and Opens says which do.
func TestP67_R8NoBatchWithoutAnID(t *testing.T) {
	w := testWorld(t)
	w.def = collect(2, second, 0)
	first := w.eventOf(keyX, padded("a", flow.MaxEventBytes), strings.Repeat("i", flow.MaxEventIDBytes))
	next := w.eventOf(keyX, padded("b", 0), "")
	next.Burst = 1 // declared since: there is no room, so the event opens the next batch
	for _, in := range []flow.Input{first, next} {
		k, nameless := w.live.key(keyX), in
		nameless.Run = flow.RunID{}
		if !k.Opens(&in) || !panics(func() { k.Step(w.now, &nameless, new(flow.Out)) }) {
			t.Errorf("event %.9s opens a batch: %t, and without an id nobody minds", in.Payload, k.Opens(&in))
		}
		w.decide(&in)
		w.commit()
	}
}

func panics(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}

// TestP70OneEventOverTheBound: an event that is too large for any buffer is refused also by a
// key that has none: what it kept, no snapshot could be read with. The largest one is taken.
func TestP70OneEventOverTheBound(t *testing.T) {
	longest := strings.Repeat("i", flow.MaxEventIDBytes)
	for _, c := range []struct {
		size  int
		id    string
		taken bool
	}{
		{flow.MaxEventBytes + 1, "", false}, {flow.MaxBatchBytes, "", false}, {9, longest + "i", false},
		{flow.MaxEventBytes, longest, true},
	} {
		w := testWorld(t)
		w.def = debounce(second, 0)
		in := w.eventOf(keyX, padded("a", c.size), c.id)
		w.decide(&in)
		if n := len(w.out.Records) + len(w.out.Effects); (w.out.Err == nil) != c.taken || (n == 0) == c.taken {
			t.Errorf("%d bytes with an id of %d: error %v, %d records and effects", c.size, len(c.id), w.out.Err, n)
		}
		w.commit()
		if _, err := w.live.restored(keyX); err != nil {
			t.Errorf("%d bytes with an id of %d: %v", c.size, len(c.id), err)
		}
	}
}
