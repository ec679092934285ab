package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/bench/load"
)

// moments of a test, in milliseconds.
var zero = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func ms(n int) time.Time { return zero.Add(time.Duration(n) * time.Millisecond) }

func between(from, to int) span { return span{ms(from), ms(to)} }

// Fails when the snapshots of one round count as several rounds, or two rounds as one.
func TestRoundsAreFoundFromOutside(t *testing.T) {
	r := &rounds{calm: time.Second}
	for at := 0; at < 10_000; at += 5 {
		r.note(at >= 2000 && at < 2500 || at >= 3200 && at < 4000 || at >= 6000 && at < 6100, ms(at))
	}
	want := []span{between(2000-250, 3995+250), between(6000-250, 6095+250)}
	if len(r.done) != 2 || r.done[0] != want[0] || r.done[1] != want[1] {
		t.Errorf("rounds are %v, want %v", r.done, want)
	}
}

// Fails when only a finished snapshot shows that one is under way.
func TestRoundsLookForUnfinishedFiles(t *testing.T) {
	r := &rounds{dir: t.TempDir(), limit: 1}
	for i, name := range []string{"shard-00000-epoch-1-pos-9-at-9.snap", "shard-00000-epoch-1-pos-9-at-9.snap" + unfinished} {
		if err := os.WriteFile(filepath.Join(r.dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := r.look(ms(i)); err != nil {
			t.Fatal(err)
		}
		if under := !r.open.begin.IsZero(); under != (i == 1) {
			t.Errorf("with %s: a round is under way: %v", name, under)
		}
	}
	if err := os.Remove(filepath.Join(r.dir, "shard-00000-epoch-1-pos-9-at-9.snap"+unfinished)); err != nil {
		t.Fatal(err)
	}
	if err := r.follow(t.Context()); err != nil || len(r.done) != 1 {
		t.Errorf("%d rounds are over, %v", len(r.done), err)
	}
	if err := r.settle(t.Context()); err != nil || len(r.done) != 0 {
		t.Errorf("%d rounds count that were before, %v", len(r.done), err)
	}
	if r.dir = filepath.Join(r.dir, "none"); r.look(ms(0)) == nil {
		t.Error("a directory that isn't there has snapshots")
	}
}

// Fails when a claim that a round overlaps counts for the time without one, or one of
// the warm-up, or behind the last round, counts at all.
func TestClaimsBelongToTurns(t *testing.T) {
	turns := byTurn(ms(100), []span{between(1000, 2000), between(5000, 6000)}, []span{
		between(0, 90), between(99, 300), // warm-up
		between(100, 101), between(990, 999), // before the first round
		between(999, 1000), between(1500, 1501), between(2000, 2030), between(900, 2500), // in it
		between(2001, 2003),                      // between the two
		between(4990, 5100), between(5900, 6100), // in the second
		between(6001, 6002), // behind it
	})
	if len(turns) != 2 {
		t.Fatalf("%d turns", len(turns))
	}
	for i, want := range [][2]uint64{{2, 4}, {1, 2}} {
		if got := [2]uint64{turns[i].Without.Claims, turns[i].With.Claims}; got != want {
			t.Errorf("turn %d has %v claims without and with, want %v", i, got, want)
		}
	}
	if turns[0].With.Max != 1_600_000 || turns[0].Without.Seconds != .9 || turns[1].Without.Seconds != 3 || turns[1].With.Seconds != 1 {
		t.Errorf("turns are %+v", turns)
	}
	s := summarize(turns)
	if s.With.Claims != 6 || s.Without.Claims != 3 || s.With.Windows != 2 || s.With.Max != 1_600_000 || s.P99Ratio <= 1 || len(s.P99Ratios) != 2 || s.Median <= 0 {
		t.Errorf("summary is %+v", s)
	}
	if none := byTurn(ms(0), nil, nil); len(none) != 0 {
		t.Errorf("turns without a round: %v", none)
	}
}

// Fails when the clients of a round don't do what they say, or go on behind the last
// round.
func TestPaceStopsWithTheRounds(t *testing.T) {
	_, host := serving(t)
	j := job{host: host, workflow: "pace", keys: 5, batch: 2}
	if err := declare(j, openGates); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "a.snap"+unfinished)
	r := &rounds{dir: dir, limit: 1}
	first, enough := make(chan struct{}), 0
	j.ended = func(runs []held) { // one client: one goroutine
		if enough += len(runs); enough == 20 {
			close(first)
		}
	}
	done := make(chan error, 1)
	var seen []span
	b := &bench{options: options{clients: numbers{1}, perSec: 1000}}
	go func() {
		var err error
		seen, err = b.pace(t.Context(), target{job: j}, r)
		done <- err
	}()
	<-first
	// A round: a file that is there for a while.
	for range 2 {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		<-time.After(20 * roundLook)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-done:
			if err != nil || len(seen) < 10 {
				t.Errorf("%d claims were seen, %v", len(seen), err)
			}
			return
		case <-time.After(time.Second):
		}
	}
	t.Error("the clients go on behind the last round")
}

// Fails when an error of a client is lost.
func TestPaceEndsWithAnError(t *testing.T) {
	_, host := serving(t)
	j := job{host: host, workflow: "nobody_declared_it", keys: 5, batch: 1}
	b := &bench{options: options{clients: numbers{1}, perSec: 1000}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := b.pace(ctx, target{job: j}, &rounds{dir: t.TempDir(), limit: 1}); err == nil || ctx.Err() != nil {
		t.Errorf("error is %v", err)
	}
}

// Fails when claims that stand alone aren't told.
func TestClaimsAreTold(t *testing.T) {
	_, host := serving(t)
	j := job{host: host, workflow: "told", keys: 2, batch: 1}
	if err := declare(j, openGates); err != nil {
		t.Fatal(err)
	}
	c, err := j.client(0)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	told := 0
	c.claimed = func(begin, end time.Time) {
		if end.After(begin) {
			told++
		}
	}
	for range 3 {
		if err := c.Cycle(load.NewRecorder(everything())); err != nil {
			t.Fatal(err)
		}
	}
	if told != 3 {
		t.Errorf("%d claims were told, want 3", told)
	}
}
