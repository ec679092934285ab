package actors_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// liveness is a world in which it shows whether a version of "sync" is served. Versions
// 1 to 3 differ in their gates and share a key that a run of version 1 holds for good, so
// that what comes behind it is handed on to what is served and starts nowhere.
type liveness struct {
	*world
	holder wire.Grant
	probes int
}

// forEver is a lease that outlasts every test here.
const forEver = `"lease_seconds":86400`

// ofLiveness plays f in such a world.
func ofLiveness(t *testing.T, f func(l *liveness)) {
	t.Helper()
	setup{shards: 2}.play(t, func(w *world) {
		for v := 1; v <= 3; v++ {
			w.declare("sync", fmt.Sprintf(`{"version":"%d","limit":{"key":"k","max":1},"rate":{"key":"k","per_second":%d},%s}`, v, 1000*v, forEver))
		}
		w.declare("other", `{"version":"1",`+forEver+`}`)
		l := &liveness{world: w}
		l.holder = w.claimRun("sync", "1", w.stampedBy("1", 1, `{"k":"full"}`)[0])
		w.pass(2 * aliveFor) // who holds it is not alive any more
		f(l)
	})
}

// takenFor is the version of "sync" that shards take for served: that to which the head of
// a blocked key is handed on, or "" when it stays under version 0.
func (l *liveness) takenFor() string {
	l.Helper()
	id := l.stampedBy("1", 1, `{"k":"full"}`)[0]
	l.commit()
	last := l.last(id)
	defer l.cancel(last)
	if last == id {
		return ""
	}
	return l.status(last).StampedVersion
}

// served fails unless shards take the newest version for served, or none newer than the
// first: want says which.
func (l *liveness) served(want, when string) {
	l.Helper()
	if got := l.takenFor(); got != want {
		l.Errorf("%s: shards take version %q for served, want %q", when, got, want)
	}
}

// reason fails unless a run that no gate holds waits for that reason.
func (l *liveness) reason(want, when string) {
	l.Helper()
	l.probes++
	id := l.stampedBy("3", 1, fmt.Sprintf(`{"k":"free %d"}`, l.probes))[0]
	if r := l.status(id); r.Wait == nil || r.Wait.Reason != want {
		l.Errorf("%s: a run that no gate holds waits for %+v, want %s", when, r.Wait, want)
	}
	l.cancel(id)
}

// alive fails unless version 2 is served, or isn't, for shards and for readers alike.
func (l *liveness) alive(want bool, when string) {
	l.Helper()
	version, reason := "", "no_worker"
	if want {
		version, reason = "2", "worker_busy"
	}
	l.served(version, when)
	l.reason(reason, when)
}

// beatAs sends a worker's heartbeat for one run and says whether it is still his.
func (l *liveness) beatAs(worker string, g wire.Grant) bool {
	l.Helper()
	h := wire.Heartbeat{Worker: worker, Runs: []wire.Beat{{RunID: g.RunID, Fence: g.Fence}}}
	return await(l.world, begin(func() (wire.HeartbeatResult, error) { return l.Heartbeat(l.life, h) })).Runs[0].OK
}

// word claims as a worker of a version, with nothing that it could be granted.
func (l *liveness) word(worker, version string) {
	l.Helper()
	_, c := claimOf("sync", version, 0, 0)
	await(l.world, l.claimingAs(worker, c))
}

// TestR16HeartbeatRevives fails when a heartbeat that comes after a long silence doesn't
// make its worker count as alive for all that it is known to serve, or makes it count for
// shards and not for readers.
func TestR16HeartbeatRevives(t *testing.T) {
	for _, silence := range []time.Duration{20 * time.Second, 31 * time.Second, 5 * time.Minute} {
		t.Run(silence.String(), func(t *testing.T) {
			ofLiveness(t, func(l *liveness) {
				worker, c := claimOf("other", "1", 1, 0)
				l.submit("other", `{}`)
				g := await(l.world, l.claimingAs(worker, c))[0]
				l.word(worker, "2")
				l.pass(silence)
				l.alive(silence < aliveFor, "before the heartbeat")
				if !l.beatAs(worker, g) {
					l.Fatal("the run isn't his any more")
				}
				l.alive(true, "after the heartbeat")
				l.pass(aliveFor - time.Second)
				l.alive(true, "29 s later")
				l.pass(2 * time.Second)
				l.alive(false, "31 s later")
			})
		})
	}
}

