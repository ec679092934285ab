package actors_test

import (
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// leased is a declaration with a lease of 10 s: its expiry comes after 13 s.
const leased = `{"version":"1","limit":{"key":"k","max":1000},"lease_seconds":10}`

// one is leased with room for one.
const one = `{"version":"1","limit":{"key":"k","max":1},"lease_seconds":10}`

// expiry is when the owner ends a lease of 10 s that nobody renews.
const expiry = 13 * time.Second

// TestR5ManyLeasesOfOneInstantAllExpire fails when some of many deadlines of one
// instant are forgotten.
func TestR5ManyLeasesOfOneInstantAllExpire(t *testing.T) {
	setup{shards: 1}.play(t, func(w *world) {
		w.declare("sync", leased)
		const runs = 700
		w.submitAll(runs, "sync", `{"k":"a"}`)
		granted := 0
		for granted < runs {
			granted += len(w.claim("sync", "1", runs))
		}
		w.used("sync", "a", runs)
		w.pass(expiry + 10*time.Millisecond)
		w.used("sync", "a", 0)
	})
}

// TestR2WallSteppedBackDelaysNoLeaseForEver fails when a deadline that shard time
// reaches later than the clock thought is forgotten: shard time runs 5 % slow.
func TestR2WallSteppedBackDelaysNoLeaseForEver(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", one)
		a := w.submit("sync", `{"k":"a"}`)
		w.claimRun("sync", "1", a)
		w.clock.step(-flow.Hour)
		w.pass(expiry)
		w.is(a, "executing") // 13 s by the clock are 12.35 s of shard time
		w.pass(time.Second)
		w.is(a, "queued")
	})
}

// TestR2WallSteppedForwardEndsNoLeaseEarly fails when a step of the wall is taken
// for time that has passed: more than 5 % of it.
func TestR2WallSteppedForwardEndsNoLeaseEarly(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", one)
		a := w.submit("sync", `{"k":"a"}`)
		g := w.claimRun("sync", "1", a)
		for range 20 { // each beat gives at least 13 s / 1.05 = 12.38 s
			w.clock.step(flow.Hour)
			w.pass(12300 * time.Millisecond)
			if !w.beat(g).OK {
				w.Fatalf("the lease ended %s early", time.Second)
			}
		}
		w.pass(12300 * time.Millisecond)
		w.is(a, "executing")
		w.pass(700 * time.Millisecond)
		w.is(a, "queued")
	})
}

// TestR2P56SteppedWallGrantsNoToken fails when a step of the wall, either way,
// gives tokens or takes them back: starts are at most burst + rate x t, and t is
// at most 5 % more than what has passed.
func TestR2P56SteppedWallGrantsNoToken(t *testing.T) {
	for name, step := range map[string]flow.Span{"forward": flow.Hour, "back": -flow.Hour} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				w.declare("sync", `{"version":"1","rate":{"key":"k","per_second":1,"burst":3}}`)
				w.submitAll(40, "sync", `{"k":"a"}`)
				started, begin := len(w.claim("sync", "1", 40)), w.now()
				w.clock.step(step)
				for range 20 {
					w.pass(time.Second)
					started += len(w.claim("sync", "1", 40))
					passed := (w.now() - begin).Seconds()
					if most := 3 + passed*1.05; float64(started) > most {
						w.Fatalf("%d starts in %.1f s, want at most %.2f", started, passed, most)
					}
					if least := 3 + passed*0.95 - 1; float64(started) < least {
						w.Fatalf("%d starts in %.1f s, want at least %.2f", started, passed, least)
					}
				}
			})
		})
	}
}

// TestR2DateWaitsForTheWall fails when a suspension until a date ends before the
// wall has reached it, though shard time has; or long after both have.
func TestR2DateWaitsForTheWall(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", one)
		a := w.submit("sync", `{"k":"a"}`)
		g := w.claimRun("sync", "1", a)
		until := w.clock.Wall().Add(10 * flow.Second)
		if s := await(w, w.suspending(g, until)); s != "suspended" {
			w.Fatalf("suspended until a date: %s", s)
		}
		w.clock.step(-flow.Minute)
		w.pass(15 * time.Second)
		w.is(a, "suspended")
		w.pass(54 * time.Second) // 69 s: the wall is at 9 s
		w.is(a, "suspended")
		w.pass(6 * time.Second) // shard time is slow meanwhile, so it may be late
		w.is(a, "queued")
	})
}

// TestR2DateWaitsForShardTime fails when a wall that jumps over a date ends a
// suspension that shard time hasn't reached.
func TestR2DateWaitsForShardTime(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", one)
		a := w.submit("sync", `{"k":"a"}`)
		g := w.claimRun("sync", "1", a)
		await(w, w.suspending(g, w.clock.Wall().Add(10*flow.Second)))
		w.clock.step(flow.Hour)
		w.pass(9 * time.Second)
		w.is(a, "suspended")
		w.pass(time.Second)
		w.is(a, "queued")
	})
}

// TestR2ShardTimeNeverGoesBackOverARestart fails when a wall that was set back
// while the node was down makes entries go back in time.
func TestR2ShardTimeNeverGoesBackOverARestart(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", one)
		a := w.submit("sync", `{"k":"a"}`)
		w.clock.step(-flow.Hour)
		w.restart()
		b := w.submit("sync", `{"k":"a"}`)
		if x, y := w.status(a).SubmittedAt, w.status(b).SubmittedAt; x > y {
			w.Errorf("b was submitted at %d, before a at %d", y, x)
		}
		w.complete(w.claimRun("sync", "1", a)) // order is that of the submits
		w.claimRun("sync", "1", b)
		all, _ := w.entries(w.shardOf("sync", "a"))
		for i := 1; i < len(all); i++ {
			if all[i].Wall < all[i-1].Wall {
				w.Errorf("entry %d is of %d, entry %d before it of %d", all[i].Pos, all[i].Wall, all[i-1].Pos, all[i-1].Wall)
			}
		}
	})
}

// TestS84VeryLongDelays fails when a delay of years wraps, spins, or is lost with
// a restart.
func TestS84VeryLongDelays(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", leased)
		ids := w.submitAll(3, "sync", `{"k":"a"}`)
		grants := w.claim("sync", "1", 3)
		year := 365 * flow.Day
		await(w, w.suspending(grants[0], w.clock.Wall().Add(10*year)))
		far := int64(1) << 62
		_, err := w.Suspend(w.Context(), ids[1], wire.Suspend{Fence: grants[1].Fence, Until: wire.Until{AtMS: &far}})
		if err == nil {
			w.Error("a suspension until the year 146 million was taken")
		}
		await(w, w.suspending(grants[2], w.clock.Wall().Add(flow.Second)))
		w.pass(1100 * time.Millisecond)
		w.is(ids[0], "suspended")
		w.is(ids[2], "queued")
		w.restart()
		w.pass(24 * time.Hour)
		w.is(ids[0], "suspended")
		w.pass(time.Duration(10 * year))
		w.is(ids[0], "queued")
	})
}
