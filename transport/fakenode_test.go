package transport_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/transport"
)

// fakeNode is a node with one queue, no gates, no disk and its own clock, that
// keeps what it is told: enough for the API to have something to say. With err set
// every call answers it.
type fakeNode struct {
	mu        sync.Mutex // guards everything below
	err       error
	claimErr  error // of claims alone
	workflows map[string]wire.Workflow
	runs      map[flow.RunID]*fakeRun
	order     []flow.RunID
	byKey     map[string]flow.RunID
	fence     uint64
	changed   chan struct{} // closed at every change, then replaced
	notReady  string
	schedules map[string]wire.ScheduleView
	resolve   []wire.Candidate // that the next claim answers
	triggers  []fakeTrigger    // calls of Trigger
	batch     *wire.OpenBatch  // of every key
	entered   chan struct{}    // when set: a call that waits sends here first
}

type fakeRun struct {
	wire.Run
	fakeBody
	params []byte
	fence  uint64
}

var _ transport.Node = (*fakeNode)(nil)

func newFakeNode() *fakeNode {
	return &fakeNode{
		workflows: map[string]wire.Workflow{}, runs: map[flow.RunID]*fakeRun{}, byKey: map[string]flow.RunID{},
		changed: make(chan struct{}), schedules: map[string]wire.ScheduleView{},
	}
}

func (n *fakeNode) change() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// fail makes every later call answer err.
func (n *fakeNode) fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.err = err
}

func (n *fakeNode) Declare(_ context.Context, name string, d wire.Declaration) (wire.Declared, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return wire.Declared{}, n.err
	}
	w := n.workflows[name]
	w.Name = name
	v := wire.WorkflowVersion{Limit: d.Limit, Rate: d.Rate, Trigger: d.Trigger, MaxAttempts: 1, RetryBackoffSeconds: 1, LeaseSeconds: 30, Current: true}
	v.Declared = wire.Declared{Workflow: name, Version: d.Version, DefinitionHash: "d", GatesHash: "g", Changed: true}
	i := slices.IndexFunc(w.Versions, func(o wire.WorkflowVersion) bool { return o.Version == d.Version })
	if i >= 0 {
		v.Changed = false
		return v.Declared, nil
	}
	w.Versions = append(w.Versions, v)
	n.workflows[name] = w
	return v.Declared, nil
}

func (n *fakeNode) Workflows(context.Context) (wire.WorkflowList, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var l wire.WorkflowList
	for _, name := range slices.Sorted(maps.Keys(n.workflows)) {
		l.Workflows = append(l.Workflows, n.workflows[name])
	}
	return l, n.err
}

func (n *fakeNode) Workflow(_ context.Context, name string) (wire.Workflow, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w, ok := n.workflows[name]
	if !ok {
		return w, cmp.Or(n.err, fmt.Errorf("%q: %w", name, flow.ErrUnknownWorkflow))
	}
	return w, n.err
}

func (n *fakeNode) Submit(_ context.Context, runs []wire.Submit) ([]wire.Submitted, []error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	results, errs := make([]wire.Submitted, len(runs)), make([]error, len(runs))
	for i, s := range runs {
		if errs[i] = n.err; n.err != nil {
			continue
		}
		if s.Workflow == "refused" {
			errs[i] = &flow.FieldError{Kind: flow.ErrConfiguration, Field: "stamp.keys.limit", Want: "is required: the key is a function"}
			continue
		}
		results[i] = n.submit(s)
	}
	n.change()
	return results, errs
}

func (n *fakeNode) submit(s wire.Submit) wire.Submitted {
	if s.IdempotencyKey != nil {
		if id, ok := n.byKey[*s.IdempotencyKey]; ok {
			return wire.Submitted{RunID: id.String(), Status: n.runs[id].Status}
		}
	}
	id := flow.NewRunID(flow.InstantOfMillis(1_796_000_000_000+int64(len(n.order))), 1, flow.Entropy{byte(len(n.order))})
	r := &fakeRun{params: s.Params}
	r.Run = wire.Run{
		RunID: id.String(), Workflow: s.Workflow, Status: "queued", IdempotencyKey: s.IdempotencyKey,
		Provenance: wire.Provenance{Source: wire.Source{Trigger: cmp.Or(s.Trigger, "client")}},
		Wait:       &wire.Wait{Reason: "no_worker"}, SubmittedAt: 1_796_000_000_000,
	}
	n.runs[id] = r
	n.order = append(n.order, id)
	if s.IdempotencyKey != nil {
		n.byKey[*s.IdempotencyKey] = id
	}
	return wire.Submitted{RunID: r.RunID, Status: r.Status, Created: true}
}