// TestR16HeartbeatCountsForTheRunsItRenews fails when a node that has never seen a claim of
// a worker doesn't take it for alive by the heartbeats for what it holds, or takes it for
// alive by one that renews nothing.
func TestR16HeartbeatCountsForTheRunsItRenews(t *testing.T) {
	ofLiveness(t, func(l *liveness) {
		id := l.stampedBy("2", 1, `{"k":"busy"}`)[0]
		g := l.claimOne("sync", "2")
		if g.RunID != id.String() {
			l.Fatalf("granted %s", g.RunID)
		}
		l.restart()
		l.alive(false, "after a restart")
		stale := g
		stale.Fence--
		if l.beatAs("worker of 2", stale) {
			l.Fatal("a stale fence holds the run")
		}
		l.alive(false, "after a heartbeat with a stale fence")
		if !l.beatAs("worker of 2", g) {
			l.Fatal("the run isn't his any more")
		}
		l.alive(true, "after the heartbeat")
		l.pass(20 * time.Second)
		l.beatAs("worker of 2", stale) // what it serves is known by now
		l.pass(20 * time.Second)
		l.alive(true, "20 s after a heartbeat with a stale fence, of a worker that is known")
		l.pass(11 * time.Second)
		l.alive(false, "31 s after its last heartbeat")
	})
}

// TestR16HeartbeatMovesNobody fails when a worker that has claimed a newer version goes back
// to an older one because it still renews a run of that.
func TestR16HeartbeatMovesNobody(t *testing.T) {
	ofLiveness(t, func(l *liveness) {
		l.stampedBy("2", 1, `{"k":"busy"}`)
		g := l.claimOne("sync", "2")
		l.word("worker of 2", "3")
		for range 10 {
			l.pass(10 * time.Second)
			l.beatAs("worker of 2", g)
			l.served("3", "while it renews a run of version 2")
		}
		l.word("another", "2")
		l.pass(aliveFor + time.Second)
		l.served("", "31 s after the last heartbeat")
	})
}

// TestR16WaitingClaimKeepsItsWorkerAlive fails when a worker isn't alive while its claim
// waits, or until 30 s after the end of it, however that ends.
func TestR16WaitingClaimKeepsItsWorkerAlive(t *testing.T) {
	const wait = 100 * time.Second
	ofLiveness(t, func(l *liveness) {
		for _, withdrawn := range []bool{false, true} {
			began := l.now()
			ctx, withdraw := context.WithCancel(l.Context())
			worker, c := claimOf("sync", "2", 1, wait)
			c.Worker = worker
			poll := begin(func() (wire.Claimed, error) { return l.Claim(ctx, c) })
			for range 9 {
				l.pass(11 * time.Second)
				l.served("2", fmt.Sprint(l.now()-began, " after the claim"))
			}
			if withdrawn {
				withdraw()
				<-poll.done
			} else {
				await(l.world, poll)
				withdraw()
			}
			for range 2 {
				l.pass(14 * time.Second)
				l.alive(true, fmt.Sprint(l.now()-began, " after the claim, which waited for ", wait))
			}
			l.pass(3 * time.Second)
			l.alive(false, "31 s after the end of the claim")
		}
	})
}

// TestR16NoGapBetweenClaims fails when a worker that claims again and again, each time for
// just the 30 s that it counts as alive, isn't alive for a moment.
func TestR16NoGapBetweenClaims(t *testing.T) {
	ofLiveness(t, func(l *liveness) {
		worker, c := claimOf("sync", "2", 1, aliveFor)
		poll := l.claimingAs(worker, c)
		l.settle()
		for began := l.now(); l.now() < began+5*aliveFor; l.pass(499 * time.Millisecond) {
			l.served("2", (l.now() - began).String())
			if poll.over() {
				l.pass(time.Second)
				l.served("2", "between two claims")
				poll = l.claimingAs(worker, c)
				l.settle()
			}
		}
		await(l.world, poll)
	})
}

