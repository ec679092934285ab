package persistence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

// Local is the engine of a node that stands alone: it owns all shards, which share
// one journal and one stream of fsyncs. The epoch of every shard is the boot
// counter of the data directory.
//
// The journal holds all shards mixed, so they are rebuilt together:
//
//	l, err := Open(cfg)          // lock, manifest
//	log, err := l.Open(s, m)     // for each shard: registers it
//	err = l.Start(ctx)           // scan, repair, replay, promote 0, AfterFirst, promote the rest
//	...
//	err = l.Close(ctx)
//
// A log answers ErrNotOwner until its shard is promoted. Machine.Apply and Restore
// run on one goroutine for each shard during Start; Machine.Committed is called
// from the committing goroutine, so it must not block.
type Local struct {
	cfg    Config
	lock   io.Closer
	shards []*shard

	// journal is set by Start, before the first promotion, with mu held: who may
	// come before that reads it with mu held, too.
	journal *journal
	watch   *watchdog

	// snapping holds one value while a snapshot is taken: one at a time.
	snapping chan struct{}
	// due has room for one: "snapshots are due".
	due chan struct{}
	// stop ends the background goroutine, which closes idle when it leaves.
	stop context.CancelFunc
	idle chan struct{}

	// acks has one element for each shard, live those of the commit at hand; both
	// are the committing goroutine's.
	acks []ack
	live []*ack

	// man is the manifest as it is on disk, replaced as a whole: by Start, then by
	// whoever holds snapping.
	man atomic.Pointer[manifest]
	// dueAt is the number of bytes written by this life at which snapshots are due.
	dueAt atomic.Int64
	// roundFrom is the number of bytes written by this life when the last round of
	// snapshots began, -1 while one is owed for what was replayed. It is set by Start,
	// then the background goroutine's.
	roundFrom int64

	mu       sync.Mutex // guards what follows
	state    state
	watchers []func(engine.ShardID, engine.NodeID, engine.Epoch)
	recovery Recovery
	// space is the last answer of FS.Free, and when it was given.
	space   uint64
	spaceAt time.Time
	// spaceWritten is what the journal had written then.
	spaceWritten int64
}

// state is where a Local is in its life.
type state uint8

const (
	opened state = iota
	starting
	serving
	shut
)

// ack is what one commit means for one shard.
type ack struct {
	shard *shard
	upto  engine.Seq // 0: the shard has no entry in the commit
	wall  int64
}

var _ engine.Engine = (*Local)(nil)

// Open takes the lock of a data directory and reads its manifest, or makes both.
// Errors: ErrLocked, ErrNoManifest, *MismatchError, *DamageError, ErrNewerFormat.
func Open(cfg Config) (*Local, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	l := &Local{
		cfg:      cfg,
		snapping: make(chan struct{}, 1),
		due:      make(chan struct{}, 1),
		idle:     make(chan struct{}),
	}
	l.watch = &watchdog{
		stallAfter: cfg.StallAfter, fatalAfter: cfg.FatalAfter,
		stall: l.stalled, fatal: func(err error) { l.journal.fail(err) },
	}
	l.shards = make([]*shard, cfg.Shards)
	l.acks = make([]ack, cfg.Shards)
	for i := range l.shards {
		l.shards[i] = &shard{local: l, id: engine.ShardID(i)}
		l.acks[i].shard = l.shards[i]
	}
	if err := l.openDir(); err != nil {
		return nil, fmt.Errorf("open %s: %w", cfg.Dir, err)
	}
	return l, nil
}

// openDir takes the lock and reads the manifest.
func (l *Local) openDir() error {
	fs, dir := l.cfg.FS, l.cfg.Dir
	if err := fs.MkdirAll(dir); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	lock, err := lockDir(fs, dir)
	if err != nil {
		return err
	}
	l.lock = lock
	man, err := loadManifest(fs, dir, l.cfg.manifest())
	for _, sub := range []string{journalDir, snapshotDir} {
		if err == nil {
			err = fs.MkdirAll(filepath.Join(dir, sub))
		}
	}
	// The directory's own name, and those of the two in it.
	for _, name := range []string{filepath.Dir(dir), dir} {
		if err == nil {
			err = fs.SyncDir(name)
		}
	}
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	l.man.Store(man)
	return nil
}

