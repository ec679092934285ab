package actors

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// Check asks every shard for its first broken invariant. A shard without an owner
// has none.
func Check(ctx context.Context, n *Node) error {
	_, err := Inspect(ctx, n, func(st *state, _ flow.Instant) (any, error) { return nil, errors.Join(st.check(), st.seated()) })
	return err
}

// Inspect runs f over the state of every shard, in the shard's own goroutine.
func Inspect(ctx context.Context, n *Node, f func(*state, flow.Instant) (any, error)) ([]any, error) {
	q := n.asks.open(len(n.shards))
	for i, s := range n.shards {
		s.box.tell(queryMsg{ask: q.id, item: i, read: func(s *shard) (any, error) { return f(s.st, s.now) }})
	}
	var out []any
	var errs []error
	for i, a := range n.await(ctx, q) {
		if a.err != nil && !errors.Is(a.err, flow.ErrNotReady) {
			errs = append(errs, fmt.Errorf("shard %d: %w", i, a.err))
		}
		out = append(out, a.value)
	}
	return out, errors.Join(errs...)
}

// Fingerprints is the whole state of every shard in one text each: the same for
// the same state. Keys that may be forgotten at the instant are left out.
func Fingerprints(ctx context.Context, n *Node) ([]Fingerprint, error) {
	all, err := Inspect(ctx, n, func(st *state, now flow.Instant) (any, error) {
		return Fingerprint{st.fingerprint(now), now}, nil
	})
	out := make([]Fingerprint, len(all))
	for i, v := range all {
		out[i], _ = v.(Fingerprint)
	}
	return out, err
}

// Fingerprint is the text of one shard's state at an instant.
type Fingerprint struct {
	Text string
	At   flow.Instant
}

// Replay is what a shard's entries make, beginning with a snapshot if there is one.
// It checks every invariant after each entry, or of a large state only at the end.
func Replay(shards int, snapshot io.Reader, entries []engine.Entry, at flow.Instant) (string, error) {
	m := bareMachine(shards)
	if snapshot != nil {
		if err := m.Restore(snapshot, 0); err != nil {
			return "", err
		}
	}
	for _, e := range entries {
		e.Body = bytes.Clone(e.Body)
		if err := m.Apply(e); err != nil {
			return "", err
		}
		clear(e.Body) // a state that keeps a body is found out
		if len(m.state().runs) > 500 {
			continue
		}
		if err := m.state().check(); err != nil {
			return "", fmt.Errorf("after entry %d: %w", e.Pos, err)
		}
	}
	if err := m.state().check(); err != nil {
		return "", err
	}
	m.state().list()
	return m.state().fingerprint(at), nil
}

func bareMachine(shards int) *machine {
	n := &Node{shards: make([]*shard, shards)}
	return &machine{shard: &shard{node: n}, reader: flow.NewReader()}
}