// TestR16LeavingIsToldAtOnce fails when a worker that claims another version, or claims with
// a wait for the old one beside it, is still taken for one that serves the old one.
func TestR16LeavingIsToldAtOnce(t *testing.T) {
	for name, wait := range map[string]time.Duration{"short claims": 0, "a claim that waits": 2 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			ofLiveness(t, func(l *liveness) {
				_, c := claimOf("sync", "3", 1, wait)
				first := l.claimingAs("a", c)
				l.settle()
				l.served("3", "while the worker claims version 3")
				l.word("a", "2")
				l.served("2", "when it has claimed version 2")
				await(l.world, first)
				l.pass(time.Second)
				if wait > 0 {
					l.word("a", "2")
				}
				l.served("2", "when its claim for version 3 has ended")
			})
		})
	}
}

// TestR16WhoStaysDecidesHowLong fails when a version counts as served for longer, or less
// long, than those live who still serve it.
func TestR16WhoStaysDecidesHowLong(t *testing.T) {
	ofLiveness(t, func(l *liveness) {
		l.word("a", "3")
		l.pass(20 * time.Second)
		l.word("b", "3")
		l.pass(500 * time.Millisecond)
		l.word("b", "2") // a is left, silent for 20.5 s
		l.pass(9 * time.Second)
		l.served("3", "29.5 s after the word of the one who stays")
		l.pass(time.Second)
		l.served("2", "30.5 s after it")
		l.pass(18 * time.Second)
		l.alive(true, "29 s after the word of the one who left")
		l.pass(2 * time.Second)
		l.alive(false, "31 s after it")
	})
}

// TestR16WordsWithinASecondCount fails when shards take a worker for dead within 30 s of a
// word of which they weren't told, since they are told once a second at most.
func TestR16WordsWithinASecondCount(t *testing.T) {
	ofLiveness(t, func(l *liveness) {
		l.word("a", "2")
		l.pass(900 * time.Millisecond)
		l.word("a", "2")
		l.pass(aliveFor - 100*time.Millisecond)
		l.served("2", "29.9 s after the last word")
	})
}

// TestR18HeartbeatsHandNothingOnWhileOldLeasesLast fails when, after a start that may have
// lost grants, a run that may have started is handed on because of a heartbeat for another.
func TestR18HeartbeatsHandNothingOnWhileOldLeasesLast(t *testing.T) {
	setup{shards: 2}.play(t, func(w *world) {
		w.deployed(`"limit":{"key":"k","max":1},"lease_seconds":60`, `"limit":{"key":"k","max":2},"lease_seconds":60`)
		w.stampedBy("2", 1, `{"k":"a"}`)
		g := w.claimOne("sync", "2")
		w.pass(aliveFor + time.Second)
		waits := w.stampedBy("1", 1, `{"k":"b"}`)[0]
		w.pass(time.Second)
		w.fall(0)
		w.hold = func() {}
		w.open()
		w.serves()
		for range 2 {
			w.pass(30 * time.Second)
			if !await(w, w.beating(g))[0].OK {
				w.Fatal("the run isn't his any more")
			}
			if w.last(waits) != waits {
				w.Fatal("a run whose grant may have been lost is handed on")
			}
		}
		w.pass(14 * time.Second) // 1.2 times the lease, and a second, are over
		await(w, w.beating(g))
		w.pass(20 * time.Millisecond)
		w.handedOn(waits, w.last(waits))
	})
}

// TestR16NoTimerWithoutWorkers fails when the dispatcher wakes up although no worker is
// alive, or doesn't before what shards know of one that is comes to its end.
func TestR16NoTimerWithoutWorkers(t *testing.T) {
	ofLiveness(t, func(l *liveness) {
		runs := func(want bool, when string) {
			l.Helper()
			l.settle()
			if got := actors.TimerRuns(l.Node); got != want {
				l.Errorf("%s: a timer runs: %t", when, got)
			}
		}
		runs(false, "before the first word")
		l.word("a", "2")
		runs(false, "after one word, which shards were told of")
		l.pass(5 * time.Second)
		l.word("a", "2")
		runs(true, "after a second one")
		worker, c := claimOf("sync", "2", 1, 10*time.Minute)
		poll := l.claimingAs(worker, c)
		l.pass(5 * time.Minute)
		runs(true, "while a claim waits")
		await(l.world, poll)
		l.pass(aliveFor + time.Second)
		runs(false, "31 s after the last word")
		l.alive(false, "31 s after the last word")
	})
}

