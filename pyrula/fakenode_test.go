package pyrula_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// fakeNode is a node in memory, small and true to the rules that a worker meets: a
// Limit on one key, leases with the owner's margin, fences, request ids, idempotency
// keys, back-offs, cancel and terminate. It waits on channels and timers only, so it
// works in virtual time. The real HTTP API stands in front of it: see network.
type fakeNode struct {
	mu       sync.Mutex
	declared map[string]wire.Declaration
	changes  int // declarations that changed something
	runs     []*fakeRun
	requests map[string]*fakeRun
	once     map[string]*fakeRun
	fence    uint64
	changed  chan struct{} // closed and made anew at each change
	forget   bool          // the next claim finds that its workflow was never declared
	refuse   []refusal     // what a test wants it to say
	hasty    bool          // long polls are answered at once
	mostUsed map[string]int
	seen     map[string]int // entries of each kind

	pageOf     int64 // entries of a history in a grant and in a page; 0 means all
	room       int   // entries that a run may keep; 0 means any number
	candidates []wire.Candidate
	resolved   []wire.Resolve
	schedules  map[string]wire.ScheduleView
	fakeEvents
}

// refusal refuses one request, or one entry of a submit or a completion.
type refusal struct {
	request int    // the n-th of its kind that the node has seen, from 0
	kind    string // "submit", "complete", "steps", "children", "history" or "suspend"
	err     error
}

// refused is what the tests want the node to say to the next entry of a kind. The
// lock is held.
func (n *fakeNode) refused(kind string) error {
	at := n.seen[kind]
	n.seen[kind]++
	for _, r := range n.refuse {
		if r.kind == kind && r.request == at {
			return r.err
		}
	}
	return nil
}

// fakeRun is one run. Times are virtual.
type fakeRun struct {
	id        string
	sub       wire.Submit
	key       string
	status    flow.Status
	attempt   int64
	failures  int64
	fence     uint64
	held      bool      // somebody has it, or had when it was terminated
	expiry    time.Time // when the owner ends the lease
	wake      time.Time // end of a suspension or back-off
	resumed   bool      // the next hold is the same attempt
	cancelled bool      // the holder is asked to stop
	ending    string    // the last ending request: kind and fence
	result    json.RawMessage
	failure   *wire.RunError
	log       []string // what happened, for tests
	fakeBook
}

func newFakeNode() *fakeNode {
	return &fakeNode{
		declared: map[string]wire.Declaration{}, requests: map[string]*fakeRun{}, once: map[string]*fakeRun{},
		changed: make(chan struct{}), mostUsed: map[string]int{}, seen: map[string]int{}, schedules: map[string]wire.ScheduleView{},
	}
}

// touch tells everyone who waits. The lock is held.
func (n *fakeNode) touch() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// sweep does what the time that has passed owes. The lock is held.
func (n *fakeNode) sweep() {
	now := time.Now()
	if len(n.fire()) > 0 {
		n.touch()
	}
	for _, r := range n.runs {
		if r.held && !now.Before(r.expiry) {
			r.held = false
			switch {
			case r.status == flow.StatusTerminated:
				r.log = append(r.log, "hold freed")
			case r.cancelled:
				r.end(flow.StatusCancelled)
			default:
				r.status = flow.StatusQueued
				r.log = append(r.log, "expired")
			}
			n.touch()
		}
		if r.status == flow.StatusSuspended && n.over(r) {
			r.status = flow.StatusQueued
			n.touch()
		}
	}
}

func (r *fakeRun) end(s flow.Status) {
	r.status = s
	r.log = append(r.log, s.String())
}

// next is how long until time itself owes something.
func (n *fakeNode) next() time.Duration {
	next := time.Hour
	for _, r := range n.runs {
		if r.held {
			next = min(next, time.Until(r.expiry))
		}
		if r.status == flow.StatusSuspended {
			next = min(next, time.Until(r.wake))
		}
	}
	for _, b := range n.batches {
		next = min(next, time.Until(b.deadline))
	}
	return next
}

// await calls try under the lock at each change until it says true, the wait is over
// or ctx ends.
func (n *fakeNode) await(ctx context.Context, wait time.Duration, try func() bool) error {
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	for {
		n.mu.Lock()
		n.sweep()
		done := try()
		done = done || n.hasty
		changed, next := n.changed, n.next()
		n.mu.Unlock()
		if done {
			return nil
		}
		tick := time.NewTimer(next)
		select {
		case <-changed:
		case <-tick.C:
		case <-deadline.C:
			tick.Stop()
			return nil
		case <-ctx.Done():
			tick.Stop()
			return ctx.Err()
		}
		tick.Stop()
	}
}

