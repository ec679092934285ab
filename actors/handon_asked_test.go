package actors_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// TestS88SteadySignalsDontStopAHandOn fails when a hand-on waits for signals to pause, or
// the last successor lacks one that was acknowledged, has it twice, or out of order.
func TestS88SteadySignalsDontStopAHandOn(t *testing.T) {
	for shard := range 2 {
		setup{shards: 2}.play(t, func(w *world) {
			for v := 1; v <= 6; v++ {
				key := []string{"k", "r"}[v%2]
				w.declare("sync", fmt.Sprintf(`{"version":"%d","limit":{"key":%q,"max":1},"lease_seconds":600}`, v, key))
			}
			params := w.placed(shard)
			holders := []wire.Grant{}
			for _, v := range []string{"1", "2"} { // a holder of each key
				w.stampedBy(v, 1, params)
				holders = append(holders, w.claimOne("sync", v))
			}
			id := w.stampedBy("1", 1, params)[0]
			var sent []string
			for v := 2; v <= 6; v++ {
				for n := range 50 {
					payload := fmt.Sprint(len(sent))
					s := w.signalling(id, "x", payload, "")
					if n == 25 {
						begin := w.now()
						w.keptAlive("sync", fmt.Sprint(v))
						if c := w.chainOf(id); len(c) != v || w.now()-begin > 20*time.Millisecond {
							w.Fatalf("a worker of %d leaves a chain of %d runs after %s", v, len(c), w.now()-begin)
						}
					}
					if got := await(w, s); !got.Created || got.Status != "queued" {
						w.Errorf("signal %s: %+v", payload, got)
					}
					sent = append(sent, payload)
					w.pass(20 * time.Millisecond)
				}
			}
			for _, g := range holders {
				w.complete(g)
			}
			g := w.claimOne("sync", "6")
			if g.RunID != w.last(id).String() || !slices.Equal(payloads(g.Signals), sent) {
				w.Errorf("run %s has the signals %v", g.RunID, payloads(g.Signals))
			}
			w.complete(g)
			if n := w.lawfulChains(); n < 5 {
				w.Errorf("%d hand-ons", n)
			}
		})
	}
}

// follower signals and reads the first id of a chain without pause.
type follower struct {
	w     *world
	id    flow.RunID
	pause time.Duration
	sent  []string
	seen  []string // successors, as the status told
	errs  []error
}

func (f *follower) follow(over <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-over:
			return
		default:
		}
		payload := fmt.Sprint(n)
		out, err := f.w.Signal(f.w.life, f.id, wire.SignalRequest{Name: "x", Payload: []byte(payload)})
		switch {
		case err != nil:
			f.errs = append(f.errs, fmt.Errorf("signal %d: %w", n, err))
		case !out.Created:
			f.errs = append(f.errs, fmt.Errorf("signal %d is a repeat: %+v", n, out))
		default:
			f.sent = append(f.sent, payload)
		}
		r, err := f.w.Node.Run(f.w.life, f.id, 0)
		switch {
		case err != nil:
			f.errs = append(f.errs, fmt.Errorf("status %d: %w", n, err))
		case r.Status == "continued" || r.Status == "completed":
			f.errs = append(f.errs, fmt.Errorf("status %d is %s", n, r.Status))
		case len(f.seen) == 0 || f.seen[len(f.seen)-1] != r.RunID:
			f.seen = append(f.seen, r.RunID)
		}
		<-time.After(f.pause)
	}
}

