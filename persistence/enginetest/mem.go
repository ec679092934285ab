package enginetest

import (
	"context"
	"fmt"
	"sync"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

// Commits says who makes appended entries durable.
type Commits uint8

const (
	// Auto commits from a goroutine of the engine, everything that is queued at
	// once.
	Auto Commits = iota
	// Manual commits when the test calls CommitNext or CommitAll, and never else.
	Manual
)

// MemConfig says what a Mem is like. The zero value is usable.
type MemConfig struct {
	// Shards is the number of shards; default 16.
	Shards int
	// Window is the number of entries in flight for each shard; default 8.
	Window int
	// Commits chooses who commits; default Auto.
	Commits Commits
	// Node is this node's name; default "mem".
	Node engine.NodeID
	// AfterFirst runs between the promotion of shard 0 and that of the others
	// (rule R17). It may block. Nil does nothing.
	AfterFirst func(ctx context.Context) error
	// OnFatal is told of Fail. Nil does nothing.
	OnFatal func(error)
}

func (c MemConfig) withDefaults() MemConfig {
	if c.Shards == 0 {
		c.Shards = 16
	}
	if c.Window == 0 {
		c.Window = 8
	}
	if c.Node == "" {
		c.Node = "mem"
	}
	return c
}

// Mem is an engine that keeps its log in memory. Use: NewMem, Open each shard,
// Start, and Close at the end (in Auto mode it has a goroutine). All methods are
// safe for any goroutine.
type Mem struct {
	cfg MemConfig

	// snapping holds one value while a snapshot is taken: one at a time.
	snapping chan struct{}
	// wake has room for one: "something is queued", or nothing new to say.
	wake chan struct{}
	// quit is closed by stop; done by the committing goroutine when it leaves.
	quit, done chan struct{}

	// mu guards everything below and the fields of the shards. It is never held
	// while a Machine, a watcher or a hook is called.
	mu       sync.Mutex
	shards   []*memShard
	queue    []*memShard // the shard of every entry not yet durable, in log order
	epoch    engine.Epoch
	started  bool
	closing  error // set by Close before the last commit: no more appends
	stopped  error // set by Fail, Crash and at the end of Close: no more commits
	watchers []func(engine.ShardID, engine.NodeID, engine.Epoch)
	quitOnce sync.Once
}

var _ engine.Engine = (*Mem)(nil)

// NewMem makes an engine with an empty log.
func NewMem(cfg MemConfig) *Mem {
	m := &Mem{
		cfg:      cfg.withDefaults(),
		snapping: make(chan struct{}, 1),
		wake:     make(chan struct{}, 1),
		quit:     make(chan struct{}),
		done:     make(chan struct{}),
	}
	m.shards = make([]*memShard, m.cfg.Shards)
	for i := range m.shards {
		m.shards[i] = newMemShard(m, engine.ShardID(i))
	}
	return m
}

// Open registers the machine of a shard. The log answers ErrNotOwner until Start
// has promoted the shard.
func (m *Mem) Open(s engine.ShardID, machine engine.Machine) (engine.Log, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if int(s) >= len(m.shards) {
		return nil, fmt.Errorf("open shard %d of %d: no such shard", s, len(m.shards))
	}
	sh := m.shards[s]
	if m.started || sh.machine != nil {
		return nil, fmt.Errorf("open shard %d: opened before", s)
	}
	sh.machine = machine
	return sh, nil
}

// Start rebuilds every shard that was opened, promotes the lowest of them, runs
// AfterFirst and promotes the others.
func (m *Mem) Start(ctx context.Context) error {
	m.mu.Lock()
	if m.started {
		m.mu.Unlock()
		return fmt.Errorf("start: started before")
	}
	m.started = true
	m.epoch++
	ep := m.epoch
	var open []*memShard
	for _, sh := range m.shards {
		if sh.machine != nil {
			open = append(open, sh)
		}
	}
	m.mu.Unlock()
	if m.cfg.Commits == Auto {
		go m.run()
	} else {
		close(m.done)
	}
	for _, sh := range open {
		if err := sh.rebuild(ctx); err != nil {
			return err
		}
	}
	for i, sh := range open {
		if err := sh.promote(ctx, ep); err != nil {
			return err
		}
		if i == 0 && m.cfg.AfterFirst != nil {
			if err := m.cfg.AfterFirst(ctx); err != nil {
				return fmt.Errorf("start after the first shard: %w", err)
			}
		}
	}
	return nil
}

// run is the committing goroutine of Auto mode.
func (m *Mem) run() {
	defer close(m.done)
	for {
		select {
		case <-m.wake:
			m.CommitAll()
		case <-m.quit:
			return
		}
	}
}

// CommitNext makes the oldest entry durable and tells its machine from the
// calling goroutine. It reports whether there was one; after Fail, Crash and
// Close there is none.
func (m *Mem) CommitNext() bool { return m.commit(1) > 0 }

// CommitAll makes every entry durable that is appended now, tells the machines
// from the calling goroutine and returns how many entries there were.
func (m *Mem) CommitAll() int { return m.commit(-1) }

// commit makes the first n entries of the queue durable together (all for a
// negative n), as one group commit does, and then tells each shard once.
func (m *Mem) commit(n int) int {
	m.mu.Lock()
	if m.stopped != nil {
		m.mu.Unlock()
		return 0
	}
	if n < 0 || n > len(m.queue) {
		n = len(m.queue)
	}
	var told []notice
	seen := make(map[*memShard]int)
	for _, sh := range m.queue[:n] {
		sh.durable++
		at, ok := seen[sh]
		if !ok {
			at = len(told)
			seen[sh] = at
			told = append(told, notice{shard: sh, epoch: sh.epoch})
		}
		told[at].upto = sh.entries[sh.durable-1].Seq
	}
	m.queue = append([]*memShard(nil), m.queue[n:]...)
	m.mu.Unlock()
	for _, t := range told {
		t.shard.tell(t)
	}
	return n
}

// Queued is the number of entries appended and not yet durable.
func (m *Mem) Queued() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.queue)
}