// TestR16DeadWorkersAreForgotten fails when workers of ever new names fill the dispatcher's
// book, or push one out of it that is alive.
func TestR16DeadWorkersAreForgotten(t *testing.T) {
	ofLiveness(t, func(l *liveness) {
		const most = 4096
		worker, c := claimOf("sync", "2", 1, time.Hour)
		poll := l.claimingAs(worker, c)
		for i := range most + 200 {
			l.word(fmt.Sprint("passes by ", i), "2")
		}
		must(l.world, actors.CheckBook(l.Node))
		if _, workers := actors.BookSize(l.Node); workers < most/2 || workers > most+10 {
			l.Errorf("%d workers are remembered", workers)
		}
		l.pass(11 * time.Minute)
		must(l.world, actors.CheckBook(l.Node))
		if declarations, workers := actors.BookSize(l.Node); declarations != 1 || workers != 1 {
			l.Errorf("%d declarations and %d workers are remembered while one worker lives", declarations, workers)
		}
		l.served("2", "while one worker lives")
		l.kill()
		<-poll.done
	})
}

// TestR16FullBookTakesTheNext fails when so many workers are remembered that the next one
// isn't, although all of them are dead.
func TestR16FullBookTakesTheNext(t *testing.T) {
	ofLiveness(t, func(l *liveness) {
		for i := range 4096 {
			l.word(fmt.Sprint("passes by ", i), "2")
		}
		l.pass(aliveFor + time.Second)
		l.alive(false, "31 s after the last of many workers")
		l.word("next", "2")
		l.alive(true, "when another one has come")
		must(l.world, actors.CheckBook(l.Node))
	})
}

// TestR16AnnouncementsAreFew fails when workers that come and go make more announcements
// than one a second for each version.
func TestR16AnnouncementsAreFew(t *testing.T) {
	ofLiveness(t, func(l *liveness) {
		l.word("stays with 2", "2")
		l.word("stays with 3", "3")
		l.pass(time.Second)
		told := actors.CountAnnouncements(l.Node)
		const seconds = 5
		for i := range seconds * 100 {
			l.word(fmt.Sprint("goes round ", i%20), fmt.Sprint(2+(i/20)%2))
			l.pass(10 * time.Millisecond)
		}
		if got := told.Load(); got > 2*(seconds+1) {
			l.Errorf("%d announcements of two versions in %d s", got, seconds)
		}
		l.served("3", "while workers of both versions live")
	})
}

// TestR16DeclarationsOfNobodyAreForgotten fails when versions that nobody serves any more
// fill the dispatcher's book, or one that is served has no room in it.
func TestR16DeclarationsOfNobodyAreForgotten(t *testing.T) {
	setup{shards: 1}.play(t, func(w *world) {
		const most = 4096
		claim := wire.Claim{Worker: "a"}
		for i := range most + 200 {
			name := fmt.Sprint("w", i%64)
			w.declare(name, fmt.Sprintf(`{"version":"%d"}`, i/64))
			claim.Workflows = []wire.ClaimWorkflow{{Name: name, Version: fmt.Sprint(i / 64)}}
			await(w, w.claimingAs(fmt.Sprint("worker ", i), claim))
			if i%500 == 0 {
				w.pass(2 * time.Second)
			}
		}
		must(w, actors.CheckBook(w.Node))
		w.pass(2 * aliveFor)
		w.declare("last", `{"version":"1"}`)
		claim.Workflows = []wire.ClaimWorkflow{{Name: "last", Version: "1"}}
		await(w, w.claimingAs("a", claim))
		must(w, actors.CheckBook(w.Node))
		if declarations, workers := actors.BookSize(w.Node); declarations != 1 || workers != 1 {
			w.Errorf("%d declarations and %d workers are remembered, of which one is alive", declarations, workers)
		}
	})
}