// Open registers the machine of a shard, before Start. Each shard is opened once.
func (l *Local) Open(s engine.ShardID, m engine.Machine) (engine.Log, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if int(s) >= len(l.shards) {
		return nil, fmt.Errorf("open shard %d of %d: no such shard", s, len(l.shards))
	}
	sh := l.shards[s]
	if l.state != opened || sh.machine != nil {
		return nil, fmt.Errorf("open shard %d: opened before, or after Start", s)
	}
	sh.machine = m
	return sh, nil
}

// Start rebuilds all shards, begins a new life in the journal, promotes shard 0,
// calls AfterFirst and promotes the others. Every shard must have been opened.
// After an error only Close can be called. Errors: *DamageError, ErrNewerFormat,
// those of the machines, of AfterFirst and of the disk.
func (l *Local) Start(ctx context.Context) error {
	if err := l.enter(starting); err != nil {
		return err
	}
	tips, err := l.recover(ctx)
	if err != nil {
		return fmt.Errorf("recover %s: %w", l.cfg.Dir, err)
	}
	ep := engine.Epoch(l.man.Load().Boot)
	for i, sh := range l.shards {
		if err := sh.promote(ctx, ep, tips[i]); err != nil {
			return fmt.Errorf("promote: %w", err)
		}
		l.announce(sh.id, ep)
		if i == 0 {
			if err := l.cfg.AfterFirst(ctx); err != nil {
				return fmt.Errorf("after shard 0: %w", err)
			}
		}
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.mu.Lock()
	l.state, l.stop = serving, stop
	l.mu.Unlock()
	go l.snapshotWhenDue(background)
	return nil
}

// enter moves to Start.
func (l *Local) enter(next state) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != opened {
		return errors.New("start: started or closed before")
	}
	for _, sh := range l.shards {
		if sh.machine == nil {
			return fmt.Errorf("start: shard %d isn't opened", sh.id)
		}
	}
	l.state = next
	return nil
}

// committed runs on the committing goroutine: it tells each shard of a commit
// once, however many entries it has in it.
func (l *Local) committed(c commit) {
	for i := range c.items {
		it := &c.items[i]
		if it.kind != kindEntry {
			continue
		}
		a := &l.acks[it.shard]
		if a.upto == 0 {
			l.live = append(l.live, a)
		}
		a.upto, a.wall = it.seq, it.wall
	}
	for _, a := range l.live {
		upto := a.upto
		a.upto = 0
		a.shard.acknowledge(upto, a.wall)
	}
	l.live = l.live[:0]
	l.checkDue()
}

func (l *Local) stalled(age time.Duration) {
	l.cfg.Metrics.Stall(age)
	if age > 0 {
		l.cfg.OnStall(age)
	}
}

// Recovery describes the recovery of this life; zero before Start has ended.
func (l *Local) Recovery() Recovery {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.recovery
}

// Yield lets the commit under way end first, if there is one or one waits. Whoever
// else writes much to the same disk calls it between two syncs, so that a commit
// never queues behind more than one of those. It may be called at any time, from any
// goroutine, and never waits when the journal is idle, stopped or closed.
func (l *Local) Yield() {
	l.mu.Lock()
	j := l.journal
	l.mu.Unlock()
	if j != nil {
		j.yield()
	}
}

// Sync returns when everything that was acknowledged before the call is on disk: at once
// with FsyncAlways, behind an fsync with FsyncEvery. What is made durable elsewhere on the
// strength of an acknowledgement waits for it first. It is called between Start and Close.
func (l *Local) Sync(ctx context.Context) error { return l.journal.flush(ctx) }

// Directory is the random name that the data directory got when it was made: what stands
// beside the journal can be tied to it. Empty in a directory of an earlier build.
func (l *Local) Directory() string { return l.man.Load().Directory }

// Shards is the number of shards.
func (l *Local) Shards() int { return len(l.shards) }

// Watch calls f for every shard that is owned by now, and at each promotion.
func (l *Local) Watch(f func(s engine.ShardID, owner engine.NodeID, ep engine.Epoch)) {
	l.mu.Lock()
	l.watchers = append(l.watchers, f)
	l.mu.Unlock()
	for _, sh := range l.shards {
		if owner, ep, ok := sh.Owner(); ok {
			f(sh.id, owner, ep)
		}
	}
}

