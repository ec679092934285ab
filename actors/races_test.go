package actors_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// orders are all orders of n things.
func orders(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var out [][]int
	for _, rest := range orders(n - 1) {
		for at := 0; at <= len(rest); at++ {
			o := append([]int{}, rest[:at]...)
			o = append(o, n-1)
			out = append(out, append(o, rest[at:]...))
		}
	}
	return out
}

// race is the scene of S06: a run that executes, and three messages.
type race struct {
	w        *world
	grant    wire.Grant
	complete *call[string]
	submit   *call[wire.Submitted]
	claim    *call[[]wire.Grant]
}

func (r *race) send(i int) {
	switch i {
	case 0:
		r.complete = r.w.completing(r.grant)
	case 1:
		r.submit = r.w.submitting(submitOf("sync", `{"k":"a"}`))
	default:
		r.claim = r.w.claimingAs("w2", wire.Claim{Workflows: serves("sync"), Credit: 1, WaitMS: 600_000})
	}
}

// ends fails unless the submitted run has started with no further message.
func (r *race) ends(what string) {
	w := r.w
	w.Helper()
	w.commit()
	if !r.complete.over() || !r.submit.over() || !r.claim.over() {
		w.Fatalf("%s: completed %t, submitted %t, claimed %t", what, r.complete.over(), r.submit.over(), r.claim.over())
	}
	if g := r.claim.value; len(g) != 1 || g[0].RunID != r.submit.value.RunID {
		w.Fatalf("%s: granted %s, want %s", what, names(g), r.submit.value.RunID)
	}
	w.used("sync", "a", 1)
}

// TestS06StartRacesEndInThreeBatches fails when B waits beside a free slot, for any
// order of "A completes", "B is submitted" and "w2 claims", each in a batch of its own.
func TestS06StartRacesEndInThreeBatches(t *testing.T) {
	for _, order := range orders(3) {
		setup{manual: true}.play(t, func(w *world) {
			w.declare("sync", one)
			r := &race{w: w, grant: w.claimRun("sync", "1", w.submit("sync", `{"k":"a"}`))}
			for _, i := range order {
				r.send(i)
				w.commit()
			}
			r.ends(fmt.Sprint(order))
		})
	}
}

// TestS06StartRacesEndInOneBatch is the same with all three in one batch, and with the
// first of them, or the first two, in one of their own.
func TestS06StartRacesEndInOneBatch(t *testing.T) {
	for _, order := range orders(3) {
		for alone := range 3 {
			setup{manual: true, window: 1}.play(t, func(w *world) {
				w.declare("sync", one)
				r := &race{w: w, grant: w.claimRun("sync", "1", w.submit("sync", `{"k":"a"}`))}
				for n, i := range order {
					if n == alone {
						w.fillWindow("sync", "a")
					}
					r.send(i)
					w.settle()
				}
				r.ends(fmt.Sprint(order, " alone ", alone))
			})
		}
	}
}

// TestS06StartRacesEndAtRandom is the same many times over one node, with commits at
// random between the messages and no order at all.
func TestS06StartRacesEndAtRandom(t *testing.T) {
	for number := range uint64(4) {
		setup{manual: true, window: 2, shards: 2}.play(t, func(w *world) {
			rng := rand.New(rand.NewPCG(number, 6))
			w.declare("sync", one)
			r := &race{w: w, grant: w.claimRun("sync", "1", w.submit("sync", `{"k":"a"}`))}
			for trial := range raceTrials {
				for _, i := range rng.Perm(3) {
					r.send(i)
					if rng.IntN(2) == 0 {
						w.settle()
					}
					if rng.IntN(3) == 0 {
						w.mem.CommitNext()
					}
				}
				r.ends(fmt.Sprintf("number %d trial %d", number, trial))
				r.grant = r.claim.value[0]
			}
		})
	}
}

