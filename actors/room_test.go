package actors_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// The bounds of an entry (R5): it is closed at a message boundary, and no message makes
// more than 256 records.
const (
	mostRecords = 512 + 256
	entryBytes  = 512 << 10
)

// bounded fails for an entry over the bounds, and returns the largest number of records.
func (w *world) bounded() int {
	w.Helper()
	most := 0
	for s := range engine.ShardID(w.shards) {
		all, _ := w.entries(s)
		for i := range all {
			most = max(most, len(all[i].records))
			if n := len(all[i].records); n > mostRecords {
				w.Errorf("entry %d of shard %d has %d records", all[i].Pos, s, n)
			}
			if n := len(all[i].Body); n > engine.MaxEntryBytes {
				w.Errorf("entry %d of shard %d has %d bytes", all[i].Pos, s, n)
			}
		}
	}
	return most
}

// TestR5FullWindowMakesTheTurnWait fails when a message that finds no room is lost or
// refused, or handled before there is room.
func TestR5FullWindowMakesTheTurnWait(t *testing.T) {
	for _, window := range []int{1, 2, 8} {
		setup{shards: 1, manual: true, window: window}.play(t, func(w *world) {
			w.declare("sync", leased)
			var calls []*call[wire.Submitted]
			for range 30 {
				calls = append(calls, w.submitting(submitOf("sync", `{"k":"a"}`)))
				w.settle()
			}
			if all, durable := w.mem.Entries(0); len(all)-durable != window {
				w.Fatalf("%d entries are in flight, the window is %d", len(all)-durable, window)
			}
			before, _ := w.mem.Entries(0)
			w.mem.CommitNext()
			w.settle()
			after, _ := w.mem.Entries(0)
			if len(after) != len(before)+1 {
				w.Errorf("%d entries follow the room for one", len(after)-len(before))
			}
			w.commit()
			for i, c := range calls {
				if !c.over() || c.err != nil {
					w.Errorf("submit %d: over %t, %v", i, c.over(), c.err)
				}
			}
			if v := w.key("sync", "a"); v.Queued != 30 {
				w.Errorf("%d runs are queued", v.Queued)
			}
		})
	}
}

// TestR5EntryIsClosedAt512Records fails when a batch makes an entry without end, or
// closes it long before.
func TestR5EntryIsClosedAt512Records(t *testing.T) {
	setup{shards: 1, manual: true, window: 2}.play(t, func(w *world) {
		w.declare("sync", leased)
		w.submitAll(2000, "sync", `{"k":"a"}`)
		if most := w.bounded(); most < 512 {
			w.Errorf("2,000 submits in one call made entries of at most %d records", most)
		}
	})
}

// TestR5EntryIsClosedAt512KiB fails when an entry goes on beyond its size, or a large
// record shares its entry with others.
func TestR5EntryIsClosedAt512KiB(t *testing.T) {
	for _, size := range []int{100 << 10, 600 << 10, flow.MaxPayloadBytes - 64} {
		setup{shards: 1, manual: true, window: 2}.play(t, func(w *world) {
			w.declare("sync", leased)
			params := `{"k":"a","x":"` + strings.Repeat("x", size) + `"}`
			small := `{"k":"a","x":"` + strings.Repeat("x", 300<<10) + `"}`
			var all []wire.Submit
			for i := range 20 {
				all = append(all, submitOf("sync", []string{small, params}[i%2]))
			}
			submit := begin(func() ([]error, error) {
				_, errs := w.Submit(w.life, all)
				return errs, nil
			})
			for i, err := range await(w, submit) {
				if err != nil {
					w.Fatalf("submit %d: %v", i, err)
				}
			}
			entries, _ := w.entries(0)
			for i := range entries {
				n, bytes := len(entries[i].records), len(entries[i].Body)
				if n > 1 && bytes > entryBytes+len(params) {
					w.Errorf("entry %d: %d records in %d bytes", entries[i].Pos, n, bytes)
				}
				for j := range entries[i].records {
					if len(entries[i].records[j].Payload) > entryBytes && n > 1 {
						w.Errorf("entry %d: a record of %d bytes beside %d others", entries[i].Pos, len(entries[i].records[j].Payload), n-1)
					}
				}
			}
		})
	}
}

