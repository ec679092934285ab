package actors_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// sliced is a writer that notes the slices of a walk, and does something behind each.
type sliced struct {
	bytes.Buffer
	sizes  []int
	behind func(slice int)
}

// Write implements io.Writer.
func (s *sliced) Write(b []byte) (int, error) {
	s.sizes = append(s.sizes, len(b))
	n, err := s.Buffer.Write(b)
	if s.behind != nil {
		s.behind(len(s.sizes))
	}
	return n, err
}

// walked takes a snapshot of shard 0 and fails unless it is the state at its boundary.
func (w *world) walked(behind func(slice int)) *sliced {
	w.Helper()
	data := &sliced{behind: behind}
	b := w.walk(data)
	w.sameAsSnapshot(0, b, data.Bytes())
	return data
}

// walk takes a snapshot of shard 0.
func (w *world) walk(to io.Writer) boundary {
	w.Helper()
	w.settle()
	snap, err := w.spy.machines[0].Capture()
	if err != nil {
		w.Fatal(err)
	}
	defer snap.Release()
	b := boundary{taken: w.clock.Wall()}
	b.epoch, b.seq = snap.Boundary()
	if _, err := snap.WriteTo(to); err != nil {
		w.Fatal(err)
	}
	return b
}

// submitMany makes runs in one call.
func (w *world) submitMany(n int, f func(i int) wire.Submit) []flow.RunID {
	w.Helper()
	all := make([]wire.Submit, n)
	for i := range all {
		all[i] = f(i)
	}
	out := await(w, begin(func() ([]wire.Submitted, error) {
		out, errs := w.Submit(w.life, all)
		return out, errors.Join(errs...)
	}))
	ids := make([]flow.RunID, n)
	for i := range out {
		ids[i] = w.id(out[i].RunID)
	}
	return ids
}

// crowd is a shard with some of all that there is in it.
type crowd struct {
	*world
	home   string       // a key value in shard 0
	arrive atomic.Bool  // letters to shard 1 do
	ended  []flow.RunID // runs that end while the walk is under way
}

// newCrowd fills shard 0 with 60 declarations, and n of each of these: letters on their way,
// request ids, idempotency keys and keys; with more runs. The letters are young, all else
// has the age.
func newCrowd(w *world, n int, age time.Duration) *crowd {
	c := &crowd{world: w, home: w.keyIn(0, "sync", "k")}
	w.declare("sync", leased)
	w.declare("wide", `{"version":"1","limit":{"key":"k","max":1},"rate":{"key":"k","per_second":0.01,"burst":1},"lease_seconds":10}`)
	for i := range 58 {
		w.declare(fmt.Sprint("flow", i%20), fmt.Sprintf(`{"version":"%d"}`, i/20+1))
	}
	far := w.keyIn(1, "sync", "k")
	actors.CountLetters(w.Node, 1, func(uint64) bool { return !c.arrive.Load() })
	c.ended = w.submitMany(n, func(i int) wire.Submit {
		return requested("sync", `{"k":"`+c.home+`"}`, fmt.Sprint("r", i))
	})
	for i, id := range w.submitMany(n/2, func(i int) wire.Submit {
		return keyedSubmit("sync", `{"k":"`+c.home+`"}`, w.textIn(0, fmt.Sprint("near", i, "-")))
	}) {
		if i%2 == 0 {
			w.cancel(id)
		}
	}
	w.submitMany(n, func(i int) wire.Submit {
		return submitOf("wide", `{"k":"`+w.keyIn(0, "wide", fmt.Sprint("w", i, "-"))+`"}`)
	})
	w.pass(age)
	letters := make([]wire.Submit, n)
	params := `{"k":"` + far + `","blob":"` + strings.Repeat("x", 2000) + `"}` // 200 of them are more than a slice
	for i := range letters {
		letters[i] = keyedSubmit("sync", params, w.textIn(0, fmt.Sprint("far", i, "-")))
	}
	begin(func() (any, error) { w.Submit(w.life, letters); return nil, nil }) // nobody waits for the answer
	w.settle()
	return c
}

// churn changes all kinds of things; each slice another share of them.
func (c *crowd) churn(slice int) {
	c.Helper()
	c.endAll(c.ended[:40])
	c.ended = c.ended[40:]
	for _, g := range c.claim("wide", "1", 30) {
		c.complete(g)
	}
	switch slice {
	case 1: // in the letters: they arrive, requests are forgotten, runs and keys leave
		c.arrive.Store(true)
		c.pass(2 * time.Minute)
	default:
		c.pass(10 * time.Second)
	}
	for i := range 3 {
		c.declare(fmt.Sprint("flow", i), fmt.Sprintf(`{"version":"%d"}`, 10+slice))
		c.declare(fmt.Sprint("new", slice, "-", i), `{"version":"1"}`)
	}
	c.ended = append(c.ended, c.submitMany(60, func(i int) wire.Submit { // born on seats that were left
		s := requested("sync", `{"k":"`+c.home+`"}`, fmt.Sprint("new", slice, "-", i))
		if i%2 == 0 {
			s.IdempotencyKey = new(c.textIn(0, fmt.Sprint("new", slice, "-", i, "-")))
		}
		return s
	})...)
}

