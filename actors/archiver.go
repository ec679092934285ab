package actors

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// Bounds of the way into the archive (R14).
const (
	// archiveRuns and archiveBytes bound one batch.
	archiveRuns  = 5_000
	archiveBytes = 4 << 20
	// archivePause lets a batch fill: a fsync for each run would be waste.
	archivePause = 1 * flow.Second
	// leavingRuns and leavingBytes bound what one shard encodes in one message.
	leavingRuns  = 256
	leavingBytes = 256 << 10
	// archivedItems bounds the records that one message of the archiver makes (R5).
	archivedItems = 128
	// maxArchiveBehind is the number of ended runs beyond RecentRuns at which new runs
	// are refused with flow.ErrArchiveBehind.
	maxArchiveBehind = 500_000
)

// archiver moves ended runs, and idempotency keys with them, out of memory:
//
//	shards: what is due, encoded ─► archive: on disk ─► shards: record, forget
//
// It is a goroutine outside of the shards, because it waits for the disk. At rest it
// sleeps until the oldest ended run is due, or for ever when there is none.
type archiver struct {
	node    *Node
	store   engine.Archive // nil: nothing leaves memory
	ended   atomic.Int64   // ended runs in memory, of all shards
	keys    atomic.Int64   // idempotency keys in memory
	wakeAt  atomic.Int64   // either of them that ends the sleep
	wake    chan struct{}
	cancel  context.CancelFunc
	done    chan struct{}  // closed when the goroutine has left
	readers sync.WaitGroup // looks for idempotency keys, and for awaited runs
	few     chan struct{}  // a place for each awaited run that is read now
}

func newArchiver(n *Node) *archiver {
	a := &archiver{node: n, store: n.cfg.Archive, wake: make(chan struct{}, 1), done: make(chan struct{}), few: make(chan struct{}, maxReading)}
	a.wakeAt.Store(math.MaxInt64)
	return a
}

