package actors

import (
	"context"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// Ready says whether the node serves; it never waits.
func (n *Node) Ready(context.Context) wire.Ready {
	out := wire.Ready{Ready: true}
	check := func(name string, err error) {
		c := wire.ReadyCheck{Name: name, OK: err == nil}
		if err != nil {
			c.Reason = err.Error()
			out.Ready = false
			if out.Reason == "" {
				out.Reason = c.Reason
			}
		}
		out.Checks = append(out.Checks, c)
	}
	check("shards", n.serving())
	check("disk", n.cfg.Refuse())
	return out
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

// Recovered is how many runs and keys each shard had in memory when it was promoted for
// the first time: what has come since doesn't count.
func (n *Node) Recovered() (runs, keys int64) { return n.recoveredRuns.Load(), n.recoveredKeys.Load() }