// TestS90NoNotFoundDuringHandOns fails when one who signals and reads the first id of a chain
// that is handed on 1,000 times hears "not found" or "ended", sees an older successor
// after a newer one, or loses a signal; the chain stays in one shard, or goes to and fro.
func TestS90P32NoNotFoundDuringHandOns(t *testing.T) {
	const versions = 200
	for shard, times := range []int{1000, 200} { // between shards each request takes each step of the chain
		setup{shards: 2}.play(t, func(w *world) {
			declared := 0
			next := func() string { // at most 256 declarations of a workflow are remembered
				declared++
				key := []string{"k", "r"}[declared%2]
				w.declare("sync", fmt.Sprintf(`{"version":"%d","limit":{"key":%q,"max":%d},"lease_seconds":6000}`, declared, key, 1+declared%versions))
				return fmt.Sprint(declared)
			}
			first := next()
			id := w.stampedBy(first, 1, w.placed(shard))[0]
			f, over := &follower{w: w, id: id, pause: 4 * time.Millisecond}, make(chan struct{})
			var done sync.WaitGroup
			done.Go(func() { f.follow(over) })
			for range times {
				w.keptAlive("sync", next())
				w.pass(2 * time.Millisecond)
			}
			close(over)
			done.Wait()
			for _, err := range f.errs[:min(len(f.errs), 5)] {
				w.Error(err)
			}
			chain := w.chainOf(id)
			if len(chain) != times+1 {
				w.Errorf("the chain has %d runs", len(chain))
			}
			at := -1
			for _, seen := range f.seen {
				i := slices.Index(chain, w.id(seen))
				if i <= at {
					w.Fatalf("successor %d was shown behind number %d", i, at)
				}
				at = i
			}
			if len(f.seen) < times/4 || len(f.sent) < times/4 {
				w.Errorf("only %d successors were seen and %d signals sent", len(f.seen), len(f.sent))
			}
			g := w.claimOne("sync", fmt.Sprint(declared))
			if !slices.Equal(payloads(g.Signals), f.sent) {
				w.Errorf("the end of the chain has %d signals, %d were acknowledged", len(g.Signals), len(f.sent))
			}
			w.complete(g)
			w.is(id, "completed")
			refused(w, w.signalling(id, "x", `1`, ""), flow.ErrRunEnded)
			w.pass(time.Second)
			w.lawfulChains()
		})
	}
}

// TestP80CancelAgainstHandOn fails when a run that was cancelled first has a successor, or
// when the cancel of one that was handed on first doesn't reach its successor; for every
// order of both, in one batch and two, in one shard and two, with a crash behind.
func TestP80P32S64CancelAgainstHandOn(t *testing.T) {
	for _, stop := range []string{"cancelled", "terminated"} {
		for _, stopFirst := range []bool{true, false} {
			for _, window := range []int{1, 8} {
				for shard := range 2 {
					setup{shards: 2, manual: true, window: window}.play(t, func(w *world) {
						w.deployed(`"limit":{"key":"k","max":1},"lease_seconds":600`, `"limit":{"key":"r","max":1},"lease_seconds":600`)
						params := w.placed(shard)
						w.stampedBy("1", 1, params)
						w.claimAs("sync", "1", 1)
						ids := w.stampedBy("1", 2, params)
						if window == 1 {
							w.fillWindow("sync", w.keyIn(0, "sync", "k"))
						}
						var c *call[string]
						stopping := func() {
							if stop == "terminated" {
								c = w.terminating(ids[0])
							} else {
								c = w.cancelling(ids[0])
							}
							w.settle()
						}
						if stopFirst {
							stopping()
						}
						worker, claim := claimOf("sync", "2", 0, 0)
						w.claimingAs(worker, claim)
						w.settle()
						if !stopFirst {
							stopping()
						}
						if got := await(w, c); got != stop {
							w.Errorf("answered %s", got)
						}
						w.pass(50 * time.Millisecond)
						chain := w.chainOf(ids[0])
						// In one batch the stop may come before what the claim has brought about.
						if (len(chain) == 1) != stopFirst && window != 1 {
							w.Fatalf("%s first %t: the chain is %v", stop, stopFirst, chain)
						}
						last := chain[len(chain)-1]
						all := w.events(last)
						if e := all[len(all)-1]; e.Type != "run:"+stop || e.Reason != "enough" {
							w.Errorf("the last of the chain ends with %+v", e)
						}
						w.restart()
						w.is(ids[0], stop)
						w.pass(10 * time.Minute)
						for _, g := range w.claimBy("sync", "2", 5) {
							if g.RunID == last.String() || g.RunID == ids[0].String() {
								w.Errorf("it was %s, and is granted", stop)
							}
							w.complete(g)
						}
						w.lawfulChains()
						if w.last(ids[1]) == ids[1] {
							w.Error("the run behind it was not handed on")
						}
					})
				}
			}
		}
	}
}

