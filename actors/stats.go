package actors

import (
	"context"
	"fmt"

	"github.com/pyrula/pyrula-node/flow"
)

// WorkflowStats is how one workflow stands on this node at one moment.
type WorkflowStats struct {
	Runs    map[flow.Status]int64     // runs in memory
	Waiting map[flow.WaitReason]int64 // queued runs, by what holds the head of their queue
	Oldest  flow.Span                 // how long the run waits that waits longest
	Limit   string                    // the name of the current limit's key; empty without one
	Slots   int64                     // of all keys that are awake
	Used    int64
	Full    int64 // keys that are awake and have no slot free
	Idle    int64 // keys that are awake and have one
	Credit  int64 // runs that workers wait for; a worker of two workflows counts in both
	Events  int64 // in open batches
	Batches int64 // that are open
	Due     int64 // of them, those that wait for a worker
}

// Stats is how every workflow stands.
type Stats map[string]*WorkflowStats

// of is the entry of a workflow, made when there is none.
func (s Stats) of(workflow string) *WorkflowStats {
	w := s[workflow]
	if w == nil {
		w = &WorkflowStats{Runs: make(map[flow.Status]int64), Waiting: make(map[flow.WaitReason]int64)}
		s[workflow] = w
	}
	return w
}

// Stats asks every shard and the dispatcher. Their moments differ slightly.
func (n *Node) Stats(ctx context.Context) (Stats, error) {
	if err := n.serving(); err != nil {
		return nil, err
	}
	q := n.asks.open(len(n.shards) + 1)
	for i, s := range n.shards {
		s.box.tell(queryMsg{ask: q.id, item: i, read: func(s *shard) (any, error) { return s.stats(), nil }})
	}
	n.dispatcher.box.tell(creditMsg{ask: q.id, item: len(n.shards)})
	sum := make(Stats)
	for _, a := range n.await(ctx, q) {
		if a.err != nil {
			return nil, fmt.Errorf("count runs: %w", a.err)
		}
		sum.add(a.value.(Stats))
	}
	for name, w := range sum { //tidy:ordered each workflow by itself
		n.refine(name, w)
	}
	return sum, nil
}

func (s Stats) add(part Stats) {
	for name, p := range part { //tidy:ordered a sum of each
		w := s.of(name)
		for status, n := range p.Runs { //tidy:ordered a sum of each
			w.Runs[status] += n
		}
		for reason, n := range p.Waiting { //tidy:ordered a sum of each
			w.Waiting[reason] += n
		}
		w.Oldest = max(w.Oldest, p.Oldest)
		w.Slots, w.Used = w.Slots+p.Slots, w.Used+p.Used
		w.Full, w.Idle, w.Credit = w.Full+p.Full, w.Idle+p.Idle, w.Credit+p.Credit
		w.Events, w.Batches, w.Due = w.Events+p.Events, w.Batches+p.Batches, w.Due+p.Due
	}
}

// refine adds what the registry knows.
func (n *Node) refine(workflow string, w *WorkflowStats) {
	def := currentOf(n.registry.list(workflow))
	if def == nil {
		return
	}
	for _, r := range def.Rules {
		if r.Kind == flow.GateLimit {
			w.Limit = r.Key.Text()
		}
	}
}

func (s *shard) stats() Stats {
	out := make(Stats)
	s.st.index.counts(func(workflow string, status flow.Status, n int) {
		out.of(workflow).Runs[status] += int64(n)
	})
	for slot := range s.st.keySlab.all() {
		l, w := slot.key.Load(s.now), out.of(slot.id.Workflow)
		w.Waiting[flow.WaitRate] += l.Asked
		if l.Waiting > 0 {
			w.Waiting[l.Reason] += l.Waiting
		}
		if l.Oldest != 0 {
			w.Oldest = max(w.Oldest, s.now.Sub(l.Oldest))
		}
		if b := slot.key.ViewBatch(); b.Events > 0 {
			w.Events, w.Batches = w.Events+b.Events, w.Batches+1
			if b.Due || b.Deadline <= s.now {
				w.Due++
			}
		}
		w.Slots, w.Used = w.Slots+l.Max, w.Used+l.Used
		if l.Max > 0 && l.Used >= l.Max {
			w.Full++
		} else {
			w.Idle++
		}
	}
	return out
}

// credit is what the waiting claims of every workflow still ask for.
func (d *dispatcher) credit() Stats {
	out := make(Stats)
	for workflow, f := range d.flows { //tidy:ordered a sum of each
		for e := f.waiting.Front(); e != nil; e = e.Next() {
			out.of(workflow).Credit += e.Value.(*claim).spare()
		}
	}
	return out
}
