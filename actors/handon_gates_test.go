package actors_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// TestS11FreeingNeedsNoLookUp fails when a slot is freed by anything but the stamp of the run
// that took it, or when what is behind it isn't served.
func TestS11P58FreeingNeedsNoLookUp(t *testing.T) {
	for _, worker := range []string{"1", "2", "3"} {
		setup{shards: 2}.play(t, func(w *world) {
			w.declare("sync", `{"version":"1","limit":{"key":"tenant","max":1},"lease_seconds":600}`)
			tenant, region := w.keyIn(0, "sync", "a"), w.keyIn(1, "sync", "eu")
			ids := w.submitAll(2, "sync", fmt.Sprintf(`{"tenant":%q,"region":%q}`, tenant, region))
			a := w.claimOne("sync", "1")
			w.declare("sync", `{"version":"2","limit":{"key":"region","max":5}}`)
			w.declare("sync", `{"version":"3"}`)
			w.used("sync", tenant, 1)
			w.used("sync", region, 0)
			if v := w.key("sync", tenant); len(v.Holders) != 1 || v.Holders[0].RunID != a.RunID || v.Queued != 1 {
				w.Errorf("the key before the end: %+v", v)
			}
			older := w.claimingAs(claimOf("sync", "1", 1, time.Hour))
			w.settle()
			w.complete(a)
			w.used("sync", region, 0) // nothing was freed there
			if !older.over() || len(older.value) != 1 || older.value[0].RunID != ids[1].String() {
				w.Fatalf("its own worker got %s", names(older.value))
			}
			w.stays(ids[1])
			w.used("sync", tenant, 1)
			w.complete(older.value[0])
			w.used("sync", tenant, 0)

			next := w.stampedBy("1", 2, fmt.Sprintf(`{"tenant":%q,"region":%q}`, tenant, region))
			g := w.claimOne("sync", worker)
			want := map[string]string{"1": tenant, "2": region, "3": ""}[worker]
			if g.RunID != w.last(next[0]).String() || g.Key != want {
				w.Errorf("a worker of %s is granted %s by %q", worker, g.RunID, g.Key)
			}
			if worker != "1" {
				w.used("sync", tenant, 0)
			}
			if want != "" {
				w.used("sync", want, 1)
			}
			w.complete(g)
			w.used("sync", tenant, 0)
			w.used("sync", region, 0)
		})
	}
}

// TestS30RetryByHandWaitsLikeEveryone fails when a run that is retried by hand passes others,
// takes no token of its own, is the old run, or is handed on.
func TestS30P65RetryByHandWaitsLikeEveryone(t *testing.T) {
	for _, failed := range []string{"failed", "cancelled", "archived"} {
		setup{shards: 2, recentFor: 2 * flow.Second}.play(t, func(w *world) {
			w.declare("sync", `{"version":"1","limit":{"key":"k","max":1},"rate":{"key":"k","per_second":0.001,"burst":4},"lease_seconds":600}`)
			a := w.submit("sync", `{"k":"a"}`)
			g := w.claimOne("sync", "1")
			refusedRetry(w, a, flow.ErrRunNotEnded)
			if failed == "cancelled" {
				w.cancel(a)
			}
			await(w, w.failing(g, false))
			if failed == "archived" {
				w.pass(5 * time.Second)
			}
			b, c := w.submit("sync", `{"k":"a"}`), w.submit("sync", `{"k":"a"}`)
			gb := w.claimRun("sync", "1", b)
			r := wire.Retry{RequestID: "again"}
			retry := func() wire.Submitted {
				w.Helper()
				return await(w, begin(func() (wire.Submitted, error) { return w.Retry(w.life, a, r) }))
			}
			first := retry()
			if again := retry(); !first.Created || again.Created || again.RunID != first.RunID || again.Status != "queued" {
				w.Errorf("retried as %+v, and again as %+v", first, again)
			}
			a2 := w.id(first.RunID)
			got := w.status(a2)
			if got.Status != "queued" || got.Wait.Position == nil || *got.Wait.Position != 2 || got.Attempt != 0 || a2 == a {
				w.Errorf("the retry is %+v with %+v", got, got.Wait)
			}
			if src := got.Provenance.Source; src.Trigger != "retry_by_name" || src.RetryOf == nil || *src.RetryOf != a.String() || src.GatedFrom != nil {
				w.Errorf("it comes from %+v", src)
			}
			w.used("sync", "a", 1)
			w.complete(gb)
			w.complete(w.claimRun("sync", "1", c))
			if v := w.key("sync", "a"); v.Rate.Tokens != 1 {
				w.Errorf("%d tokens after three starts of 4", v.Rate.Tokens)
			}
			w.declare("sync", `{"version":"2","limit":{"key":"k","max":3}}`)
			w.complete(w.claimRun("sync", "2", a2))
			w.stays(a2)
			if v := w.key("sync", "a"); v.Used != 0 {
				w.Errorf("%d slots are used", v.Used)
			}
			if again := retry(); again.Created || again.Status != "completed" {
				w.Errorf("the same request once more, after its run's end: %+v", again)
			}
			if n := len(w.tokensOf("a")); n != 4 {
				w.Errorf("%d tokens were taken for 4 starts", n)
			}
		})
	}
}

