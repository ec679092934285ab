package pyrula_test

import (
	"context"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/transport"
)

var _ transport.Node = (*fakeNode)(nil)

func (n *fakeNode) Declare(_ context.Context, name string, d wire.Declaration) (wire.Declared, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.declared[name]; !known {
		n.changes++
	}
	n.declared[name] = d
	n.touch()
	return wire.Declared{Workflow: name, Version: d.Version, VersionRank: 1, GatesHash: "hash-of-" + name}, nil
}

func (n *fakeNode) Workflows(context.Context) (wire.WorkflowList, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all wire.WorkflowList
	for name := range n.declared {
		all.Workflows = append(all.Workflows, wire.Workflow{Name: name})
	}
	return all, nil
}

func (n *fakeNode) Workflow(_ context.Context, name string) (wire.Workflow, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	d, ok := n.declared[name]
	if !ok {
		return wire.Workflow{}, flow.ErrUnknownWorkflow
	}
	v := wire.WorkflowVersion{Declared: wire.Declared{Workflow: name, Version: d.Version}, Limit: d.Limit, Rate: d.Rate}
	return wire.Workflow{Name: name, Versions: []wire.WorkflowVersion{v}}, nil
}

func (n *fakeNode) stop(id flow.RunID, s flow.Status) (wire.Stopped, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sweep()
	r, err := n.find(id.String())
	if err != nil {
		return wire.Stopped{}, err
	}
	if r.status.Ended() {
		return wire.Stopped{RunID: r.id, Status: r.status.String()}, nil
	}
	if r.held && s == flow.StatusCancelled {
		r.cancelled = true
	} else {
		r.end(s)
	}
	n.touch()
	return wire.Stopped{RunID: r.id, Status: r.status.String(), Changed: true}, nil
}

func (n *fakeNode) Cancel(_ context.Context, id flow.RunID, _ string) (wire.Stopped, error) {
	return n.stop(id, flow.StatusCancelled)
}

func (n *fakeNode) Terminate(_ context.Context, id flow.RunID, _ string) (wire.Stopped, error) {
	return n.stop(id, flow.StatusTerminated)
}

func (n *fakeNode) Run(ctx context.Context, id flow.RunID, wait time.Duration) (wire.Run, error) {
	var out wire.Run
	var unknown error
	err := n.await(ctx, wait, func() bool {
		r, err := n.find(id.String())
		if err != nil {
			unknown = err
			return true
		}
		out = wire.Run{
			RunID: r.id, Workflow: r.sub.Workflow, Status: r.status.String(), Attempt: r.attempt, Gates: []wire.Gate{},
			Result: r.result, Error: r.failure, CancelRequested: r.cancelled,
		}
		return r.status.Ended() || wait == 0
	})
	if unknown != nil {
		return out, unknown
	}
	return out, err
}

func (n *fakeNode) Events(_ context.Context, id flow.RunID) (wire.Events, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r, err := n.find(id.String())
	if err != nil {
		return wire.Events{}, err
	}
	var all wire.Events
	for i, what := range r.log {
		all.Events = append(all.Events, wire.Event{Seq: int64(i + 1), Type: what})
	}
	return all, nil
}

func (n *fakeNode) Why(_ context.Context, id flow.RunID) (wire.Why, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r, err := n.find(id.String())
	if err != nil {
		return wire.Why{}, err
	}
	return wire.Why{RunID: r.id, Status: r.status.String(), Text: "as the fake sees it"}, nil
}

func (n *fakeNode) List(_ context.Context, q wire.ListQuery) (wire.RunList, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var page wire.RunList
	for _, r := range n.runs {
		if q.Key == nil || *q.Key == r.key {
			page.Runs = append(page.Runs, wire.Run{RunID: r.id, Workflow: r.sub.Workflow, Status: r.status.String()})
		}
	}
	return page, nil
}

func (n *fakeNode) Key(_ context.Context, workflow, key string) (wire.KeyView, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return wire.KeyView{Workflow: workflow, Key: key, Used: int64(n.used(workflow, key))}, nil
}

func (n *fakeNode) Describe(context.Context) (wire.Node, error) {
	return wire.Node{NodeID: "fake"}, nil
}

func (n *fakeNode) Ready(context.Context) wire.Ready { return wire.Ready{Ready: true} }
