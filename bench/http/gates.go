package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/pyrula/pyrula-node/bench/load"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// slots follows, from outside, since when each slot of each key's Limit is free.
// A slot counts as free from the sending of the completion that frees it: earlier
// than the server can know, so the delay that follows from it is never flattered.
type slots struct {
	mu    sync.Mutex // guards free
	max   int
	free  map[string][]time.Time // oldest first
	begin time.Time
}

func newSlots(maxHolders int) *slots {
	return &slots{max: maxHolders, free: map[string][]time.Time{}, begin: time.Now()}
}

// release says that a holder of a key's slot gives it back now.
func (s *slots) release(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free[key] = append(s.of(key), time.Now())
}

// take says that a key's slot was given away, and returns since when it was free. ok
// is false when none was: a promise is broken.
func (s *slots) take(key string) (since time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := s.of(key)
	if len(free) == 0 {
		return time.Time{}, false
	}
	since, s.free[key] = free[0], free[1:]
	return since, true
}

// of is a key's free slots: all of them, since the beginning, for a new key.
func (s *slots) of(key string) []time.Time {
	free, known := s.free[key]
	if !known {
		for range s.max {
			free = append(free, s.begin)
		}
	}
	return free
}

// errOverLimit is a run that was granted beyond its key's Limit.
var errOverLimit = errors.New("a run was granted while all slots of its key were taken")

// worker claims one run at a time, works on it for a while, and completes it.
type worker struct {
	job
	conn  *conn
	claim []byte
	body  time.Duration
	slots *slots
	held  []held
	out   []byte
}

// gateWaitMS is how long a worker's claim waits.
const gateWaitMS = 10_000

// connectWorker makes the worker of a number.
func (j job) connectWorker(id int, body time.Duration, s *slots) (load.Client, error) {
	c, err := dial(j.host)
	if err != nil {
		return nil, err
	}
	claim := claimBody("w"+strconv.Itoa(id), j.workflow, 1, gateWaitMS)
	return &worker{job: j, conn: c, claim: claim, body: body, slots: s}, nil
}

// Close implements load.Client.
func (w *worker) Close() error { return w.conn.Close() }

// Cycle implements load.Client: claim, work, complete. A grant that waited for a
// slot, since the claim was there before it was free, is noted with its delay.
func (w *worker) Cycle(r *load.Recorder) error {
	sent := time.Now()
	answer, err := w.conn.do("POST", wire.PathClaims, w.claim)
	if err != nil {
		return err
	}
	end := time.Now()
	if w.held, err = grants(w.held[:0], answer); err != nil {
		return err
	}
	r.Claimed(sent, end, len(w.held))
	if len(w.held) == 0 {
		return nil
	}
	run := w.held[0]
	since, ok := w.slots.take(run.key)
	if !ok {
		return errOverLimit
	}
	if since.After(sent) {
		r.Opened(since, end)
	}
	time.Sleep(w.body)
	w.out = appendComplete(w.out[:0], run.fence, nil)
	w.slots.release(run.key)
	if _, err := w.conn.do("POST", wire.PathRuns+"/"+run.id+"/complete", w.out); err != nil {
		return err
	}
	r.Completed(sent, time.Now(), 1)
	return nil
}

// gate measures limits that bind: clients that wait for slots, over a backlog.
func (b *bench) gate(ctx context.Context, j job, clients int) (err error) {
	n := gateBacklog
	if len(b.backlog) > 0 {
		n = b.backlog[0]
	}
	t, err := b.open(j, policy{max: b.max})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	s := newSlots(b.max)
	var reps []load.Repetition
	taken := n // by the repetition before, as far as the queue must be filled again
	for range b.reps {
		rep, err := b.repeat(func() (load.Repetition, error) {
			if err := fill(t.job, taken); err != nil {
				return load.Repetition{}, err
			}
			p := b.plan(t, clients)
			p.Connect = func(id int) (load.Client, error) { return t.connectWorker(id, b.body, s) }
			rep, err := b.measure(ctx, p)
			taken = int(rep.PerSec * (b.warm + b.dur).Seconds())
			return rep, err
		})
		if err != nil {
			return err
		}
		reps = append(reps, rep)
	}
	res := b.result(j, clients)
	res.Variant = fmt.Sprintf("http, binding gates: Limit %d, bodies of %s", b.max, b.body)
	res.Backlog = n
	if taken > n/2 {
		res.Note = "the queue got short: raise -backlog"
	}
	res.Fold(reps)
	return load.Write(b.out, res)
}

// gateBacklog is the queue over binding gates unless -backlog says otherwise.
const gateBacklog = 100_000
