package pyrula

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/pyrula/pyrula-node/flow/wire"
)

const (
	// maxSenders bounds the requests with completions that are under way at once. While
	// all are, completions gather, and the next request takes them together.
	maxSenders = 4
	// reportBytesMax bounds the results in one request, well under the bound of a
	// body. A larger result travels alone.
	reportBytesMax = 512 << 10
)

// report is a result on its way to the node. The queue of them is bounded by the
// worker's concurrency: each is a hold.
type report struct {
	h      *hold
	result json.RawMessage
}

// reports sends completions in batches. While there is work at hand, the request also
// claims as many runs as it ends, so a busy worker needs one request where it would
// need two; once a claim comes back with less, the claim that waits takes over.
type reports struct {
	s *shift

	mu      sync.Mutex
	queue   []*report
	senders int
}

func (r *reports) add(one *report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, one)
	if r.senders < maxSenders {
		r.senders++
		go r.sendAll()
	}
}

// sendAll is one sender: it works until the queue is empty.
func (r *reports) sendAll() {
	for {
		batch := r.next()
		if len(batch) == 0 {
			return
		}
		r.send(batch)
	}
}

// next takes a batch off the queue; none ends the sender.
func (r *reports) next() []*report {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, size := 0, 0
	for n < min(len(r.queue), wire.MaxBatch) {
		size += len(r.queue[n].result)
		if n > 0 && size > reportBytesMax {
			break
		}
		n++
	}
	if n == 0 {
		r.senders--
		return nil
	}
	batch := slices.Clone(r.queue[:n])
	r.queue = slices.Delete(r.queue, 0, n)
	return batch
}

// send reports a batch and repeats what isn't taken until the leases are over.
func (r *reports) send(batch []*report) {
	s := r.s
	for n := 0; ; n++ {
		batch = r.dropLost(batch)
		if len(batch) == 0 {
			return
		}
		// A repeat claims nothing: the claim may be why the node couldn't take it.
		rest, err := r.sendOnce(batch, n == 0 && s.mayCarry())
		if len(rest) == 0 {
			return
		}
		if !retryable(err) {
			r.refused(rest, err)
			return
		}
		if pause(s.base, max(backoff(n, backoffMax), retryAfter(err))) != nil {
			r.done(rest)
			return
		}
		batch = rest
	}
}

// sendOnce sends a batch once. It returns what isn't over by that, and why.
func (r *reports) sendOnce(batch []*report, claim bool) ([]*report, error) {
	s := r.s
	body := wire.CompleteBatch{Runs: make([]wire.Completion, len(batch))}
	for i, one := range batch {
		body.Runs[i] = wire.Completion{RunID: one.h.run.ID, Fence: one.h.run.Fence, Result: one.result}
	}
	if claim {
		body.Claim = s.claimOf(len(batch), 0)
	}
	sent := s.w.now() // before the request leaves: leases of the granted runs count from here (R1)
	var out wire.CompleteBatchResult
	if err := s.send(s.base, wire.PathCompletion, body, &out); err != nil {
		return batch, err
	}
	if out.Runs != nil {
		s.dry.Store(len(*out.Runs) < len(batch))
		s.slots.give(-s.adopt(*out.Runs, sent))
	}
	if len(out.Results) != len(batch) {
		return batch, fmt.Errorf("%w: %d results for %d completions", ErrBadAnswer, len(out.Results), len(batch))
	}
	return r.settle(batch, out.Results)
}

// settle lets go of the reports that are over, one way or the other, and returns
// those that are to be sent again, with the first reason.
func (r *reports) settle(batch []*report, results []wire.CompleteResult) (again []*report, reason error) {
	var over []*report
	for i, one := range batch {
		p := results[i].Problem
		if p == nil {
			over = append(over, one)
			continue
		}
		err := &APIError{Problem: *p}
		if retryable(err) {
			again = append(again, one)
			if reason == nil {
				reason = err
			}
			continue
		}
		r.refused([]*report{one}, err)
	}
	r.done(over)
	return again, reason
}

// refused ends reports that the node will never take. One bad result refuses its
// whole batch, so the others are tried alone. A run whose own result is bad fails:
// without an end it would run again and again.
func (r *reports) refused(batch []*report, err error) {
	if len(batch) > 1 {
		for _, one := range batch {
			r.send([]*report{one})
		}
		return
	}
	one := batch[0]
	if errors.Is(err, ErrInvalid) || errors.Is(err, ErrMalformed) || errors.Is(err, ErrTooLarge) {
		r.s.fail(one.h, outcome{err: Permanent(err), failure: typeResult})
	} else {
		one.h.run.Log.Warn("the node didn't take the run's result", "fence", one.h.run.Fence, "err", err)
	}
	r.done(batch)
}

// dropLost lets go of the holds whose lease is over: their results are not reported.
func (r *reports) dropLost(batch []*report) []*report {
	var held, lost []*report
	for _, one := range batch {
		if one.h.lease.held() {
			held = append(held, one)
			continue
		}
		one.h.run.Log.Warn("the lease was lost before the result was taken", "fence", one.h.run.Fence)
		lost = append(lost, one)
	}
	r.done(lost)
	return held
}

func (r *reports) done(list []*report) {
	for _, one := range list {
		r.s.letGo(one.h)
	}
	r.s.slots.give(len(list))
}