// TestR9R14WalkWhileEverythingChanges fails when a snapshot holds something of what changed,
// was born, left for the archive or was forgotten while it was walked, or lacks something of
// what was before: runs, keys, idempotency keys, request ids, letters and declarations.
func TestR9R14WalkWhileEverythingChanges(t *testing.T) {
	for _, s := range []setup{{shards: 2, recentFor: 10 * flow.Minute}, {shards: 2, recentRuns: 30}}[:walkWorlds] {
		s.play(t, func(w *world) {
			c := newCrowd(w, 200, 9*time.Minute)
			gone := w.countAll(flow.RecArchived) + w.countAll(flow.RecKeyArchived)
			before, _ := w.archive.Len()
			data := w.walked(c.churn)
			if len(data.sizes) < 4 {
				w.Errorf("the walk had %d slices", len(data.sizes))
			}
			if now, _ := w.archive.Len(); now == before || w.countAll(flow.RecArchived)+w.countAll(flow.RecKeyArchived) < gone+100 {
				w.Errorf("%d runs left during the walk", now-before)
			}
			w.walked(nil)
			w.snapshots()
			w.restart()
			w.sameAsReplay(w.moment())
		})
	}
}

// TestR9SlicesAreBounded fails when a slice of a walk has more bytes than its bound and one
// run, or when so many runs are in one that their number has no bound.
func TestR9SlicesAreBounded(t *testing.T) {
	const large = 300 << 10
	setup{shards: 1}.play(t, func(w *world) {
		w.declare("sync", `{"version":"1"}`)
		blob := `{"blob":"` + strings.Repeat("x", large) + `"}`
		w.submitMany(12, func(int) wire.Submit { return submitOf("sync", blob) })
		w.submitMany(2100, func(int) wire.Submit { return submitOf("sync", `{}`) })
		data := new(sliced)
		w.walk(data)
		if n := len(data.sizes); n < 12/2+2100/512 {
			w.Errorf("the walk had %d slices", n)
		}
		for i, size := range data.sizes {
			if size > 256<<10+large+1<<10 {
				w.Errorf("slice %d has %d bytes", i, size)
			}
		}
	})
}

// TestR9BoundaryIsMarkedInConstantTime fails when more of anything makes the boundary of a
// snapshot cost more.
func TestR9BoundaryIsMarkedInConstantTime(t *testing.T) {
	setup{shards: 2}.play(t, func(w *world) {
		cost := func() int64 {
			w.Helper()
			w.settle()
			n, err := actors.BoundaryBytes(w.Context(), w.Node, engine.ShardID(0))
			if err != nil {
				w.Fatal(err)
			}
			return n
		}
		w.declare("sync", leased)
		w.submit("sync", `{"k":"`+w.keyIn(0, "sync", "k")+`"}`)
		before := cost()
		c := newCrowd(w, 100, 0)
		if after := cost(); after > before+1<<10 {
			w.Errorf("a boundary allocates %d bytes, and %d with more in the shard", before, after)
		}
		c.arrive.Store(true)
		w.pass(2 * time.Second)
	})
}

// TestR9R14SnapshotIsNotTakenForAnother fails when what changes while no snapshot, or an
// earlier one, is under way leaves something behind in the next.
func TestR9SnapshotsOneAfterTheOther(t *testing.T) {
	setup{shards: 2, recentRuns: 10}.play(t, func(w *world) {
		c := newCrowd(w, 100, 0)
		c.arrive.Store(true)
		w.pass(2 * time.Second)
		for i := range 2 {
			snap, err := w.spy.machines[0].Capture()
			if err != nil {
				w.Fatal(err)
			}
			w.endAll(c.ended[:20])
			c.ended = c.ended[20:]
			w.pass(2 * time.Second)
			snap.Release() // given up: the next one begins anew
			w.endAll(c.ended[:20])
			c.ended = c.ended[20:]
			w.walked(func(int) {
				w.endAll(c.ended[:5])
				c.ended = c.ended[5:]
			})
			c.ended = append(c.ended, w.submitMany(20, func(j int) wire.Submit {
				return keyedSubmit("sync", `{"k":"`+c.home+`"}`, fmt.Sprint("again", i, "-", j))
			})...)
		}
	})
}