// fingerprint is the whole state in one text, the same for the same state.
func (st *state) fingerprint(now flow.Instant) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "fence %d last sent %d\n", st.fence, st.lastSent)
	for i := range st.mail.out {
		o := &st.mail.out[i]
		fmt.Fprintf(&b, "shard %d: received %d, delivered %d, letters %x\n", i, st.mail.in[i], o.done, o.letters)
	}
	for _, key := range slices.Sorted(maps.Keys(st.keyed.named)) {
		k := st.keyed.named[key]
		fmt.Fprintf(&b, "keyed %q %s %d %d at %d\n", key, k.run, k.shard, k.letter, k.at)
	}
	fmt.Fprintf(&b, "archived %d keys, runs %v\n", st.archived.keys, st.archived.days)
	fmt.Fprintf(&b, "keyed by age %v\nended %v\n", st.keyed.ages.tree.Items(), st.ended.tree.Items())
	for i := range st.requests.fifo.len() {
		r := st.requests.fifo.at(i)
		if now.Sub(r.at) <= requestWindow { // older ones are forgotten with the next submit
			fmt.Fprintf(&b, "request %q at %d %s\n", r.id, r.at, st.requests.runs[r.id])
		}
	}
	for i := range st.cutEvents.fifo.len() {
		r := st.cutEvents.fifo.at(i)
		if now.Sub(r.at) <= requestWindow {
			fmt.Fprintf(&b, "event %x at %d %s\n", r.id, r.at, st.cutEvents.runs[r.id])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(st.defs.byWorkflow)) {
		for _, d := range st.defs.byWorkflow[name] {
			plain := *d
			plain.Trigger = nil // a pointer is no text
			fmt.Fprintln(&b, strings.Replace(fmt.Sprintf("definition %+v", plain), " Trigger:<nil>", "", 1))
			if d.Trigger != nil {
				fmt.Fprintf(&b, "trigger %+v\n", *d.Trigger)
			}
		}
	}
	st.schedules.fingerprint(&b)
	st.index.fingerprint(&b)
	runs := slices.SortedFunc(maps.Keys(st.runs), flow.RunID.Compare)
	for _, id := range runs {
		fmt.Fprintf(&b, "run %s %x\n", id, st.runs[id].run.Fingerprint())
	}
	keys := slices.SortedFunc(maps.Keys(st.keys), func(a, b flow.KeyID) int {
		return cmp.Or(cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Kind, b.Kind))
	})
	for _, id := range keys {
		if k := st.keys[id].key; !k.Idle(now) {
			fmt.Fprintf(&b, "%s", k.Fingerprint())
		}
	}
	return b.String()
}

func (x *runIndex) fingerprint(b *bytes.Buffer) {
	lists := slices.SortedFunc(maps.Keys(x.lists), func(a, b indexKey) int {
		return cmp.Or(cmp.Compare(a.workflow, b.workflow), cmp.Compare(a.status, b.status))
	})
	for _, k := range lists {
		if x.lists[k].Len() > 0 {
			fmt.Fprintf(b, "list %s %s %v\n", k.workflow, k.status, x.lists[k].Items())
		}
	}
}

// Credit is what the dispatcher thinks is lent: to its claims and to its shards. It
// may be called while nothing moves.
func Credit(n *Node) (byClaim, byShard, byKey int64) {
	d := n.dispatcher
	for _, c := range d.claims {
		byClaim += c.lent
	}
	for i := range d.shards {
		for _, units := range d.shards[i].lent {
			byShard += units
		}
		for _, k := range d.shards[i].keys {
			byKey += k.lent
		}
	}
	return byClaim, byShard, byKey
}

// FreeBehindItsBack frees the slot of a run without a record, so that the next free
// finds nothing.
func FreeBehindItsBack(ctx context.Context, n *Node, id flow.RunID, fence uint64) error {
	_, err := n.read(ctx, n.shardOf(id.Partition()), func(s *shard) (any, error) {
		run := s.st.runs[id].run
		key := s.st.keys[run.Stamp().Home(run.Workflow())].key
		key.Apply(&flow.Record{Kind: flow.RecCompleted, At: s.now, Fields: flow.Fields{Run: id, Fence: fence}})
		return nil, nil
	})
	return err
}

// Watchers is the number of readers that wait for the end of a run. It may be called
// while nothing moves.
func Watchers(n *Node) (readers int) {
	for _, s := range n.shards {
		for _, slot := range s.st.runs {
			readers += len(slot.watchers)
		}
	}
	return readers
}