// tokensOf are the instants at which the tokens of a key of "sync" were taken.
func (w *world) tokensOf(key string) []time.Duration {
	w.Helper()
	return w.tokens()[flow.KeyID{Workflow: "sync", Value: key, Kind: flow.KeyOfValue}]
}

// refusedRetry fails unless a retry by hand is refused.
func refusedRetry(w *world, id flow.RunID, want error) {
	w.Helper()
	refused(w, begin(func() (wire.Submitted, error) { return w.Retry(w.life, id, wire.Retry{}) }), want)
}

// TestP20P65RetryOfAFunctionKey fails when a retry by name makes a run whose key only code
// can compute, or one of no run.
func TestP20P65RetryOfAFunctionKey(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", `{"version":"1",`+byRegion+`}`)
		s := submitOf("sync", `{}`)
		s.Stamp = &wire.Stamp{Version: "1", Keys: &wire.StampKeys{Limit: new("eu")}}
		id := w.id(await(w, w.submitting(s)).RunID)
		w.cancel(id)
		refusedRetry(w, id, flow.ErrConfiguration)
		refusedRetry(w, w.id("run_00000000000000000000000001"), flow.ErrUnknownRun)
		if n := len(w.list(wire.ListQuery{})); n != 1 {
			w.Errorf("there are %d runs", n)
		}
	})
}

// TestS51NoTokenWithoutAStart fails when a claim that is refused, or a hand-on, takes a token
// or leaves one taken; with the rate's key in the shard of the limit and in another.
func TestS51P64P76NoTokenWithoutAStart(t *testing.T) {
	for _, rate := range []string{"k", "r"} {
		for shard := range 2 {
			setup{shards: 2}.play(t, func(w *world) {
				const gates = `"limit":{"key":"k","max":%d},"rate":{"key":%q,"per_second":0.016666,"burst":10},"lease_seconds":600`
				w.deployed(fmt.Sprintf(gates, 1, rate), fmt.Sprintf(gates, 2, rate))
				params := w.placed(shard)
				key := w.keyIn(0, "sync", "k")
				if rate == "r" {
					key = w.keyIn(shardID(shard), "sync", "r")
				}
				tokens := func(want int64) {
					w.Helper()
					if v := w.key("sync", key); v.Rate == nil || v.Rate.Tokens != want {
						w.Errorf("rate by %s in shard %d: %+v, want %d tokens", rate, shard, v.Rate, want)
					}
				}
				ids := w.stampedBy("1", 3, params)
				a := w.claimOne("sync", "1")
				tokens(9)
				for range 10 {
					for _, credit := range []int{1, 0} {
						if g := w.claimBy("sync", "1", credit); len(g) != 0 {
							w.Fatalf("granted %s", names(g))
						}
					}
					tokens(9)
				}
				w.keptAlive("sync", "2")
				w.handedOn(ids[1], w.last(ids[1]))
				w.pass(20 * time.Millisecond)
				tokens(9)
				b := w.claimOne("sync", "2") // the newer limit has room for it
				if b.RunID != w.last(ids[1]).String() {
					w.Errorf("granted %s", b.RunID)
				}
				tokens(8)
				w.keptAlive("sync", "2")
				tokens(8)
				w.complete(a)
				w.complete(b)
				tokens(8)
				w.complete(w.claimOne("sync", "2"))
				tokens(7)
				if n := len(w.tokensOf(key)); n != 3 {
					w.Errorf("%d tokens were taken", n)
				}
				w.lawfulChains()
			})
		}
	}
}

