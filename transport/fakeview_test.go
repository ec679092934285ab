package transport_test

import (
	"context"
	"slices"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

func (n *fakeNode) Run(ctx context.Context, id flow.RunID, wait time.Duration) (wire.Run, error) {
	timed, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var got *fakeRun
	err := n.wait(timed, func() bool {
		got = n.last(id)
		if got == nil || wait == 0 {
			return true
		}
		s, _ := flow.ParseStatus(got.Status)
		return s.Ended()
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.err != nil:
		return wire.Run{}, n.err
	case got == nil:
		return wire.Run{}, flow.ErrUnknownRun
	case err != nil && ctx.Err() != nil:
		return wire.Run{}, ctx.Err()
	}
	run := got.Run
	if run.RunID != id.String() {
		run.RequestedRunID = id.String()
	}
	return run, nil
}

func (n *fakeNode) known(id flow.RunID) (*fakeRun, error) {
	if n.err != nil {
		return nil, n.err
	}
	r := n.runs[id]
	if r == nil {
		return nil, flow.ErrUnknownRun
	}
	return r, nil
}

func (n *fakeNode) Events(_ context.Context, id flow.RunID) (wire.Events, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r, err := n.known(id)
	if err != nil {
		return wire.Events{}, err
	}
	return wire.Events{Events: []wire.Event{{Seq: 1, Type: "run:init", At: r.SubmittedAt, Gates: &[]wire.Gate{}, Unknown: new(true)}}}, nil
}

func (n *fakeNode) Why(_ context.Context, id flow.RunID) (wire.Why, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r, err := n.known(id)
	if err != nil {
		return wire.Why{}, err
	}
	return wire.Why{RunID: r.RunID, Status: r.Status, Wait: r.Wait, Text: "no worker serves it"}, nil
}

func (n *fakeNode) List(_ context.Context, q wire.ListQuery) (wire.RunList, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var l wire.RunList
	for _, id := range slices.Backward(n.order) {
		r := n.runs[id]
		if (q.Workflow == "" || q.Workflow == r.Workflow) && (q.Status == "" || q.Status == r.Status) {
			l.Runs = append(l.Runs, r.Run)
		}
	}
	return l, n.err
}

// Key answers the very key it was asked for, so a test sees what came through.
func (n *fakeNode) Key(_ context.Context, workflow, key string) (wire.KeyView, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return wire.KeyView{Workflow: workflow, Key: key, Batch: n.batch}, n.err
}

func (n *fakeNode) Describe(context.Context) (wire.Node, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return wire.Node{NodeID: "n1", Version: "test", Fsync: "always", Shards: []wire.NodeShard{{ID: 0, Role: "owner", Owner: "n1"}}}, n.err
}

func (n *fakeNode) Ready(context.Context) wire.Ready {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := wire.ReadyCheck{Name: "journal", OK: n.notReady == "", Reason: n.notReady}
	return wire.Ready{Ready: c.OK, Reason: c.Reason, Checks: []wire.ReadyCheck{c}}
}