// TestS20BeatAndEndInOneInstant fails when a heartbeat beside the completion holds the
// slot again, or the run is both completed and requeued; both orders, one batch and
// two; and the completion in the instant of the expiry.
func TestS20BeatAndEndInOneInstant(t *testing.T) {
	for _, beatFirst := range []bool{true, false} {
		for _, oneBatch := range []bool{true, false} {
			for _, atExpiry := range []bool{true, false} {
				setup{manual: true, window: 1}.play(t, func(w *world) {
					w.declare("sync", one)
					ids := w.submitAll(2, "sync", `{"k":"a"}`)
					g := w.claimRun("sync", "1", ids[0])
					if atExpiry {
						<-time.After(expiry)
					}
					if oneBatch {
						w.fillWindow("sync", "a")
					}
					var beat *call[[]wire.BeatResult]
					var end *call[string]
					send := []func(){func() { beat = w.beating(g) }, func() { end = w.completing(g) }}
					if !beatFirst {
						send[0], send[1] = send[1], send[0]
					}
					for _, f := range send {
						f()
						w.settle()
					}
					w.commit()
					<-end.done
					<-beat.done
					got := w.status(ids[0]).Status
					if (end.err == nil) != (got == "completed") || (got != "completed" && got != "queued") {
						w.Fatalf("the completion was answered %q %v, and the run is %s", end.value, end.err, got)
					}
					if !atExpiry && end.err != nil {
						w.Errorf("a completion in time was refused: %v", end.err)
					}
					w.used("sync", "a", 0)
					next := ids[1]
					if got == "queued" {
						next = ids[0]
					}
					w.claimRun("sync", "1", next)
				})
			}
		}
	}
}

// TestS65CancelRacesSuspend fails when a run that is cancelled while it suspends keeps
// a timer, a place or a slot; both orders, in one batch and in two; and while it fails
// with a back-off.
func TestS65S86CancelRacesSuspend(t *testing.T) {
	for _, cancelFirst := range []bool{true, false} {
		for _, window := range []int{1, 8} {
			for _, fail := range []bool{true, false} {
				setup{manual: true, window: window}.play(t, func(w *world) {
					w.declare("sync", `{"version":"1","limit":{"key":"k","max":1},"max_attempts":5,"retry_backoff_seconds":60}`)
					ids := w.submitAll(2, "sync", `{"k":"a"}`)
					g := w.claimRun("sync", "1", ids[0])
					if window == 1 {
						w.fillWindow("sync", "a")
					}
					if cancelFirst {
						w.cancelling(ids[0])
						w.settle()
					}
					var end *call[string]
					if fail {
						end = w.failing(g, true)
					} else {
						end = w.suspending(g, w.clock.Wall().Add(flow.Minute))
					}
					w.settle()
					if !cancelFirst {
						w.cancelling(ids[0])
						w.settle()
					}
					await(w, end)
					w.is(ids[0], "cancelled")
					w.used("sync", "a", 0)
					w.pass(2 * time.Minute)
					w.is(ids[0], "cancelled")
					w.complete(w.claimRun("sync", "1", ids[1]))
					if n := w.count(ids[0], flow.EventClaimed); n != 1 {
						w.Errorf("it was claimed %d times", n)
					}
				})
			}
		}
	}
}

// TestS47FreedSlotIsSeenInTheSameTurn fails when the next run is granted later than
// the durable write of the end before it.
func TestS47FreedSlotIsSeenInTheSameTurn(t *testing.T) {
	setup{manual: true}.play(t, func(w *world) {
		w.declare("sync", one)
		ids := w.submitAll(2, "sync", `{"k":"a"}`)
		g := w.claimRun("sync", "1", ids[0])
		claim := w.claiming("sync", "1", 1, time.Hour)
		for range 10 {
			if y := w.why(ids[1]); y.Wait.Reason != "limit" {
				w.Fatalf("%+v", y.Wait)
			}
		}
		at := w.now()
		w.completing(g)
		w.commit()
		if !claim.over() || w.now() != at || claim.value[0].RunID != ids[1].String() {
			w.Errorf("granted %t after %s", claim.over(), w.now()-at)
		}
	})
}

// TestS48OneKeysVerdictIsNotAnothers fails when a full or empty key holds another back,
// or is named as its reason.
func TestS48OneKeysVerdictIsNotAnothers(t *testing.T) {
	for _, declaration := range []string{one, `{"version":"1","rate":{"key":"k","per_second":0.001,"burst":1}}`} {
		play(t, func(w *world) {
			w.declare("sync", declaration)
			a := w.submitAll(101, "sync", `{"k":"a"}`)
			w.claimRun("sync", "1", a[0])
			b := w.submit("sync", `{"k":"b"}`)
			if y := w.why(b); y.Wait.Key != nil && *y.Wait.Key == "a" {
				w.Errorf("%s", y.Text)
			}
			w.claimRun("sync", "1", b)
			b = w.submit("sync", `{"k":"b"}`)
			if y := w.why(b); y.Wait.Key == nil || *y.Wait.Key != "b" {
				w.Errorf("%s", y.Text)
			}
			if y := w.why(a[50]); y.Wait.Key == nil || *y.Wait.Key != "a" {
				w.Errorf("%s", y.Text)
			}
		})
	}
}
