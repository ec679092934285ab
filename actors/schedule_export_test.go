package actors

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// fingerprint is every durable field of every schedule in text.
func (m *scheduleMemory) fingerprint(b *bytes.Buffer) {
	for _, name := range slices.Sorted(maps.Keys(m.named)) {
		s := m.named[name]
		fmt.Fprintf(b, "schedule %q %+v since %d, changed %d, next %d, runs %d, left %d, last %d %s %q\n",
			name, *s.def, s.created, s.changed, s.next, s.runs, s.left, s.lastAt, s.lastRun, s.lastErr)
	}
}

// SetMaxSchedules lowers the number of schedules that there may be. It is called while
// nothing moves.
func SetMaxSchedules(n *Node, most int64) { n.schedules.most = most }

// ScheduleCount is the number of schedules as the node counts them, and as they are. It
// may be called while nothing moves.
func ScheduleCount(n *Node) (counted, there int64) {
	for _, s := range n.shards {
		if s.st != nil {
			there += int64(len(s.st.schedules.named))
		}
	}
	return n.schedules.count.Load(), there
}

// TimerEntries is the number of entries in the timer heaps. It may be called while nothing
// moves.
func TimerEntries(n *Node) (entries int) {
	for _, s := range n.shards {
		entries += len(s.timers.heap)
	}
	return entries
}

// Waiting is the number of messages that wait for room in a shard's log. It may be called
// while nothing moves.
func Waiting(n *Node, id engine.ShardID) int { return n.shards[id].pending.len() }

// FindZone is how a node finds a time zone.
func FindZone(n *Node, name string) (*time.Location, error) { return n.schedules.zones.find(name) }

// LoseZones makes the schedules of a node as they are on a machine that doesn't know their
// time zones.
func LoseZones(ctx context.Context, n *Node) error {
	_, err := Inspect(ctx, n, func(st *state, _ flow.Instant) (any, error) {
		st.schedules.compute(func(string) (*time.Location, error) { return nil, flow.ErrUnsupported })
		return nil, nil
	})
	return err
}
