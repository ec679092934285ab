package persistence

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"path/filepath"
	"time"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

// A snapshot is published in this order, and none of the steps may change places:
//
//	a  capture at a boundary; the journal is on disk up to frame Index by then
//	b  write the file under a temporary name, sync it
//	c  wait until the journal is on disk up to the boundary, then rename, sync the
//	   directory: a snapshot is never ahead of the journal
//	d  read the file again from its beginning
//	e  manifest: the new snapshot, and the lowest frame that is still needed
//	f  delete the snapshot that fell out, then the segments below that frame
//
// Until e a crash leaves a stray file, which the next start removes; from e on the
// new snapshot counts, and what f would have deleted is deleted by the next start.

// snapshot takes and publishes one snapshot; one at a time.
func (l *Local) snapshot(ctx context.Context, s *shard) error {
	if _, _, ok := s.Owner(); !ok {
		return fmt.Errorf("snapshot shard %d: %w", s.id, engine.ErrNotOwner)
	}
	select {
	case l.snapping <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("snapshot shard %d: %w", s.id, ctx.Err())
	}
	defer func() { <-l.snapping }()
	if err := l.journal.err(); err != nil {
		return fmt.Errorf("snapshot shard %d: %w", s.id, err)
	}
	begin := time.Now()
	if l.atRest(s) {
		return l.advance(ctx, s)
	}
	// Every entry of the shard in a frame up to here was appended before the
	// boundary, so it is inside, however late the capture is.
	index := l.journal.durable.Load()
	state, err := s.capture(ctx)
	if err != nil {
		return fmt.Errorf("capture shard %d: %w", s.id, err)
	}
	defer state.Release()
	ref, err := s.reference(state, index)
	if err != nil {
		return err
	}
	if l.newest(s.id).sameAs(ref) {
		return nil
	}
	if err := l.publish(ctx, s, &ref, state); err != nil {
		return fmt.Errorf("snapshot shard %d: %w", s.id, err)
	}
	l.cfg.Metrics.Snapshot(SnapshotStat{Shard: uint16(s.id), Bytes: ref.Bytes, Took: time.Since(begin)})
	return nil
}

// reference turns a boundary into a position.
func (s *shard) reference(state engine.Snapshot, index uint64) (snapshotRef, error) {
	epoch, seq := state.Boundary()
	s.mu.Lock()
	defer s.mu.Unlock()
	if epoch != s.epoch || seq > s.appended {
		return snapshotRef{}, fmt.Errorf("capture shard %d: boundary is entry %d of epoch %d, the last is %d of %d",
			s.id, seq, epoch, s.appended, s.epoch)
	}
	return snapshotRef{Shard: s.id, Epoch: epoch, Seq: seq, Pos: s.base + engine.Pos(seq), Index: index}, nil
}

// sameAs reports that a snapshot is of the same state and as good for truncation.
func (r snapshotRef) sameAs(o snapshotRef) bool {
	return r.Epoch == o.Epoch && r.Seq == o.Seq && r.Pos == o.Pos && r.Index == o.Index
}

// newest is the newest snapshot of a shard, zero when there is none.
func (l *Local) newest(s engine.ShardID) snapshotRef {
	for _, r := range l.man.Load().of(s) {
		return r
	}
	return snapshotRef{}
}

// captured is what a machine's Capture gave.
type captured struct {
	state engine.Snapshot
	err   error
}

// capture asks the machine for its state. The call runs on a goroutine of its own:
// it may wait for the shard, and this one calls Committed afterwards. If ctx ends
// first the late state is released when it comes.
func (s *shard) capture(ctx context.Context) (engine.Snapshot, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	got := make(chan captured, 1)
	go func() {
		state, err := s.machine.Capture()
		got <- captured{state, err}
	}()
	select {
	case c := <-got:
		s.leave()
		return c.state, c.err
	case <-ctx.Done():
		go func() {
			if c := <-got; c.err == nil {
				c.state.Release()
			}
			s.leave()
		}()
		return nil, ctx.Err()
	}
}

// publish does steps b to f and completes ref.
func (l *Local) publish(ctx context.Context, s *shard, ref *snapshotRef, state engine.Snapshot) error {
	fs, dir := l.cfg.FS, filepath.Join(l.cfg.Dir, snapshotDir)
	path := filepath.Join(dir, ref.fileName())
	err := l.writeSnapshot(ctx, s, ref, state)
	if err == nil {
		err = verifySnapshot(fs, dir, *ref)
	}
	if err != nil {
		l.removeFiles(path, path+tempSuffix)
		return err
	}
	// A place at or behind the snapshot's frame, on disk also in a lazy life.
	at := l.journal.tail()
	if err := l.journal.flush(ctx); err != nil {
		return err
	}
	dropped, err := l.adopt(*ref, at)
	if err != nil {
		return err
	}
	for _, old := range dropped {
		l.removeFiles(filepath.Join(dir, old.fileName()))
	}
	return l.journal.dropBelow(l.man.Load().MinIndex)
}

// writeSnapshot does steps b and c.
func (l *Local) writeSnapshot(ctx context.Context, s *shard, ref *snapshotRef, state engine.Snapshot) error {
	fs, dir := l.cfg.FS, filepath.Join(l.cfg.Dir, snapshotDir)
	temp, done, err := writeSnapshotFile(fs, dir, *ref, &capture{state: state, yield: func() error {
		l.journal.yield()
		return errors.Join(ctx.Err(), l.journal.err())
	}})
	if err != nil {
		return err
	}
	*ref = done
	if err := l.durableTo(ctx, s, ref); err != nil {
		return err
	}
	if err := fs.Rename(temp, filepath.Join(dir, ref.fileName())); err != nil {
		return fmt.Errorf("name snapshot: %w", err)
	}
	if err := fs.SyncDir(dir); err != nil {
		return fmt.Errorf("sync snapshot directory: %w", err)
	}
	return nil
}

// removeFiles deletes files that nothing refers to. One that can't be deleted is
// in nobody's way, and the next start tries again.
func (l *Local) removeFiles(names ...string) {
	for _, name := range names {
		err := l.cfg.FS.Remove(name)
		if err != nil && !errors.Is(err, iofs.ErrNotExist) {
			l.cfg.Logger.Warn("file that isn't needed any more could not be removed", "file", name, "error", err)
		}
	}
}

// durableTo waits until the boundary is on disk, not only acknowledged, and sets
// the wall. A later wall is right as well: it belongs to an entry that is in the
// journal, which a recovery replays.
func (l *Local) durableTo(ctx context.Context, s *shard, ref *snapshotRef) error {
	err := s.await(ctx, ref.Epoch, func() bool {
		ref.Wall = s.wall
		return s.acked >= ref.Seq
	})
	if err != nil {
		return err
	}
	return l.journal.flush(ctx)
}

// adopt names the snapshot in the manifest (step e), with a place in the journal that
// is on disk, and returns the snapshots that fell out of it.
//
// After an error that left the old manifest the new file is a stray one. After one
// that has stopped the journal either manifest may be on disk, and nothing is deleted
// that one of them names.
func (l *Local) adopt(ref snapshotRef, at mark) (dropped []snapshotRef, err error) {
	man := l.man.Load()
	next := man.with(ref)
	next.reach(at)
	if err := l.replaceOrStop(&next); err != nil {
		if l.journal.err() == nil {
			l.removeFiles(filepath.Join(l.cfg.Dir, snapshotDir, ref.fileName()))
		}
		return nil, err
	}
	for _, old := range man.of(ref.Shard) {
		if !next.holds(old.fileName()) {
			dropped = append(dropped, old)
		}
	}
	return dropped, nil
}
