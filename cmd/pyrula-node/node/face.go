package node

import (
	"context"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/transport"
)

// face is the actors' node with what only this room knows.
type face struct {
	*actors.Node
	node *Node
}

var _ transport.Node = face{}

func (n *Node) face() face { return face{n.actors, n} }

// Describe implements transport.Reporter.
func (f face) Describe(ctx context.Context) (wire.Node, error) {
	out, err := f.Node.Describe(ctx)
	if err != nil {
		return out, err
	}
	out.NodeID, out.Version = f.node.cfg.NodeID, Version
	out.DataDir, out.Fsync = f.node.cfg.DataDir, f.node.cfg.Fsync.String()
	if r := f.node.recovery.Load(); r != nil {
		out.Recovery = *r
	}
	return out, nil
}

// Ready implements transport.Reporter. A node is ready when it also knows what it
// has recovered.
func (f face) Ready(ctx context.Context) wire.Ready {
	r := f.Node.Ready(ctx)
	if r.Ready && f.node.recovery.Load() == nil {
		r.Ready, r.Reason = false, "what was recovered is being counted"
	}
	return r
}

// observer passes what the actors see to the metrics.
type observer struct{ metrics *transport.Metrics }

var _ actors.Observer = observer{}

// RunStarted implements actors.Observer.
func (o observer) RunStarted(workflow string, waited flow.Span) {
	o.metrics.RunStarted(workflow)
	o.metrics.RunWaited(workflow, time.Duration(waited))
}

// LeaseExpired implements actors.Observer.
func (o observer) LeaseExpired(workflow string) { o.metrics.LeaseExpired(workflow) }

// AttemptFailed implements actors.Observer.
func (o observer) AttemptFailed(workflow string) { o.metrics.AttemptFailed(workflow) }

// RunFinished implements actors.Observer.
func (o observer) RunFinished(workflow string, status flow.Status, took flow.Span) {
	o.metrics.RunFinished(workflow, status.String())
	if took > 0 { // else no worker ever held it
		o.metrics.RunDuration(workflow, time.Duration(took))
	}
}

// Events implements actors.Observer.
func (o observer) Events(workflow string, n actors.EventCount) {
	o.metrics.EventsCame(workflow, n.Taken, n.Repeated, n.Refused)
}

// BatchFired implements actors.Observer.
func (o observer) BatchFired(b actors.BatchFired) {
	if b.Cause == actors.CauseTime {
		o.metrics.BatchTimed(b.Workflow, time.Duration(b.Late))
		return
	}
	o.metrics.BatchFilled(b.Workflow)
}

// gaugeTimeout bounds a scrape's look at the shards.
const gaugeTimeout = time.Second

// gauges are the numbers of one scrape; none while the node isn't ready.
func (n *Node) gauges() transport.Stats {
	ctx, cancel := context.WithTimeout(context.Background(), gaugeTimeout)
	defer cancel()
	var out transport.Stats
	health := n.engine.Health()
	out.Disk = &transport.DiskStats{Free: float64(health.Free), Reserve: float64(health.Reserve)}
	stats, err := n.actors.Stats(ctx)
	if err != nil {
		return out
	}
	on := n.archive.Stats()
	out.Archive = &transport.ArchiveStats{
		Runs: float64(on.Runs), Keys: float64(on.Keys), Bytes: float64(on.Bytes), Days: float64(on.Days),
		Waiting: float64(n.actors.WaitingForArchive()),
	}
	for name, w := range stats { //tidy:ordered a set of gauges
		for status, runs := range w.Runs { //tidy:ordered a set of gauges
			out.Runs = append(out.Runs, transport.RunCount{Workflow: name, State: status.String(), N: runs})
		}
		for reason, runs := range w.Waiting { //tidy:ordered a set of gauges
			out.Waiting = append(out.Waiting, transport.WaitCount{Workflow: name, Reason: string(reason), N: runs})
		}
		out.OldestWait = append(out.OldestWait, transport.WorkflowOf{Workflow: name, N: time.Duration(w.Oldest).Seconds()})
		out.WorkerCredit = append(out.WorkerCredit, transport.WorkflowOf{Workflow: name, N: float64(w.Credit)})
		out.Events = append(out.Events, transport.WorkflowOf{Workflow: name, N: float64(w.Events)})
		out.Batches = append(out.Batches,
			transport.BatchCount{Workflow: name, State: "gathering", N: w.Batches - w.Due},
			transport.BatchCount{Workflow: name, State: "due", N: w.Due})
		if w.Limit != "" {
			out.Slots = append(out.Slots, transport.LimitCount{Workflow: name, Limit: w.Limit, Slots: w.Slots, Used: w.Used})
		}
		out.Keys = append(out.Keys,
			transport.KeyCount{Workflow: name, State: "saturated", N: w.Full},
			transport.KeyCount{Workflow: name, State: "idle", N: w.Idle})
	}
	return out
}