func (a *archiver) start() {
	if a.store == nil {
		close(a.done)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	go func() {
		defer close(a.done)
		select {
		case <-a.node.ready: // no shard could be asked before
		case <-ctx.Done():
		}
		for ctx.Err() == nil {
			a.sleep(ctx, a.round(ctx))
		}
	}()
}

// stop ends the goroutine behind what it has under way.
func (a *archiver) stop(within time.Duration) error {
	if a.cancel != nil {
		a.cancel()
	}
	select {
	case <-a.done:
		return nil
	case <-time.After(within):
		return fmt.Errorf("actors: the archive does not end a write within %s", within)
	}
}

// waitReaders waits for the looks into the archive that are under way.
func (a *archiver) waitReaders(within time.Duration) error {
	done := make(chan struct{})
	go func() {
		a.readers.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-time.After(within):
		return fmt.Errorf("actors: the archive does not end a read within %s", within)
	}
}

// note follows what a shard has in memory.
func (a *archiver) note(ended, keys int64) {
	if most := max(a.ended.Add(ended), a.keys.Add(keys)); most >= a.wakeAt.Load() {
		a.wakeAt.Store(math.MaxInt64) // once
		select {
		case a.wake <- struct{}{}:
		default:
		}
	}
}

// rest is how long to sleep, and what ends the sleep before that.
type rest struct {
	span   flow.Span // zero: for ever
	wakeAt int64     // ended runs or keys in memory
}

func (a *archiver) sleep(ctx context.Context, r rest) {
	a.wakeAt.Store(r.wakeAt)
	if max(a.ended.Load(), a.keys.Load()) >= r.wakeAt {
		return
	}
	over := make(chan struct{})
	if r.span > 0 {
		defer a.node.cfg.Clock.After(r.span, func() { close(over) })()
	}
	select {
	case <-over:
	case <-a.wake:
	case <-ctx.Done():
	}
}

// round moves one batch and says how long to rest.
func (a *archiver) round(ctx context.Context) rest {
	if a.node.cfg.Refuse() != nil {
		// The disk has no room, or hangs: what room there is belongs to the work under way.
		return rest{archivePause, math.MaxInt64}
	}
	b := a.collect(ctx)
	recent := a.node.cfg.RecentRuns
	if len(b.items)+len(b.keys) > 0 {
		// What the shards handed over was acknowledged, which isn't on disk yet where
		// acknowledgements don't wait for it.
		err := a.node.cfg.Sync(ctx)
		if err == nil {
			err = a.store.Put(ctx, b.items, b.keys)
		}
		switch {
		case ctx.Err() != nil:
			return rest{}
		case err != nil:
			a.node.cfg.Fatal(fmt.Errorf("archive: %w", err))
			return rest{}
		}
		a.confirm(ctx, &b)
		if b.full() {
			return rest{} // wakeAt zero: no rest
		}
		return rest{archivePause, recent + archiveRuns}
	}
	switch most := max(a.ended.Load(), a.keys.Load()); {
	case most == 0:
		return rest{0, 1}
	case b.failed || most > recent:
		return rest{archivePause, math.MaxInt64} // what is there can't leave yet
	}
	return rest{max(b.next, archivePause), recent + 1}
}

// batch is what leaves memory together.
type batch struct {
	items  []engine.Archived
	keys   []engine.ArchivedKey
	bytes  int
	moving []moving  // what each shard has handed over
	next   flow.Span // until something is due that isn't yet
	failed bool      // a shard could not be asked
}

// moving is one shard's part of a batch.
type moving struct {
	runs []flow.RunID
	keys []string
	run  aged[flow.RunID] // the last of them
	key  aged[string]
	more bool // it has more that is due
}

// full says that another shard's part could be too much.
func (b *batch) full() bool {
	return len(b.items)+len(b.keys)+2*leavingRuns > archiveRuns || b.bytes+leavingBytes > archiveBytes
}

// collect asks the shards for what is due, until the batch is full or nothing is
// left.
func (a *archiver) collect(ctx context.Context) batch {
	n := a.node
	b := batch{moving: make([]moving, len(n.shards)), next: n.cfg.RecentFor}
	total := a.ended.Load()
	excess := max(total-n.cfg.RecentRuns, 0)
	if total == 0 && a.keys.Load() == 0 || n.serving() != nil {
		b.failed = true
		return b
	}
	for i := range b.moving {
		b.moving[i].more = true
	}
	for more := true; more && !b.full(); {
		more = false
		q := n.asks.open(len(n.shards))
		for i, s := range n.shards {
			m := &b.moving[i]
			if !m.more {
				q.put(answer{item: i, value: leaving{}})
				continue
			}
			ask := leave{
				run: m.run, key: m.key, runs: len(m.runs), keys: len(m.keys),
				excess: int((excess*s.endedSeen.Load() + total - 1) / max(total, 1)),
			}
			s.box.tell(queryMsg{ask: q.id, item: i, read: func(s *shard) (any, error) { return s.leaving(ask), nil }})
		}
		for i, r := range n.await(ctx, q) {
			if b.full() {
				break // what isn't taken is asked for again in the next round
			}
			part, ok := r.value.(leaving)
			if b.moving[i].more = ok && part.more; !ok {
				b.failed = true
				continue
			}
			b.take(i, &part)
			more = more || part.more
		}
	}
	return b
}

func (b *batch) take(i int, part *leaving) {
	m := &b.moving[i]
	for j := range part.items {
		m.runs = append(m.runs, flow.RunID(part.items[j].ID))
		b.bytes += len(part.items[j].Body)
	}
	for j := range part.keys {
		m.keys = append(m.keys, part.keys[j].Text)
	}
	m.run, m.key = part.run, part.key
	b.items = append(b.items, part.items...)
	b.keys = append(b.keys, part.keys...)
	if part.next > 0 {
		b.next = min(b.next, part.next)
	}
}

// confirm tells the shards what the archive has, and waits until they have let go of
// it. A shard that is lost meanwhile is asked again in a later round.
func (a *archiver) confirm(ctx context.Context, b *batch) {
	type part struct {
		to  *shard
		msg archivedMsg
	}
	var parts []part
	for i := range b.moving {
		m := &b.moving[i]
		for runs := range slices.Chunk(m.runs, archivedItems) {
			parts = append(parts, part{a.node.shards[i], archivedMsg{runs: runs}})
		}
		for keys := range slices.Chunk(m.keys, archivedItems) {
			parts = append(parts, part{a.node.shards[i], archivedMsg{keys: keys}})
		}
	}
	q := a.node.asks.open(len(parts))
	for i := range parts {
		parts[i].msg.ask, parts[i].msg.item = q.id, i
		parts[i].to.box.tell(parts[i].msg)
	}
	a.node.await(ctx, q)
}

// behind says whether new runs are to be refused until the archive has caught up.
func (a *archiver) behind() error {
	if a.store == nil {
		return nil
	}
	if waiting := a.node.WaitingForArchive(); waiting >= a.node.archiveBehind {
		return fmt.Errorf("%d ended runs wait for the archive, and at most %d may: %w", waiting, a.node.archiveBehind, flow.ErrArchiveBehind)
	}
	return nil
}

// WaitingForArchive is the number of ended runs in memory beyond RecentRuns.
func (n *Node) WaitingForArchive() int64 {
	return max(n.archiver.ended.Load()-n.cfg.RecentRuns, 0)
}

// readKey looks for an idempotency key, and tells the shard that asks.
func (n *Node) readKey(s *shard, epoch engine.Epoch, key string) {
	n.archiver.readers.Go(func() {
		m := foundMsg{epoch: epoch, key: key}
		value, err := n.cfg.Archive.Key(key)
		switch {
		case errors.Is(err, engine.ErrNotArchived):
			m.err = err
		case err != nil:
			m.err = fmt.Errorf("look for an idempotency key: %w", err)
		case len(value) != len(m.run):
			m.err = fmt.Errorf("the archive has %d bytes for an idempotency key, want %d", len(value), len(m.run))
		default:
			m.run = flow.RunID(value)
		}
		s.box.tell(m)
	})
}