// TestR5ManyLongErrorsMakeManyEntries fails when the size of an entry is not watched for
// messages that are large in other ways than by a payload.
func TestR5ManyLongErrorsMakeManyEntries(t *testing.T) {
	setup{shards: 1, manual: true, window: 1}.play(t, func(w *world) {
		w.declare("sync", leased)
		grants := w.claimAll("sync", w.submitAll(200, "sync", `{"k":"a"}`))
		w.submitting(submitOf("sync", `{"k":"b"}`)) // fills the window
		w.settle()
		fails := make([]*call[wire.Ended], len(grants))
		for i, g := range grants {
			fails[i] = begin(func() (wire.Ended, error) {
				return w.Fail(w.life, w.id(g.RunID), wire.Fail{
					Fence: g.Fence, Error: wire.RunError{Type: "boom", Message: strings.Repeat("x", flow.MaxErrorMessageBytes)},
				})
			})
		}
		for _, c := range fails {
			await(w, c)
		}
		all, _ := w.entries(0)
		for i := range all {
			if n := len(all[i].Body); n > entryBytes+2*flow.MaxErrorMessageBytes {
				w.Errorf("entry %d has %d bytes", all[i].Pos, n)
			}
		}
	})
}

// TestR5NoMessageMakesAGreatEntry fails when one message makes hundreds of records: many
// units of credit for runs that must ask for tokens, many deadlines of one instant, many
// tokens that a promotion finds open.
func TestR5NoMessageMakesAGreatEntry(t *testing.T) {
	for _, at := range places {
		setup{shards: 2}.play(t, func(w *world) {
			w.declare("pair", `{"version":"1","limit":{"key":"l","max":100000},"rate":{"key":"r","per_second":0.01,"burst":300}}`)
			var l []string
			for i := range 4 {
				l = append(l, w.keyIn(at.home, "pair", fmt.Sprint("l", i, "-")))
			}
			r := w.keyIn(at.rate, "pair", "r")
			for _, key := range l {
				w.submitAll(1000, "pair", params2(key, r))
			}
			for range 3 {
				w.claimFor("pair", "1", 256, time.Second)
			}
			w.bounded()
			w.restart()
			w.pass(time.Second)
			w.bounded()
		})
	}
}

// TestR5PromotionWithManyOpenTokensIsBounded is the same for a promotion that finds a
// token for each of many runs, whose keys are as long as a key may be: an entry beyond
// the engine's bound would end the process at every start.
func TestR5PromotionWithManyOpenTokensIsBounded(t *testing.T) {
	for _, at := range places {
		setup{shards: 2}.play(t, func(w *world) {
			w.declare("pair", `{"version":"1","limit":{"key":"l","max":100000},"rate":{"key":"r","per_second":0.01,"burst":1}}`)
			long := strings.Repeat("x", flow.MaxKeyBytes-20)
			l := w.keyIn(at.home, "pair", "l"+long)
			const keys = 450
			var first, second []wire.Submit
			for i := range keys {
				r := w.keyIn(at.rate, "pair", fmt.Sprint("r", i, long))
				first, second = append(first, submitOf("pair", params2(r, r))), append(second, submitOf("pair", params2(l, r)))
			}
			submit := func(all []wire.Submit) {
				_, errs := w.Submit(w.Context(), all)
				if err := errors.Join(errs...); err != nil {
					w.Fatal(err)
				}
			}
			submit(first)
			if g := w.claim("pair", "1", keys); len(g) != keys { // every bucket is empty now
				w.Fatalf("%d of %d runs started", len(g), keys)
			}
			submit(second)
			w.claimFor("pair", "1", 10, 100*time.Millisecond)
			if n := w.countAll(flow.RecWanted); n < keys {
				w.Fatalf("%d of %d runs ask for a token", n, keys)
			}
			w.fall(0)
			w.pass(5 * time.Minute)
			w.open()
			w.serves()
			w.pass(5 * time.Second)
			if n := w.countAll(flow.RecTokenGiven); n != keys {
				w.Errorf("%d of %d tokens were given", n, keys)
			}
			w.bounded()
			if g := w.claimFor("pair", "1", 10, time.Second); len(g) == 0 {
				w.Error("no run starts")
			}
		})
	}
}

