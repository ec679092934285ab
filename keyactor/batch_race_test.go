package keyactor

import (
	"strconv"
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/flow"
)

// What may happen around a deadline. The clock goes on by the smallest step there is, so
// each order is played before the deadline, at it and behind it.
const (
	oneEvent      = 'e'
	oneTimer      = 't' // with a worker alive
	timerAlone    = 'n' // with none
	timeGoesOn    = '+'
	raceAlphabet  = "etn+"
	raceLength    = 5
	eventsAtFirst = 1
)

// race plays one order from just before the deadline of a batch that has one event. What
// comes of each step is judged by the ledger, which knows no order.
func race(t *testing.T, def *flow.Definition, order string) *world {
	t.Helper()
	w := testWorld(t)
	w.def = def
	fail := w.fail
	w.fail = func(format string, args ...any) {
		t.Helper()
		t.Logf("order %q, declared %+v", order, *def.Trigger)
		fail(format, args...)
	}
	n := eventsAtFirst
	mustSend(t, w, keyX, padded("1", 0), "")
	w.now = w.now.Add(def.Trigger.Window) - 1
	for _, what := range order {
		switch what {
		case oneEvent:
			n++
			mustSend(t, w, keyX, padded(strconv.Itoa(n), 0), "")
		case oneTimer, timerAlone:
			w.fire(keyX, what == oneTimer)
		case timeGoesOn:
			w.now++
		}
	}
	return w
}

// end lets the open batch, if any, be fired: there, and again by a key that comes from the log.
func (w *world) end(t *testing.T, order string) {
	t.Helper()
	w.crash()
	for range 3 {
		w.fire(keyX, true)
		if at, ok := w.due(); ok {
			w.advance(at)
		}
	}
	if w.live.key(keyX).ViewBatch().Events != 0 || !w.live.key(keyX).Idle(w.now) {
		t.Fatalf("%q: events are left:\n%s", order, w.live.key(keyX).Fingerprint())
	}
	if a, b := len(w.ledger.runs[keyX]), eventsAtFirst+strings.Count(order, string(oneEvent)); a != b {
		t.Fatalf("%q: %d events are in runs, want %d", order, a, b)
	}
}

// orders are all of a length.
func orders(length int) []string {
	all := []string{""}
	for range length {
		var next []string
		for _, o := range all {
			for _, c := range raceAlphabet {
				next = append(next, o+string(c))
			}
		}
		all = next
	}
	return all
}

// TestD5_5_S80_P66_P67_P68_P72_P33_P34EveryOrder: events and timers around a deadline in every order, for
// batches that are full at 1, 2 and 3 events and for those that never are.
func TestD5_5_S80_P66_P67_P68_P72_P33_P34EveryOrder(t *testing.T) {
	for _, c := range []struct {
		name string
		def  *flow.Definition
	}{
		{"collect 1", collect(1, second, 0)},
		{"collect 2", collect(2, second, 0)},
		{"collect 3", collect(3, second, 0)},
		{"collect 18 bytes", collect(9, second, 18)},
		{"debounce", debounce(2, 0)},
		{"longest wait", debounce(2, 3)},
		{"longest wait is the window", debounce(2, 2)},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, order := range orders(raceLength) {
				race(t, c.def, order).end(t, order)
			}
		})
	}
}

// TestS80_P68LateEvent: an event of the instant of the deadline is in the closing batch if it
// comes before the timer, and in the next one if it comes after.
func TestS80_P68LateEvent(t *testing.T) {
	for order, want := range map[string]string{
		"+et": "[1 2]", "+te": "[1]", "e+t": "[1 2]", "te+": "", "+ete": "[1 2]", "ee+t": "[1 2 3]", "+tet": "[1]",
		"+n+et": "[1 2]", // late, since no worker was alive
	} {
		w := race(t, collect(9, second, 0), order)
		wantBatches(t, w, keyX, want)
	}
	for order, want := range map[string]string{"ee+t": "[1 2 3]", "ee+te": "[1 2 3]", "e+et": "[1 2 3]", "e+tee": "[1 2]", "+tee": "[1]"} {
		w := race(t, collect(3, second, 0), order)
		wantBatches(t, w, keyX, want)
	}
}