func (n *fakeNode) find(id string) (*fakeRun, error) {
	for _, r := range n.runs {
		if r.id == id {
			return r, nil
		}
	}
	return nil, flow.ErrUnknownRun
}

// run is one run for a test to read, in the order of submits.
func (n *fakeNode) run(i int) fakeRun {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sweep()
	r := *n.runs[i]
	r.log = slices.Clone(r.log)
	r.fakeBook = r.clone()
	return r
}

// grants is how often a run was granted.
func (r *fakeRun) grants() int {
	count := 0
	for _, what := range r.log {
		if strings.HasPrefix(what, "granted") {
			count++
		}
	}
	return count
}

func (n *fakeNode) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sweep()
	return len(n.runs)
}

// most is the most slots of a key that were ever taken at once.
func (n *fakeNode) most(workflow, key string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mostUsed[workflow+"\x00"+key]
}

func (n *fakeNode) used(workflow, key string) int {
	used := 0
	for _, r := range n.runs {
		if r.held && r.sub.Workflow == workflow && r.key == key {
			used++
		}
	}
	return used
}

func (n *fakeNode) Submit(_ context.Context, subs []wire.Submit) ([]wire.Submitted, []error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sweep()
	got, errs := make([]wire.Submitted, len(subs)), make([]error, len(subs))
	for i, sub := range subs {
		if got[i], errs[i] = n.submit(sub); errs[i] == nil {
			errs[i] = n.refused("submit") // after the fact: the outcome is what is unknown
		}
	}
	n.touch()
	return got, errs
}

func (n *fakeNode) submit(sub wire.Submit) (wire.Submitted, error) {
	if r := n.requests[sub.RequestID]; r != nil {
		return wire.Submitted{RunID: r.id, Status: r.status.String(), Created: true}, nil
	}
	if sub.IdempotencyKey != nil {
		if r := n.once[*sub.IdempotencyKey]; r != nil {
			return wire.Submitted{RunID: r.id, Status: r.status.String()}, nil
		}
	}
	key, err := n.keyOf(sub)
	if err != nil {
		return wire.Submitted{}, err
	}
	count := byte(len(n.runs))
	id := flow.NewRunID(flow.InstantOfMillis(time.Now().UnixMilli()), 7, flow.Entropy{9: count}).String()
	r := &fakeRun{id: id, sub: sub, key: key, status: flow.StatusQueued}
	n.runs = append(n.runs, r)
	n.requests[sub.RequestID] = r
	if sub.IdempotencyKey != nil {
		n.once[*sub.IdempotencyKey] = r
	}
	return wire.Submitted{RunID: r.id, Status: r.status.String(), Created: true}, nil
}

// keyOf resolves the key of the Limit, as P12, P13 and P20 say.
func (n *fakeNode) keyOf(sub wire.Submit) (string, error) {
	d, known := n.declared[sub.Workflow]
	if sub.Stamp != nil && (!known || d.Version != sub.Stamp.Version) {
		return "", flow.ErrNotDeclared
	}
	l := d.Limit
	if l == nil {
		return "", nil
	}
	if source := l.Key.Source(); !source.IsFunction() {
		return source.Resolve(sub.Params)
	}
	if sub.Stamp == nil || sub.Stamp.Keys == nil || sub.Stamp.Keys.Limit == nil {
		return "", &flow.FieldError{Kind: flow.ErrConfiguration, Field: "limit.key", Want: "is a function"}
	}
	return *sub.Stamp.Keys.Limit, nil
}

func (n *fakeNode) Claim(ctx context.Context, c wire.Claim) (wire.Claimed, error) {
	var grants []wire.Grant
	var ask []wire.Candidate
	var refused error
	err := n.await(ctx, time.Duration(c.WaitMS)*time.Millisecond, func() bool {
		for _, w := range c.Workflows {
			if _, ok := n.declared[w.Name]; !ok || n.forget {
				n.forget = false
				refused = fmt.Errorf("workflow %s: %w", w.Name, flow.ErrNotDeclared)
				return true
			}
		}
		grants = n.grant(c)
		ask, n.candidates = n.candidates, nil
		return len(grants)+len(ask) > 0 || c.WaitMS == 0
	})
	if err == nil {
		err = refused
	}
	return wire.Claimed{Runs: grants, Resolve: ask}, err
}