// TestR7OnlyNewWorkIsRefused fails when a shard takes new work without bound, or refuses
// anything else while it has too much.
func TestR7OnlyNewWorkIsRefused(t *testing.T) {
	setup{shards: 1, manual: true, window: 1}.play(t, func(w *world) {
		w.declare("sync", leased)
		g := w.claimAll("sync", w.submitAll(4, "sync", `{"k":"a"}`))
		w.submitting(submitOf("sync", `{"k":"a"}`)) // fills the window
		w.settle()
		const bound = 16_384
		all := make([]wire.Submit, bound+500)
		for i := range all {
			all[i] = submitOf("sync", `{"k":"b"}`)
		}
		flood := begin(func() ([]error, error) {
			_, errs := w.Submit(w.life, all)
			return errs, nil
		})
		w.settle()
		refused(w.without(), w.submitting(submitOf("sync", `{"k":"a"}`)), flow.ErrOverloaded)
		refused(w.without(), w.submitting(keyedSubmit("sync", `{"k":"a"}`, "o1")), flow.ErrOverloaded)
		end, beat, cancel := w.completing(g[0]), w.beating(g[1]), w.cancelling(w.id(g[2].RunID))
		fail := w.failing(g[3], false)
		w.settle()
		read := w.reading(w.id(g[0].RunID))
		w.settle()
		if end.over() || beat.over() || cancel.over() || fail.over() || read.over() {
			w.Error("something was answered without room for what came before it")
		}
		over := 0
		for i, err := range await(w, flood) {
			switch {
			case err == nil:
			case errors.Is(err, flow.ErrOverloaded):
				over++
			default:
				w.Fatalf("submit %d: %v", i, err)
			}
		}
		if over != 500 {
			w.Errorf("%d submits were refused, want 500", over)
		}
		if await(w, end) != "completed" || !await(w, beat)[0].OK || await(w, cancel) != "executing" || await(w, fail) != "failed" || await(w, read).Status != "completed" {
			w.Errorf("%q, %+v, %q, %q, %q", end.value, beat.value, cancel.value, fail.value, read.value.Status)
		}
		if v := w.key("sync", "b"); v.Queued != bound {
			w.Errorf("%d runs are queued, want %d", v.Queued, bound)
		}
		w.submit("sync", `{"k":"a"}`) // the bound counts what waits, not what was
	})
}

// without is the world as one that doesn't commit by itself when it looks for an answer.
func (w *world) without() *world {
	other := &world{T: w.T, Node: w.Node, setup: w.setup, mem: w.mem, clock: w.clock, life: w.life}
	other.manual = false
	return other
}

// TestR7NodeThatRefusesNewWorkServesTheRest fails when a node with a full disk refuses
// what would empty it, or takes more.
func TestR7NodeThatRefusesNewWorkServesTheRest(t *testing.T) {
	full := errors.New("the disk is full")
	refusing := false
	setup{refuse: func() error {
		if refusing {
			return full
		}
		return nil
	}}.play(t, func(w *world) {
		w.declare("sync", leased)
		g := w.claimAll("sync", w.submitAll(2, "sync", `{"k":"a"}`))
		refusing = true
		refused(w, w.submitting(submitOf("sync", `{"k":"a"}`)), full)
		refused(w, w.declaring("other", one), full)
		refused(w, w.claiming("sync", "1", 1, 0), full)
		if r := w.Ready(w.Context()); r.Ready {
			w.Error("ready while it refuses new work")
		}
		if !w.beat(g[0]).OK || w.complete(g[0]) != "completed" || w.cancel(w.id(g[1].RunID)) != "executing" {
			w.Error("something else than new work was refused")
		}
		w.is(w.id(g[0].RunID), "completed")
		refusing = false
	})
}
