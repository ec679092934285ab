package actors_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// tenure is a worker that serves a version of a workflow, as the contract tells it: it is
// alive until 30 s after it was last heard of, and a claim is heard of as long as it waits.
type tenure struct {
	version string
	heard   time.Duration
	polls   []*poll
}

type poll struct {
	end   time.Duration // when its wait is over
	leave context.CancelFunc
	call  *call[[]wire.Grant]
}

// until is the last moment of its life, if nothing comes.
func (t *tenure) until() time.Duration {
	last := t.heard
	for _, p := range t.polls {
		last = max(last, p.end)
	}
	return last + aliveFor
}

// crew plays workers at random beside what the contract says of them.
type crew struct {
	*world
	rng     *rand.Rand
	serves  map[[2]string]*tenure // by worker and workflow
	changed time.Duration         // when something was last sent
}

var crewNames = []string{"a", "b", "c", "d"}

// step does one thing at random.
func (c *crew) step() {
	c.Helper()
	worker := crewNames[c.rng.IntN(len(crewNames))]
	switch c.rng.IntN(8) {
	case 0, 1:
		c.claims(worker, 0)
	case 2, 3:
		c.claims(worker, 1+time.Duration(c.rng.Int64N(int64(45*time.Second))))
	case 4:
		c.beats(worker)
	case 5:
		c.leaves(worker)
	case 6:
		if c.rng.IntN(3) == 0 {
			id := shardID(c.rng.IntN(c.shards))
			must(c.world, c.chaos.Demote(c.Context(), id, 0))
			must(c.world, c.chaos.Settle(c.Context()))
			c.commit()
		}
	}
	most := []time.Duration{0, 300 * time.Millisecond, 3 * time.Second, 12 * time.Second, 40 * time.Second}[c.rng.IntN(5)]
	c.pass(time.Duration(c.rng.Int64N(int64(most) + 1)))
}

// claims has a worker claim a version of one workflow or of two.
func (c *crew) claims(worker string, wait time.Duration) {
	claim := wire.Claim{Worker: worker, Credit: 1, WaitMS: wait.Milliseconds()}
	ctx, leave := context.WithCancel(c.life)
	p := &poll{end: c.now() + wait.Truncate(time.Millisecond), leave: leave}
	for _, workflow := range []string{"sync", "other"} {
		if c.rng.IntN(4) == 0 {
			continue
		}
		version := fmt.Sprint(1 + c.rng.IntN(3))
		claim.Workflows = append(claim.Workflows, wire.ClaimWorkflow{Name: workflow, Version: version})
		at := [2]string{worker, workflow}
		t := c.serves[at]
		if t == nil || t.version != version {
			t = &tenure{version: version}
			c.serves[at] = t
		}
		t.heard = c.now()
		t.polls = append(t.polls, p)
	}
	p.call = begin(func() ([]wire.Grant, error) {
		out, err := c.Claim(ctx, claim)
		return out.Runs, err
	})
	c.settle()
	c.changed = c.now()
}

// beats has a worker send a heartbeat for nothing that it holds.
func (c *crew) beats(worker string) {
	await(c.world, begin(func() (wire.HeartbeatResult, error) { return c.Heartbeat(c.life, wire.Heartbeat{Worker: worker}) }))
	for at, t := range c.serves {
		if at[0] == worker {
			t.heard = c.now()
		}
	}
	c.changed = c.now()
}

// leaves withdraws a claim of a worker.
func (c *crew) leaves(worker string) {
	for _, workflow := range []string{"sync", "other"} {
		t := c.serves[[2]string{worker, workflow}]
		if t == nil {
			continue
		}
		for _, p := range t.polls {
			p.leave()
			p.end = min(p.end, c.now())
		}
	}
	c.settle()
	c.changed = c.now()
}

// check fails unless the dispatcher, the shards and the contract agree. Shards may hear up
// to two seconds late that a version is over sooner, and never that it is served.
func (c *crew) check() {
	c.Helper()
	must(c.world, actors.CheckBook(c.Node))
	alive := false
	for _, workflow := range []string{"sync", "other"} {
		want := map[string]bool{}
		for at, t := range c.serves {
			if at[1] == workflow && t.until() >= c.now() {
				want[t.version], alive = true, true
			}
		}
		versions := slices.Sorted(maps.Keys(want))
		book, shards, err := actors.Served(c.Context(), c.Node, workflow)
		must(c.world, err)
		if !slices.Equal(book, versions) {
			c.Fatalf("at %s the dispatcher takes versions %v of %s for served, want %v", c.now(), book, workflow, versions)
		}
		for s, told := range shards {
			for _, v := range versions {
				if !slices.Contains(told, v) {
					c.Fatalf("at %s shard %d doesn't know that version %s of %s is served: %v", c.now(), s, v, workflow, told)
				}
			}
			if c.now()-c.changed > 2*time.Second && !slices.Equal(told, versions) {
				c.Fatalf("at %s shard %d takes versions %v of %s for served, want %v", c.now(), s, told, workflow, versions)
			}
		}
	}
	if !alive && c.now()-c.changed > 2*time.Second && actors.TimerRuns(c.Node) {
		c.Fatalf("at %s nobody is alive and a timer runs", c.now())
	}
}

// TestR16WhoIsAliveModel fails when the dispatcher or a shard takes anything else for
// served than the contract says, at any moment of random claims, waits, heartbeats, changes
// of version and of owners; or when a timer runs while nobody is alive.
func TestR16WhoIsAliveModel(t *testing.T) {
	for number := range uint64(30) {
		setup{shards: 2, chaos: &number}.play(t, func(w *world) {
			for v := 1; v <= 3; v++ {
				w.limited(fmt.Sprint(v), v)
				w.declare("other", fmt.Sprintf(`{"version":"%d"}`, v))
			}
			c := &crew{world: w, rng: rand.New(rand.NewPCG(number, 7)), serves: map[[2]string]*tenure{}}
			for range 120 {
				c.step()
				c.check()
			}
			c.pass(2 * time.Minute)
			c.check()
			if actors.TimerRuns(w.Node) {
				w.Error("a timer runs two minutes after the last word")
			}
		})
	}
}