func (n *fakeNode) grant(c wire.Claim) []wire.Grant {
	var grants []wire.Grant
	for _, r := range n.runs {
		serves := slices.ContainsFunc(c.Workflows, func(w wire.ClaimWorkflow) bool { return w.Name == r.sub.Workflow })
		d := n.declared[r.sub.Workflow]
		if len(grants) == c.Credit || !serves || r.status != flow.StatusQueued {
			continue
		}
		used := n.used(r.sub.Workflow, r.key)
		if d.Limit != nil && int64(used) >= d.Limit.Max {
			continue
		}
		place := r.sub.Workflow + "\x00" + r.key
		n.mostUsed[place] = max(n.mostUsed[place], used+1)
		n.fence++
		r.status, r.fence, r.held = flow.StatusExecuting, n.fence, true
		if !r.resumed { // a hold after a suspension goes on with the same attempt
			r.attempt++
		}
		r.resumed = false
		r.expiry = time.Now().Add(margin(n.lease(r)))
		r.log = append(r.log, "granted to "+c.Worker)
		h := r.page(0, n.pageOf)
		grants = append(grants, wire.Grant{
			RunID: r.id, Workflow: r.sub.Workflow, Version: d.Version, Key: r.key, Params: r.sub.Params, Attempt: r.attempt,
			Fence: r.fence, LeaseSeconds: n.lease(r).Seconds(), CancelRequested: r.cancelled,
			Steps: h.Steps, Waits: h.Waits, Children: h.Children, HistoryNext: h.Next, Signals: r.signals(),
		})
	}
	return grants
}

func (n *fakeNode) lease(r *fakeRun) time.Duration {
	if s := n.declared[r.sub.Workflow].LeaseSeconds; s != nil {
		return time.Duration(*s * float64(time.Second))
	}
	return time.Duration(flow.DefaultLease)
}

// margin is how long the owner waits before it ends a lease.
func margin(lease time.Duration) time.Duration { return lease + lease/5 + time.Second }

func (n *fakeNode) Heartbeat(_ context.Context, h wire.Heartbeat) (wire.HeartbeatResult, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sweep()
	out := wire.HeartbeatResult{Runs: make([]wire.BeatResult, len(h.Runs))}
	for i, b := range h.Runs {
		out.Runs[i] = wire.BeatResult{RunID: b.RunID}
		r, err := n.find(b.RunID)
		if err != nil {
			continue
		}
		if r.held && r.fence == b.Fence && r.status == flow.StatusExecuting {
			r.expiry = time.Now().Add(margin(n.lease(r)))
			out.Runs[i].OK = true
		}
		out.Runs[i].CancelRequested = r.cancelled || r.status == flow.StatusTerminated
	}
	return out, nil
}

func (n *fakeNode) Complete(_ context.Context, ends []wire.Completion) ([]wire.CompleteResult, []error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	got, errs := make([]wire.CompleteResult, len(ends)), make([]error, len(ends))
	for i, e := range ends {
		if errs[i] = n.refused("complete"); errs[i] != nil {
			continue
		}
		r, err := n.ending(e.RunID, "complete", e.Fence, func(r *fakeRun) {
			r.result = slices.Clone(e.Result)
			r.end(flow.StatusCompleted)
		})
		if errs[i] = err; err == nil {
			got[i] = wire.CompleteResult{RunID: r.id, Status: r.status.String()}
		}
	}
	return got, errs
}

// ending takes a worker's last message under a fence. The lock is held.
func (n *fakeNode) ending(id, kind string, fence uint64, do func(*fakeRun)) (*fakeRun, error) {
	n.sweep()
	r, err := n.find(id)
	if err != nil {
		return nil, err
	}
	this := fmt.Sprint(kind, fence)
	switch {
	case r.held && r.fence == fence:
		r.held = false
		r.ending = this
		switch {
		case r.status == flow.StatusTerminated:
			r.log = append(r.log, "hold freed")
		case r.cancelled:
			r.end(flow.StatusCancelled)
		default:
			do(r)
		}
		n.touch()
	case r.ending == this:
		r.log = append(r.log, kind+" repeated")
	case r.status.Ended():
		return nil, flow.ErrRunEnded
	default:
		r.log = append(r.log, kind+" refused")
		return nil, flow.ErrStaleFence
	}
	return r, nil
}

func (n *fakeNode) Fail(_ context.Context, id flow.RunID, f wire.Fail) (wire.Ended, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r, err := n.ending(id.String(), "fail", f.Fence, func(r *fakeRun) {
		d := n.declared[r.sub.Workflow]
		r.failure = &f.Error
		r.failures++
		if !f.Retryable || d.MaxAttempts == nil || r.failures >= *d.MaxAttempts {
			r.end(flow.StatusFailed)
			return
		}
		wait := time.Second
		if d.RetryBackoffSeconds != nil {
			wait = time.Duration(*d.RetryBackoffSeconds * float64(time.Second))
		}
		r.status, r.wake = flow.StatusSuspended, time.Now().Add(wait)
		r.log = append(r.log, "retrying")
	})
	if err != nil {
		return wire.Ended{}, err
	}
	return wire.Ended{RunID: r.id, Status: r.status.String()}, nil
}