// TestP81StatusAndListsOfAChain fails when a list doesn't show the original as continued and
// the successor as what it is, or a reader of the original isn't told of both.
func TestP81P32P26StatusAndListsOfAChain(t *testing.T) {
	for shard := range 2 {
		setup{shards: 2}.play(t, func(w *world) {
			w.deployed(`"limit":{"key":"k","max":1}`, `"limit":{"key":"r","max":1}`)
			s := keyedSubmit("sync", w.placed(shard), "order")
			s.Stamp = &wire.Stamp{Version: "1"}
			id := w.id(await(w, w.submitting(s)).RunID)
			watch := w.waitingFor(id, time.Hour)
			w.keptAlive("sync", "2")
			w.pass(20 * time.Millisecond)
			to := w.last(id)
			w.handedOn(id, to)
			for status, want := range map[string]flow.RunID{"continued": id, "queued": to} {
				all := w.list(wire.ListQuery{Status: status})
				if len(all) != 1 || all[0].RunID != want.String() || all[0].RequestedRunID != "" || all[0].Status != status {
					w.Errorf("the list of %s runs: %+v", status, all)
				}
				if status == "continued" && (all[0].ContinuedTo == nil || *all[0].ContinuedTo != to.String()) {
					w.Errorf("the original in a list is continued to %v", all[0].ContinuedTo)
				}
			}
			if y := w.why(id); y.RunID != to.String() || y.Status != "queued" {
				w.Errorf("why of the original: %+v", y)
			}
			if again := await(w, w.submitting(s)); again.Created || again.RunID != id.String() || again.Status != "queued" {
				w.Errorf("its key names %+v", again)
			}
			if watch.over() {
				w.Fatal("a hand-on is no end")
			}
			g := w.claimOne("sync", "2")
			if n := len(w.events(id)); n != 2 {
				w.Errorf("the original has %d events: %+v", n, w.events(id))
			}
			refused(w, w.failing(wire.Grant{RunID: id.String(), Fence: g.Fence}, false), flow.ErrRunEnded)
			w.complete(g)
			if r := await(w, watch); r.RunID != to.String() || r.RequestedRunID != id.String() || r.Status != "completed" || string(r.Result) != `"done"` {
				w.Errorf("who waited for the original hears of %+v", r)
			}
			if _, err := w.Retry(w.Context(), w.id("run_00000000000000000000000001"), wire.Retry{}); !errors.Is(err, flow.ErrUnknownRun) {
				w.Errorf("a retry of no run: %v", err)
			}
			retry := w.retry(id)
			if src := w.status(w.id(retry.RunID)).Provenance.Source; src.RetryOf == nil || *src.RetryOf != to.String() || src.GatedFrom != nil {
				w.Errorf("the retry of the original comes from %+v", src)
			}
		})
	}
}

// TestP32WatchersBeforeDuringAndAfter fails when one who waits for the end of a run that is
// handed on meanwhile, once or more, isn't told of the last successor's end.
func TestP32D5_4P26WatchersBeforeDuringAndAfter(t *testing.T) {
	for shard := range 2 {
		setup{shards: 2}.play(t, func(w *world) {
			for v := 1; v <= 4; v++ {
				w.declare("sync", fmt.Sprintf(`{"version":"%d","limit":{"key":%q,"max":1},"lease_seconds":600}`, v, []string{"k", "r"}[v%2]))
			}
			id := w.stampedBy("1", 1, w.placed(shard))[0]
			watches := []*call[wire.Run]{w.waitingFor(id, time.Hour)}
			for v := 2; v <= 4; v++ {
				w.keptAlive("sync", fmt.Sprint(v))
				watches = append(watches, w.waitingFor(id, time.Hour))
				if w.pass(20 * time.Millisecond); v == 3 {
					w.signal(id, "x", `"during"`)
				}
			}
			g := w.claimOne("sync", "4")
			if fmt.Sprint(payloads(g.Signals)) != `["during"]` {
				w.Errorf("the last of the chain has %v", payloads(g.Signals))
			}
			w.complete(g)
			watches = append(watches, w.waitingFor(id, time.Hour))
			for i, c := range watches {
				if r := await(w, c); r.RunID != g.RunID || r.Status != "completed" {
					w.Errorf("watcher %d hears of %s, which is %s", i, r.RunID, r.Status)
				}
			}
			if got := w.cancel(id); got != "completed" {
				w.Errorf("a cancel after the end answers %s", got)
			}
		})
	}
}
