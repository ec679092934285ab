package pyrula

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// opKind is a kind of durable operation.
type opKind string

// The kinds, in the words of error messages.
const (
	opStep     opKind = "step"
	opSleep    opKind = "sleep"
	opSignal   opKind = "signal"
	opRuns     opKind = "wait for runs"
	opChildren opKind = "start of children"
)

// opID names one operation of a body: the visit-th call of name.
type opID struct {
	kind  opKind
	name  string
	visit int64
}

// String is `step "charge"`, with the visit where it isn't the first.
func (id opID) String() string {
	if id.visit > 1 {
		return fmt.Sprintf("%s %q, visit %d", id.kind, id.name, id.visit)
	}
	return fmt.Sprintf("%s %q", id.kind, id.name)
}

// recorded is one entry of a run's history.
type recorded struct {
	opID
	seq   int64
	step  *wire.Step
	wait  *wire.WaitEnd
	group *wire.ChildGroup
}

// recordedOf puts the three lists of a history in the one order of their numbers.
func recordedOf(h *wire.History) []recorded {
	var list []recorded
	for i := range h.Steps {
		s := &h.Steps[i]
		list = append(list, recorded{opID: opID{opStep, s.Name, s.Visit}, seq: s.Seq, step: s})
	}
	for i := range h.Waits {
		w := &h.Waits[i]
		kind := opSleep
		switch w.Kind {
		case wire.WaitSignal:
			kind = opSignal
		case wire.WaitRuns:
			kind = opRuns
		}
		list = append(list, recorded{opID: opID{kind, w.Name, w.Visit}, seq: w.Seq, wait: w})
	}
	for i := range h.Children {
		g := &h.Children[i]
		list = append(list, recorded{opID: opID{opChildren, g.Step, g.Visit}, seq: g.Seq, group: g})
	}
	slices.SortFunc(list, func(a, b recorded) int { return cmp.Compare(a.seq, b.seq) })
	return list
}

// operations are the durable operations of one hold. The body calls them one after
// another: the k-th must be the k-th of the history, as far as that goes, and from there
// on they are new.
//
// What only the operation under way reads and changes has no lock: history, next, visits,
// kept and failed. begin and end see to it that there is at most one.
type operations struct {
	s *shift
	h *hold

	history []recorded
	next    int
	visits  map[opID]int64 // with visit zero: calls so far
	kept    []string       // names of signals that no wait has got
	failed  *wire.Step     // the last step failed, and isn't recorded unless the body goes on

	mu         sync.Mutex
	busy       *opID                    // the operation under way
	barred     error                    // why the body can call none any more
	suspension *wire.Suspend            // the body has ended for a durable wait
	broken     error                    // the body doesn't match its history
	outcomes   map[string]*wire.Outcome // of runs that the body has waited for
}

func newOperations(s *shift, h *hold, g *wire.Grant) *operations {
	o := &operations{s: s, h: h, visits: map[opID]int64{}}
	o.learn(&wire.History{Steps: g.Steps, Waits: g.Waits, Children: g.Children})
	for _, sig := range g.Signals {
		if !sig.Delivered {
			o.kept = append(o.kept, sig.Name)
		}
	}
	return o
}

// learn adds a page of the history.
func (o *operations) learn(h *wire.History) {
	o.history = append(o.history, recordedOf(h)...)
}

// fetch reads the pages of the history that the grant had no room for.
func (o *operations) fetch(next *int64) error {
	for next != nil {
		page := new(wire.History)
		req := request{
			method: http.MethodGet, path: path(wire.PathRuns, o.h.run.ID, "steps"),
			query: url.Values{"after": {strconv.FormatInt(*next, 10)}},
		}
		if err := o.s.insist(o.h.run, o.h, &req, page); err != nil {
			return fmt.Errorf("read the history: %w", err)
		}
		if page.Next != nil && *page.Next <= *next {
			return fmt.Errorf("read the history: %w: the page behind entry %d is followed by one behind %d", ErrBadAnswer, *next, *page.Next)
		}
		o.learn(page)
		next = page.Next
	}
	return nil
}

// begin is the start of every durable operation: it says which visit it is, and gives
// back what is recorded of it. Unless it gives an error, the caller has to end what it began.
// When the body doesn't match its history, begin doesn't return: the body's goroutine
// ends.
func (o *operations) begin(kind opKind, name string) (opID, *recorded, error) {
	if o == nil {
		return opID{}, nil, fmt.Errorf("%w: this run isn't held by a worker", ErrInvalid)
	}
	id := opID{kind: kind, name: name}
	if err := o.enter(&id); err != nil {
		return id, nil, err
	}
	if err := o.goOn(); err != nil {
		o.end()
		return id, nil, err
	}
	o.visits[id]++
	id.visit = o.visits[id]
	if o.next == len(o.history) {
		return id, nil, nil
	}
	r := &o.history[o.next]
	if r.opID != id && !r.isFailureOf(id) {
		o.mismatch(fmt.Errorf("%w: the body asks for %s where %s is recorded", ErrNondeterministic, id, r.opID))
	}
	o.next++
	return id, r, nil
}