// Entries returns the log of a shard: all entries, and how many of them are
// durable. The bodies are shared and must not be changed.
func (m *Mem) Entries(s engine.ShardID) (all []engine.Entry, durable int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sh := m.shards[s]
	return append([]engine.Entry(nil), sh.entries...), sh.durable
}

// Fail plays a failed write: from now on nothing becomes durable, nobody is told
// of a commit, Append answers ErrStopped. The queued entries may or may not be
// there after Crash.
func (m *Mem) Fail(err error) {
	m.halt(fmt.Errorf("%w: %w", engine.ErrStopped, err))
	if m.cfg.OnFatal != nil {
		m.cfg.OnFatal(err)
	}
}

// Crash plays kill -9 and a new start: this engine falls silent, and the returned
// one has the durable entries, the first keep of the queued ones (those whose
// write had finished unacknowledged) and the published snapshots. Open its shards
// and Start it; its epochs are higher.
func (m *Mem) Crash(keep int) *Mem {
	m.halt(fmt.Errorf("%w: crashed", engine.ErrStopped))
	<-m.done
	m.mu.Lock()
	defer m.mu.Unlock()
	next := NewMem(m.cfg)
	next.epoch = m.epoch
	if keep > len(m.queue) {
		keep = len(m.queue)
	}
	kept := make(map[*memShard]int)
	for _, sh := range m.queue[:keep] {
		kept[sh]++
	}
	for i, sh := range m.shards {
		n := sh.durable + kept[sh]
		next.shards[i].entries = append([]engine.Entry(nil), sh.entries[:n]...)
		next.shards[i].durable = n
		next.shards[i].snap = sh.snap
	}
	return next
}

// halt ends all commits: the first error stays.
func (m *Mem) halt(err error) {
	m.mu.Lock()
	if m.stopped == nil {
		m.stopped = err
	}
	if !m.started {
		m.started = true
		close(m.done)
	}
	for _, sh := range m.shards {
		sh.wakeWaiters()
	}
	m.mu.Unlock()
	m.quitOnce.Do(func() { close(m.quit) })
}

// Shards is the number of shards.
func (m *Mem) Shards() int { return m.cfg.Shards }

// Watch calls f for every shard that is owned and at each change. After the loss
// of a shard the owner is empty.
func (m *Mem) Watch(f func(s engine.ShardID, owner engine.NodeID, ep engine.Epoch)) {
	m.mu.Lock()
	m.watchers = append(m.watchers, f)
	var known []notice
	for _, sh := range m.shards {
		if sh.epoch != 0 {
			known = append(known, notice{shard: sh, epoch: sh.epoch})
		}
	}
	m.mu.Unlock()
	for _, k := range known {
		f(k.shard.id, m.cfg.Node, k.epoch)
	}
}

func (m *Mem) announce(s engine.ShardID, owner engine.NodeID, ep engine.Epoch) {
	m.mu.Lock()
	watchers := append([]func(engine.ShardID, engine.NodeID, engine.Epoch){}, m.watchers...)
	m.mu.Unlock()
	for _, f := range watchers {
		f(s, owner, ep)
	}
}

// Transfer answers ErrSingleNode.
func (m *Mem) Transfer(context.Context, engine.ShardID, engine.NodeID) error {
	return engine.ErrSingleNode
}

// Members is this node alone.
func (m *Mem) Members() []engine.Member {
	return []engine.Member{{ID: m.cfg.Node, Voter: true}}
}

// Add answers ErrSingleNode.
func (m *Mem) Add(context.Context, engine.Member) error { return engine.ErrSingleNode }

// Remove answers ErrSingleNode.
func (m *Mem) Remove(context.Context, engine.NodeID) error { return engine.ErrSingleNode }

// Close takes no more appends, commits what is queued (in Manual mode too), tells
// the machines and ends the goroutine of Auto mode. A second call does nothing.
func (m *Mem) Close(ctx context.Context) error {
	closed := fmt.Errorf("%w: closed", engine.ErrStopped)
	m.mu.Lock()
	m.closing = closed
	started := m.started
	m.mu.Unlock()
	m.quitOnce.Do(func() { close(m.quit) })
	if started {
		select {
		case <-m.done:
		case <-ctx.Done():
			return fmt.Errorf("close: %w", ctx.Err())
		}
		m.CommitAll()
	}
	m.halt(closed)
	return nil
}