// TestS55NewRateReachesThoseWhoWait fails when a raised rate needs more than a worker of it,
// or when runs start out of order, more than it lets through, or later than it does.
func TestS55P27NewRateReachesThoseWhoWait(t *testing.T) {
	play(t, func(w *world) {
		w.deployed(`"rate":{"key":"k","per_second":1,"burst":1}`, `"rate":{"key":"k","per_second":50,"burst":50}`)
		ids := w.stampedAtOnce("1", 100, `{"k":"a"}`)
		begin := w.now()
		s := w.serve(100, "sync")
		s.claim.Workflows[0].Version = "2"
		s.work(1500 * time.Millisecond)
		if len(s.order) != len(ids) {
			w.Fatalf("%d of %d runs have started", len(s.order), len(ids))
		}
		for i, id := range ids {
			if s.order[i] != w.last(id).String() {
				w.Fatalf("start %d is of %s, want the successor of %s", i, s.order[i], id)
			}
		}
		within(w, s.at, 50, 50)
		if last := s.at[99] - begin; last > time.Second+time.Millisecond || s.at[49] != begin {
			w.Errorf("50 starts after %s and the last after %s", s.at[49]-begin, last)
		}
		w.lawfulChains()
	})
	play(t, func(w *world) {
		w.deployed(`"rate":{"key":"k","per_second":1,"burst":1}`, `"rate":{"key":"k","per_second":50,"burst":50}`)
		ids := w.stampedAtOnce("1", 10, `{"k":"a"}`)
		s := w.serve(100, "sync")
		s.work(9500 * time.Millisecond)
		s.inOrder(ids)
		within(w, s.at, 1, 1)
		if n := w.countAll(flow.RecContinued); n != 0 {
			w.Errorf("%d hand-ons to a version that no worker serves", n)
		}
	})
}

// stampedAtOnce is stampedBy in one call.
func (w *world) stampedAtOnce(version string, n int, params string) []flow.RunID {
	w.Helper()
	return w.submitMany(n, func(int) wire.Submit {
		s := submitOf("sync", params)
		s.Stamp = &wire.Stamp{Version: version}
		return s
	})
}

// TestP76P62ReservedSlotIsFreed fails when a run that was passed over so long that a slot was
// set aside for it is handed on, and that slot stays taken.
func TestP76P62ReservedSlotIsFreed(t *testing.T) {
	setup{shards: 2, manual: true}.play(t, func(w *world) {
		const gates = `"limit":{"key":"k","max":%d},"rate":{"key":"r","per_second":1,"burst":1},"lease_seconds":600`
		w.deployed(fmt.Sprintf(gates, 1), fmt.Sprintf(gates, 2))
		k, r := w.keyIn(0, "sync", "k"), w.keyIn(1, "sync", "r")
		late := w.stampedBy("1", 2, w.placed(1))[1]
		w.complete(w.claimOne("sync", "1")) // the bucket is empty
		w.claimBy("sync", "1", 1)           // late asks, and nobody is there when its token comes
		for range 65 {                      // it is passed over for a minute
			w.pass(time.Second)
		}
		claim := w.claimingAs(claimOf("sync", "1", 1, 0))
		w.settle()
		if w.countAll(flow.RecReserved) != 1 {
			w.Fatalf("no slot was set aside: %s", w.whyText(late))
		}
		worker, c := claimOf("sync", "2", 0, 0)
		w.claimingAs(worker, c)
		w.settle()
		for _, g := range await(w, claim) { // the older worker may have the successor
			w.complete(g)
		}
		w.handedOn(late, w.last(late))
		w.used("sync", k, 0)
		for range 30 {
			for _, g := range w.claimBy("sync", "2", 5) {
				w.complete(g)
			}
			w.pass(10 * time.Second)
		}
		w.is(late, "completed")
		w.used("sync", k, 0)
		if v := w.key("sync", r); v.Queued != 0 {
			w.Errorf("%d wants stay", v.Queued)
		}
		within(w, w.tokensOf(r), 1, 1)
		w.lawfulChains()
	})
}
