package persistence

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

// Recovery says what a start has found.
type Recovery struct {
	Entries int64 // entries that the machines were given, snapshots not counted
	Bytes   int64 // bytes of their bodies
	Frames  int64 // frames read, those behind snapshots too
	Seconds float64
	// Dropped is the number of bytes of a torn tail that were cut off; a copy is in
	// the data directory.
	Dropped int64
	// FromSnapshot is the number of shards that began with a snapshot.
	FromSnapshot int
	// Boot is the number of this life: the epoch of every shard.
	Boot uint64
}

// recover rebuilds the machines and begins a new life:
//
//	choose a whole snapshot of each shard
//	restore the shards ─┬─ scan the journal: one goroutine checks every frame and
//	                    │  deals the entries out
//	                    └─ one goroutine for each shard applies them, in order
//	repair the journal on disk
//	raise the boot counter, durably
//	open the append side; first frame of the life, durably
//
// Until the boot counter is raised nothing has changed that a second recovery
// would see, but for the torn tail.
func (l *Local) recover(ctx context.Context) ([]tip, error) {
	begin := time.Now()
	if err := l.removeStraySnapshots(); err != nil {
		return nil, err
	}
	refs, err := l.chooseSnapshots(ctx)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(l.cfg.Dir, journalDir)
	if err := finishTruncation(l.cfg.FS, dir, l.man.Load().MinIndex); err != nil {
		return nil, err
	}
	rp := newReplay(l, refs)
	stop := rp.watch.start(l.cfg.Progress)
	fd, err := rp.run(ctx, dir)
	stop()
	if err != nil {
		return nil, err
	}
	for _, ref := range refs {
		if ref.Index > fd.last {
			return nil, &DamageError{
				File: dir, Offset: 0,
				Expected: fmt.Sprintf("a journal up to frame %d, which a snapshot of shard %d has seen", ref.Index, ref.Shard),
				Found:    fmt.Sprintf("its end behind frame %d", fd.last),
			}
		}
	}
	if len(fd.torn) > 0 {
		l.cfg.Logger.Warn("journal has a torn tail: it is cut off, a copy is kept",
			"bytes", len(fd.torn), "behind_frame", fd.last, "copy_in", filepath.Join(l.cfg.Dir, droppedDir))
	}
	uncopied, err := repair(l.cfg.FS, l.cfg.Dir, dir, fd)
	if uncopied != nil {
		l.cfg.Logger.Error("the torn tail has no copy", "err", uncopied)
	}
	if err != nil {
		return nil, err
	}
	l.nextDue(-rp.sinceSnapshot)
	rec := rp.recovery
	rec.Frames, rec.Dropped = fd.frames, int64(len(fd.torn))
	if err := l.beginLife(dir, fd, &rec); err != nil {
		return nil, err
	}
	rec.Seconds = time.Since(begin).Seconds()
	l.mu.Lock()
	l.recovery = rec
	l.mu.Unlock()
	return rp.tips(), nil
}

// beginLife raises the boot counter and writes the first frame of the life.
func (l *Local) beginLife(dir string, fd found, rec *Recovery) error {
	raised := *l.man.Load()
	raised.Boot++
	raised.Durable = fd.last
	if err := l.replaceManifest(&raised); err != nil {
		return err
	}
	rec.Boot = raised.Boot
	app, err := l.cfg.open(appenderConfig{
		dir: dir, segmentBytes: l.cfg.SegmentBytes, lazy: l.cfg.Fsync.lazy(), last: fd.last,
	})
	if err != nil {
		return err
	}
	l.journal = newJournal(journalConfig{
		fs: l.cfg.FS, dir: dir, fsync: l.cfg.Fsync,
		epoch: raised.Boot, last: fd.last, next: max(fd.next, 1),
		queue:     l.cfg.Shards * l.cfg.Window,
		committed: l.committed, fatal: l.cfg.OnFatal,
		watch: l.watch, metrics: l.cfg.Metrics,
	}, app)
	now := time.Now().UnixNano()
	epoch := engine.Epoch(raised.Boot)
	err = l.journal.begin([]item{
		{kind: kindBoot, epoch: epoch, wall: now},
		{
			kind: kindRecovered, epoch: epoch, wall: now, seq: engine.Seq(rec.Entries),
			body: binary.LittleEndian.AppendUint64(nil, uint64(rec.Dropped)),
		},
	})
	if err != nil {
		return errors.Join(err, app.Close())
	}
	// From now on an empty journal directory is a loss, not a beginning.
	return l.noteEnd()
}

// removeStraySnapshots deletes what an interrupted snapshot has left: files that
// the manifest doesn't name.
func (l *Local) removeStraySnapshots() error {
	dir := filepath.Join(l.cfg.Dir, snapshotDir)
	infos, err := l.cfg.FS.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list snapshots: %w", err)
	}
	for _, info := range infos {
		ours := strings.HasSuffix(info.Name, snapshotSuffix) || strings.HasSuffix(info.Name, snapshotSuffix+tempSuffix)
		if !ours || l.man.Load().holds(info.Name) {
			continue
		}
		if err := l.cfg.FS.Remove(filepath.Join(dir, info.Name)); err != nil {
			return fmt.Errorf("remove stray snapshot: %w", err)
		}
	}
	return nil
}

// chooseSnapshots finds the newest whole snapshot of each shard that has any. A
// damaged one is passed over, loudly: the journal still reaches back to the one
// before it, and to its beginning while no shard has two.
func (l *Local) chooseSnapshots(ctx context.Context) (map[engine.ShardID]snapshotRef, error) {
	chosen := make([]*snapshotRef, len(l.shards))
	errs := make([]error, len(l.shards))
	var wg sync.WaitGroup
	for i := range l.shards {
		wg.Go(func() { chosen[i], errs[i] = l.chooseSnapshot(ctx, engine.ShardID(i)) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	out := make(map[engine.ShardID]snapshotRef)
	for i, ref := range chosen {
		if ref != nil {
			out[engine.ShardID(i)] = *ref
		}
	}
	return out, nil
}

// chooseSnapshot is the newest snapshot that is whole; nil when the shard has none and
// the journal reaches back to its beginning.
func (l *Local) chooseSnapshot(ctx context.Context, s engine.ShardID) (*snapshotRef, error) {
	dir := filepath.Join(l.cfg.Dir, snapshotDir)
	var last error
	for _, ref := range l.man.Load().of(s) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		err := verifySnapshot(l.cfg.FS, dir, ref)
		if err == nil {
			return &ref, nil
		}
		if errors.Is(err, ErrNewerFormat) {
			return nil, err
		}
		last = err
		l.cfg.Logger.Error("snapshot can't be used, going back to the one before it",
			"shard", s, "file", ref.fileName(), "error", err)
	}
	if last != nil && l.man.Load().MinIndex > 1 {
		return nil, fmt.Errorf("no snapshot of shard %d is whole, and the journal begins at frame %d: %w",
			s, l.man.Load().MinIndex, last)
	}
	return nil, nil
}