// wait blocks until ready says true or ctx ends. ready is called under the lock.
func (n *fakeNode) wait(ctx context.Context, ready func() bool) error {
	for {
		n.mu.Lock()
		if n.err != nil || ready() {
			defer n.mu.Unlock()
			return n.err
		}
		changed, entered := n.changed, n.entered
		n.mu.Unlock()
		if entered != nil {
			entered <- struct{}{}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (n *fakeNode) Claim(ctx context.Context, c wire.Claim) (wire.Claimed, error) {
	var got wire.Claimed
	if n.claimErr != nil {
		return got, n.claimErr
	}
	timer := time.NewTimer(time.Duration(c.WaitMS) * time.Millisecond)
	defer timer.Stop()
	over := false
	go func() {
		select {
		case <-timer.C:
			n.mu.Lock()
			defer n.mu.Unlock()
			over = true
			n.change()
		case <-ctx.Done():
		}
	}()
	err := n.wait(ctx, func() bool {
		for _, id := range n.order {
			if r := n.runs[id]; len(got.Runs) < c.Credit && r.Status == "queued" && slices.ContainsFunc(c.Workflows, func(w wire.ClaimWorkflow) bool { return w.Name == r.Workflow }) {
				n.fence++
				r.Status, r.fence, r.Wait, r.Attempt = "executing", n.fence, nil, r.Attempt+1
				got.Runs = append(got.Runs, wire.Grant{
					RunID: r.RunID, Workflow: r.Workflow, Params: r.params, Attempt: r.Attempt, Fence: r.fence, LeaseSeconds: 30,
					Steps: r.steps, Signals: r.signals, Waits: r.waits, Children: r.groups, State: r.state,
				})
			}
		}
		got.Resolve, n.resolve = n.resolve, nil
		return len(got.Runs)+len(got.Resolve) > 0 || c.WaitMS == 0 || over
	})
	return got, err
}

func (n *fakeNode) Heartbeat(_ context.Context, h wire.Heartbeat) (wire.HeartbeatResult, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var got wire.HeartbeatResult
	for _, b := range h.Runs {
		id, err := flow.ParseRunID(b.RunID)
		if err != nil {
			return got, err
		}
		r := n.runs[id]
		got.Runs = append(got.Runs, wire.BeatResult{RunID: id.String(), OK: r != nil && r.fence == b.Fence})
	}
	return got, n.err
}

// end changes a run that is held under the fence.
func (n *fakeNode) end(id flow.RunID, fence uint64, status string) (*fakeRun, error) {
	r := n.runs[id]
	switch {
	case n.err != nil:
		return nil, n.err
	case r == nil:
		return nil, flow.ErrUnknownRun
	case r.fence != fence:
		return nil, fmt.Errorf("fence %d: %w", fence, flow.ErrStaleFence)
	case r.Status != "executing" && r.Status != status:
		return nil, flow.ErrRunEnded
	}
	r.Status = status
	n.change()
	return r, nil
}

func (n *fakeNode) Complete(_ context.Context, ends []wire.Completion) ([]wire.CompleteResult, []error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	results, errs := make([]wire.CompleteResult, len(ends)), make([]error, len(ends))
	for i, e := range ends {
		id, err := flow.ParseRunID(e.RunID)
		if err == nil {
			var r *fakeRun
			if r, err = n.end(id, e.Fence, "completed"); err == nil {
				r.Result = e.Result
			}
		}
		results[i], errs[i] = wire.CompleteResult{RunID: e.RunID, Status: "completed"}, err
	}
	return results, errs
}

func (n *fakeNode) Fail(_ context.Context, id flow.RunID, f wire.Fail) (wire.Ended, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	status := "failed"
	if f.Retryable {
		status = "queued"
	}
	r, err := n.end(id, f.Fence, status)
	if err != nil {
		return wire.Ended{}, err
	}
	r.Error = &f.Error
	return wire.Ended{RunID: r.RunID, Status: r.Status}, nil
}

func (n *fakeNode) Suspend(_ context.Context, id flow.RunID, s wire.Suspend) (wire.Ended, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r, err := n.end(id, s.Fence, "suspended")
	if err != nil {
		return wire.Ended{}, err
	}
	r.suspended = append(r.suspended, s)
	return wire.Ended{RunID: r.RunID, Status: r.Status}, nil
}

func (n *fakeNode) stop(id flow.RunID, status string) (wire.Stopped, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.last(id)
	if r == nil || n.err != nil {
		return wire.Stopped{}, cmp.Or(n.err, flow.ErrUnknownRun)
	}
	s, _ := flow.ParseStatus(r.Status)
	if s.Ended() {
		return wire.Stopped{RunID: r.RunID, Status: r.Status}, nil
	}
	r.Status = status
	n.change()
	return wire.Stopped{RunID: r.RunID, Status: r.Status, Changed: true}, nil
}

func (n *fakeNode) Cancel(_ context.Context, id flow.RunID, _ string) (wire.Stopped, error) {
	return n.stop(id, "cancelled")
}

func (n *fakeNode) Terminate(_ context.Context, id flow.RunID, _ string) (wire.Stopped, error) {
	return n.stop(id, "terminated")
}

// held sets what a test needs to see or to stop.
func (n *fakeNode) held(t *testing.T, id string) *fakeRun {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	parsed, err := flow.ParseRunID(id)
	if err != nil || n.runs[parsed] == nil {
		t.Fatalf("no run %q: %v", id, err)
	}
	return n.runs[parsed]
}