// enter lets an operation in when none is under way. The clock is read once more: a
// process that was stopped finds its timers late, and what begins here may be a step.
func (o *operations) enter(id *opID) error {
	held := o.h.lease.held()
	if cause := context.Cause(o.h.run); cause != nil {
		return cause
	}
	if !held {
		return ErrLeaseLost
	}
	o.mu.Lock()
	busy, barred := o.busy, o.barred
	if busy == nil && barred == nil {
		o.busy = id
	}
	o.mu.Unlock()
	switch {
	case barred != nil:
		return barred
	case busy != nil:
		o.mismatch(fmt.Errorf("%w: the body asks for %s while %s is under way: call one after another, and none in a step's function",
			ErrNondeterministic, id, busy))
	}
	return nil
}

// end ends the operation under way.
func (o *operations) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.busy = nil
}

// bar lets the body call no operation any more: what it has just seen won't be seen by a
// later run of it, so what it does now may not be what that one does.
func (o *operations) bar(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.barred == nil {
		o.barred = err
	}
}

// goOn records the step that failed last, now that the body goes on behind it: only so
// does a later run of the body take the same path.
func (o *operations) goOn() error {
	if o.failed == nil {
		return nil
	}
	if _, err := o.record(wire.Steps{Steps: []wire.Step{*o.failed}}); err != nil {
		return err
	}
	o.failed = nil
	return nil
}

// mismatch ends a body that isn't the one that recorded the history.
func (o *operations) mismatch(err error) {
	o.mu.Lock()
	if o.broken == nil {
		o.broken = err
	}
	o.mu.Unlock()
	o.h.stop(err)
	runtime.Goexit()
}

// unfinished is the error of a body that returned before it came to what is recorded.
func (o *operations) unfinished() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case context.Cause(o.h.run) != nil:
		return nil
	case o.busy != nil:
		return fmt.Errorf("%w: the body returned while %s is under way", ErrNondeterministic, o.busy)
	case o.next == len(o.history):
		return nil
	}
	return fmt.Errorf("%w: the body returned where %s is recorded", ErrNondeterministic, o.history[o.next].opID)
}

// suspend ends the body's goroutine for a durable wait; what it waits for is told to the
// node when the body has ended. It doesn't return.
func (o *operations) suspend(w wire.Suspend) {
	w.Fence = o.h.run.Fence
	o.mu.Lock()
	if o.suspension == nil {
		o.suspension = &w
	}
	o.mu.Unlock()
	o.h.stop(ErrSuspended)
	runtime.Goexit()
}

// close ends the operations of a body that has ended, and says whether one has ended it:
// for a wait, or because it doesn't match its history.
func (o *operations) close() (suspension *wire.Suspend, broken error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.barred == nil {
		o.barred = errBodyEnded
	}
	return o.suspension, o.broken
}

var errBodyEnded = errors.New("the body has ended")

// record tells the node what the body has done, and returns when that is durable.
func (o *operations) record(body wire.Steps) (*wire.Recorded, error) {
	body.Fence = o.h.run.Fence
	out := new(wire.Recorded)
	req := request{method: http.MethodPost, path: path(wire.PathRuns, o.h.run.ID, "steps"), body: body}
	// Not for the end of the run's context: what is told has happened, and a drain that gave
	// it up would have it done again.
	err := o.s.insist(o.s.base, o.h, &req, out)
	switch {
	case errors.Is(err, ErrStepConflict):
		o.mismatch(fmt.Errorf("%w: %w", ErrNondeterministic, err))
	case err != nil:
		o.bar(err) // a body that went on would do so without what its next run is given
		return nil, err
	case ended(out.Status):
		o.h.lease.refuse() // the node has ended the run
		return nil, ErrHistoryTooLarge
	}
	return out, nil
}

// insist sends a request for a hold and repeats it while the lease holds and ctx lives: one
// that was sent is never given up for ctx's end, since what it tells has happened. An answer
// that says that the run isn't ours ends the lease. Errors: the cause of the run's end, and
// what the node refuses.
func (s *shift) insist(ctx context.Context, h *hold, req *request, out any) error {
	for n := 0; ; n++ {
		err := s.w.client.attempt(s.base, req, out)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrStaleFence) || errors.Is(err, ErrRunEnded) || errors.Is(err, ErrUnknownRun):
			h.lease.refuse()
		case s.base.Err() == nil && !retryable(err):
			return err
		case h.lease.held() && pause(ctx, max(backoff(n, backoffMax), retryAfter(err))) == nil:
			continue
		}
		if cause := context.Cause(h.run); cause != nil {
			return cause
		}
		return ErrLeaseLost
	}
}