func (l *Local) announce(s engine.ShardID, ep engine.Epoch) {
	l.mu.Lock()
	watchers := append([]func(engine.ShardID, engine.NodeID, engine.Epoch){}, l.watchers...)
	l.mu.Unlock()
	for _, f := range watchers {
		f(s, l.cfg.Node, ep)
	}
}

// Transfer answers ErrSingleNode.
func (l *Local) Transfer(context.Context, engine.ShardID, engine.NodeID) error {
	return engine.ErrSingleNode
}

// Members is this node alone.
func (l *Local) Members() []engine.Member { return []engine.Member{{ID: l.cfg.Node, Voter: true}} }

// Add answers ErrSingleNode.
func (l *Local) Add(context.Context, engine.Member) error { return engine.ErrSingleNode }

// Remove answers ErrSingleNode.
func (l *Local) Remove(context.Context, engine.NodeID) error { return engine.ErrSingleNode }

// closeTimeout bounds what a Close does beside its snapshots.
const closeTimeout = 10 * time.Second

// Close takes no more appends, makes the last ones durable, takes snapshots if the
// configuration says so, and gives the directory back. It may be called in every
// state, but not while Start runs; a second call does nothing. Its error is the
// failure that stopped the journal, if there was one, or what went wrong while
// closing. A snapshot that can't be taken is logged and costs the next start a longer
// replay, no more. When ctx ends first the snapshots are left out, and if even the journal
// hangs, the lock is kept until the process ends.
func (l *Local) Close(ctx context.Context) error {
	l.mu.Lock()
	before, stop := l.state, l.stop
	l.state = shut
	l.mu.Unlock()
	if before == shut {
		return nil
	}
	for _, sh := range l.shards {
		sh.shut()
	}
	// ctx bounds the snapshots, which can be large. The rest is quick unless the disk
	// hangs, and is done in any case: else the lock would outlive its use.
	var err error
	if before == serving {
		stop()
		select {
		case <-l.idle:
		case <-time.After(closeTimeout):
			return fmt.Errorf("a snapshot under way does not end within %s", closeTimeout)
		}
		if l.cfg.OnClose == CloseWithSnapshots && l.journal.err() == nil {
			if serr := l.snapshotChanged(ctx); serr != nil {
				l.cfg.Logger.Warn("closed without a snapshot: the next start replays more", "err", serr)
			}
		}
	}
	if l.journal == nil || !l.journal.started {
		// This life has written nothing that counts.
		return errors.Join(err, l.lock.Close())
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if cerr := l.closeJournal(last); cerr != nil {
		err = errors.Join(err, cerr)
		if last.Err() != nil {
			return err // a write still hangs: nobody else may open the directory
		}
	}
	return errors.Join(err, l.lock.Close())
}

// closeJournal waits for a snapshot under way, closes the journal and writes down
// how far it reaches.
func (l *Local) closeJournal(ctx context.Context) error {
	select {
	case l.snapping <- struct{}{}:
		defer func() { <-l.snapping }()
	case <-ctx.Done():
		return fmt.Errorf("wait for a snapshot: %w", ctx.Err())
	}
	if err := l.journal.close(ctx); err != nil {
		return err
	}
	return l.noteEnd(ackedSynced)
}

// noteEnd writes down how far the journal reaches, so that a loss is noticed, and what
// acknowledgements from now on are worth. Everything written is on disk when it is
// called.
func (l *Local) noteEnd(acked string) error {
	next := *l.man.Load()
	next.reach(l.journal.tail())
	next.Acked = acked
	return l.replaceManifest(&next)
}

// replaceManifest writes a manifest and then lets it count.
func (l *Local) replaceManifest(next *manifest) error {
	if err := next.write(l.cfg.FS, l.cfg.Dir); err != nil {
		return err
	}
	l.man.Store(next)
	return nil
}

// replaceOrStop is replaceManifest while the journal works. An error before the
// rename leaves the old manifest. One behind it leaves either of the two on disk: then
// the journal stops, as after any fsync that failed.
func (l *Local) replaceOrStop(next *manifest) error {
	err := l.replaceManifest(next)
	if err == nil {
		return nil
	}
	if have, rerr := readManifest(l.cfg.FS, l.cfg.Dir); rerr != nil || reflect.DeepEqual(have, next) {
		l.journal.fail(err)
	}
	return err
}