// seated says whether every entity sits where it thinks, and nobody else anywhere.
func (st *state) seated() error {
	taken := 0
	for _, slot := range st.keySlab.seats {
		if slot != nil {
			taken++
		}
	}
	if taken != len(st.keys) || len(st.runSlab.seats)-len(st.runSlab.free) != len(st.runs) {
		return fmt.Errorf("%d seats for %d keys, %d less %d for %d runs", taken, len(st.keys), len(st.runSlab.seats), len(st.runSlab.free), len(st.runs))
	}
	for id, slot := range st.runs {
		if slot.run.ID() != id || st.runSlab.seats[slot.seat] != slot {
			return fmt.Errorf("run %s doesn't sit on its seat", id)
		}
	}
	for id, slot := range st.keys {
		if slot.id != id || st.keySlab.seats[slot.seat] != slot {
			return fmt.Errorf("%s doesn't sit on its seat", id)
		}
	}
	return nil
}

// ReadyKeys is the number of keys that the dispatcher remembers. It may be called while
// nothing moves.
func ReadyKeys(n *Node) (keys int) {
	for i := range n.dispatcher.shards {
		keys += len(n.dispatcher.shards[i].keys)
	}
	return keys
}

// RunsInMemory is the number of runs that the shards remember.
func RunsInMemory(ctx context.Context, n *Node) (runs int, err error) {
	all, err := Inspect(ctx, n, func(st *state, _ flow.Instant) (any, error) { return len(st.runs), nil })
	for _, v := range all {
		k, _ := v.(int)
		runs += k
	}
	return runs, err
}

// SetArchiveBehind lowers the number of ended runs that may wait for the archive. It is
// called while nothing moves.
func SetArchiveBehind(n *Node, runs int64) { n.archiveBehind = runs }

// Remembered is the number of idempotency keys and of request ids in memory.
func Remembered(ctx context.Context, n *Node) (keys, requests int, err error) {
	all, err := Inspect(ctx, n, func(st *state, _ flow.Instant) (any, error) {
		return [2]int{len(st.keyed.named), st.requests.fifo.len()}, nil
	})
	for _, v := range all {
		k, _ := v.([2]int)
		keys, requests = keys+k[0], requests+k[1]
	}
	return keys, requests, err
}

// BoundaryBytes is what a shard allocates to mark the boundary of a snapshot, on average.
// It may be called while nothing else runs.
func BoundaryBytes(ctx context.Context, n *Node, id engine.ShardID) (bytes int64, err error) {
	const times = 20
	v, err := n.read(ctx, id, func(s *shard) (any, error) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range times {
			s.captures++
			s.st.begin(s.captures, s.epoch, s.appended)
		}
		s.st.capture = nil
		runtime.ReadMemStats(&after)
		return int64(after.TotalAlloc-before.TotalAlloc) / times, nil
	})
	bytes, _ = v.(int64)
	return bytes, err
}

// SnapshotPauses walks a whole snapshot of a shard and throws it away: how long its parts
// kept the shard's goroutine.
func SnapshotPauses(ctx context.Context, n *Node, id engine.ShardID) (begin time.Duration, slices []time.Duration, err error) {
	var c *capture
	_, err = n.read(ctx, id, func(s *shard) (any, error) {
		t := time.Now()
		s.captures++
		c = s.st.begin(s.captures, s.epoch, s.appended)
		begin = time.Since(t)
		return nil, nil
	})
	for more := err == nil; more; {
		_, err = n.read(ctx, id, func(s *shard) (any, error) {
			t := time.Now()
			_, more = c.slice()
			slices = append(slices, time.Since(t))
			if !more {
				s.st.capture = nil
			}
			return nil, nil
		})
		more = more && err == nil
	}
	return begin, slices, err
}

// NextFence is where the fences of a new owner begin.
func NextFence(last uint64, now flow.Instant) uint64 { return nextFence(last, now) }

// Keys is the number of keys that are awake.
func (s Stats) Keys() (n int64) {
	for _, w := range s { //tidy:ordered a sum
		n += w.Full + w.Idle
	}
	return n
}

// TotalRuns is the number of runs in memory.
func (s Stats) TotalRuns() (n int64) {
	for _, w := range s { //tidy:ordered a sum
		for _, runs := range w.Runs { //tidy:ordered a sum
			n += runs
		}
	}
	return n
}
