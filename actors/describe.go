package actors

import (
	"context"
	"fmt"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// Ready says whether the node serves; it never waits.
func (n *Node) Ready(context.Context) wire.Ready {
	if err := n.takesNewWork(); err != nil {
		return wire.Ready{Reason: err.Error()}
	}
	return wire.Ready{Ready: true}
}

// Describe is what the shards know of the node; the caller adds what only it
// knows: data directory, version and how long recovery took.
func (n *Node) Describe(context.Context) (wire.Node, error) {
	out := wire.Node{Shards: make([]wire.NodeShard, len(n.shards))}
	for i, s := range n.shards {
		owner, _, known := s.log.Owner()
		out.Shards[i] = wire.NodeShard{ID: i, Role: "follower", Owner: string(owner)}
		if s.owner.Load() {
			out.Shards[i].Role = "owner"
		}
		if !known {
			out.Shards[i].Owner = ""
		}
	}
	return out, nil
}

// Replayed is the number of records that were read back since the process began.
func (n *Node) Replayed() int64 { return n.replayed.Load() }

// Count is a number of runs of one workflow in one status.
type Count struct {
	Workflow string
	Status   flow.Status
	Runs     int64
}

// Stats is what the shards hold, by workflow and status, and how many keys are
// awake.
type Stats struct {
	Runs []Count
	Keys int64
}

// Stats asks every shard. Counts of shards are of slightly different moments.
func (n *Node) Stats(ctx context.Context) (Stats, error) {
	var out Stats
	if err := n.serving(); err != nil {
		return out, err
	}
	q := n.asks.open(len(n.shards))
	for i, s := range n.shards {
		s.box.tell(queryMsg{ask: q.id, item: i, read: func(s *shard) (any, error) { return s.stats(), nil }})
	}
	sums := make(map[indexKey]int64)
	for _, a := range n.await(ctx, q) {
		if a.err != nil {
			return out, fmt.Errorf("count runs: %w", a.err)
		}
		part := a.value.(Stats)
		out.Keys += part.Keys
		for _, c := range part.Runs {
			sums[indexKey{c.Workflow, c.Status}] += c.Runs
		}
	}
	for k, runs := range sums { //tidy:ordered a set of counts
		out.Runs = append(out.Runs, Count{k.workflow, k.status, runs})
	}
	return out, nil
}

func (s *shard) stats() Stats {
	out := Stats{Keys: int64(len(s.st.keys))}
	s.st.index.counts(func(workflow string, status flow.Status, runs int) {
		out.Runs = append(out.Runs, Count{workflow, status, int64(runs)})
	})
	return out
}
