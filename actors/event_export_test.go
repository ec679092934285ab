package actors

import (
	"context"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/runactor"
)

// SetExpressions gives a node who computes its expressions, or nobody. It is called while
// nothing moves.
func SetExpressions(n *Node, x Expressions) { n.cfg.Expressions = x }

// Params are the parameters of a run, in memory or in the archive.
func Params(ctx context.Context, n *Node, id flow.RunID) ([]byte, error) {
	v, err := n.readRun(ctx, id, func(run *runactor.Run) any { return append([]byte(nil), run.Params()...) })
	b, _ := v.([]byte)
	return b, err
}

// OpenBatch is an open batch as its shard has it.
type OpenBatch struct {
	Key      flow.KeyID
	Run      flow.RunID
	Deadline flow.Instant
	Due      bool
	Params   string // what its run would get now
}

// OpenBatches are the open batches of all shards.
func OpenBatches(ctx context.Context, n *Node) ([]OpenBatch, error) {
	all, err := Inspect(ctx, n, func(st *state, _ flow.Instant) (any, error) {
		var out []OpenBatch
		for slot := range st.keySlab.all() {
			if params, _, ok := slot.key.Batch(); ok {
				v := slot.key.ViewBatch()
				out = append(out, OpenBatch{slot.id, v.Run, v.Deadline, v.Due, string(params)})
			}
		}
		return out, nil
	})
	var out []OpenBatch
	for _, v := range all {
		part, _ := v.([]OpenBatch)
		out = append(out, part...)
	}
	return out, err
}

// ArmedTimers is the number of timers that the shards have asked the clock for. It may be
// called while nothing moves.
func ArmedTimers(n *Node) (timers int) {
	for _, s := range n.shards {
		if s.stopTimer != nil {
			timers++
		}
	}
	return timers
}

// KeysInMemory is the number of keys that the shards remember.
func KeysInMemory(ctx context.Context, n *Node) (keys int, err error) {
	all, err := Inspect(ctx, n, func(st *state, _ flow.Instant) (any, error) { return len(st.keys), nil })
	for _, v := range all {
		k, _ := v.(int)
		keys += k
	}
	return keys, err
}

// AwaitedKeys is the number of keys in the lists of those whose batch waits for a worker.
// It may be called while nothing moves.
func AwaitedKeys(n *Node) (keys int) {
	for _, s := range n.shards {
		for _, list := range s.due {
			keys += len(list)
		}
	}
	return keys
}

// RememberedEvents is the number of ids of events that are remembered behind their batch.
func RememberedEvents(ctx context.Context, n *Node) (ids int, err error) {
	all, err := Inspect(ctx, n, func(st *state, _ flow.Instant) (any, error) {
		return max(st.cutEvents.fifo.len(), len(st.cutEvents.runs)), nil
	})
	for _, v := range all {
		k, _ := v.(int)
		ids += k
	}
	return ids, err
}

// MaxCutEvents is the bound of RememberedEvents for one shard.
const MaxCutEvents = maxCutEvents

// NewWork is the new work that waits for a shard.
func NewWork(n *Node, id engine.ShardID) int64 { return n.shards[id].newWork.Load() }
