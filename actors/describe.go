package actors

import (
	"context"

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
