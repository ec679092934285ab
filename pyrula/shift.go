package pyrula

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// shift is one call of [Worker.Run], from the first claim to the last hand-back.
//
//	claims ──► adopt ──► serve (one goroutine for each run) ──► reports ──► let go
//	              ▲            ▲                                   │
//	              │       heartbeats                               │
//	              └──────── runs of the claim in a report ◄────────┘
type shift struct {
	w     *Worker
	log   *logger
	holds *holds
	slots *slots

	// base outlives the worker's context: bodies and reports go on while it drains.
	base     context.Context //nolint:containedctx // a shift's life is one call
	stop     context.CancelFunc
	claiming atomic.Pointer[[]wire.ClaimWorkflow] // what claims announce; never changed in place
	patience time.Duration
	dry      atomic.Bool // the last claim brought less than it asked for: there is no work at hand
	draining atomic.Bool
	reports  reports

	candidates chan []wire.Candidate // runs whose keys the node asks for
	began      time.Time
	asked      atomic.Int64 // when a claim of its own was last answered, since began
	claimed    atomic.Int64 // when a request last carried a claim, since began
}

func newShift(ctx context.Context, w *Worker) *shift {
	base, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &shift{
		w: w, log: &logger{w.cfg.Logger.With("worker", w.cfg.Name)}, holds: newHolds(), slots: newSlots(w.cfg.Concurrency),
		base: base, stop: stop, patience: w.patience(), candidates: make(chan []wire.Candidate, maxCandidateLists),
		began: w.now(),
	}
	s.reports.s = s
	go s.heartbeats()
	go s.resolves()
	return s
}

// declare records the workflows at the node, and remembers how claims name them. It
// asks for as long as ctx lives.
func (s *shift) declare(ctx context.Context) error {
	for n := 0; ; n++ {
		declared, err := s.w.client.Declare(ctx, s.w.workflows...)
		if err == nil {
			claiming := make([]wire.ClaimWorkflow, len(declared))
			for i, d := range declared {
				claiming[i] = wire.ClaimWorkflow{Name: d.Workflow, Version: d.Version, GatesHash: d.GatesHash}
			}
			s.claiming.Store(&claiming)
			return nil
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // a worker that is stopped before it could begin has drained
		}
		if !retryable(err) {
			return err
		}
		s.log.warn("declare the workflows again", err)
		if pause(ctx, max(backoff(n, backoffMax), retryAfter(err))) != nil {
			return nil //nolint:nilerr // the same
		}
	}
}

// adopt takes granted runs into the worker's hands, and says how many places they
// take. They were asked for by a request that was sent then.
func (s *shift) adopt(grants []wire.Grant, sent time.Time) int {
	taken := 0
	for i := range grants {
		g := &grants[i]
		d := s.w.definitions[g.Workflow]
		if d == nil {
			// Handing it back would bring it at once again. Its lease runs out, and a worker
			// that has the workflow gets it.
			s.log.error("granted a run of a workflow that this worker doesn't serve", errNotServed, "run_id", g.RunID, "workflow", g.Workflow)
			continue
		}
		ctx, stop := context.WithCancelCause(s.base)
		h := &hold{run: newRun(ctx, s.log.Logger, g), params: g.Params, def: d, stop: stop}
		span := cmp.Or(seconds(g.LeaseSeconds), d.lease)
		h.lease = newLease(span, sent, s.w.now, func() { stop(ErrLeaseLost) })
		h.beatAt = sent.Add(span / startShare)
		h.rest, h.run.ops = g.HistoryNext, newOperations(s, h, g)
		if g.CancelRequested {
			stop(ErrCancelRequested)
		}
		taken++
		s.holds.add(h)
		go s.serve(h)
	}
	return taken
}

var errNotServed = errors.New("workflow is not served")

// letGo ends a hold. Its place is free when the caller gives it to slots.
func (s *shift) letGo(h *hold) {
	h.lease.close()
	h.stop(nil)
	s.holds.remove(h)
}

// drain ends the shift: bodies finish, or are stopped and their runs handed back.
func (s *shift) drain() error {
	s.draining.Store(true)
	if s.emptyWithin(s.w.cfg.DrainTimeout) {
		return nil
	}
	for _, h := range s.holds.list() {
		h.stop(ErrDraining)
	}
	if s.emptyWithin(stopGrace) {
		return nil
	}
	var ids []string
	for _, h := range s.holds.list() {
		ids = append(ids, h.run.ID)
	}
	if len(ids) == 0 {
		return nil
	}
	const shown = 10
	text := strings.Join(ids[:min(shown, len(ids))], ", ")
	return fmt.Errorf("%w: %d runs are still in their bodies or unreported: %s", ErrDrainTimeout, len(ids), text)
}

// emptyWithin says whether every hold has gone before the time is over.
func (s *shift) emptyWithin(timeout time.Duration) bool {
	timer := time.NewTimer(max(timeout, 0))
	defer timer.Stop()
	for s.holds.len() > 0 {
		select {
		case <-s.holds.left:
		case <-timer.C:
			return s.holds.len() == 0
		}
	}
	return true
}

// end stops what is left. A body that still works has lost its lease from here on:
// nobody sends heartbeats for it any more, and what it returns is not reported.
func (s *shift) end() {
	for _, h := range s.holds.list() {
		h.lease.refuse()
	}
	s.stop()
}

// send posts a request of this shift once.
func (s *shift) send(ctx context.Context, path string, body, out any) error {
	return s.w.client.attempt(ctx, &request{method: http.MethodPost, path: path, body: body}, out)
}
