package persistence

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
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
	// FromSnapshot is the number of shards that began with a snapshot, Damaged that of
	// the snapshots that were passed over because they couldn't be used.
	FromSnapshot, Damaged int
	// MayHaveLost says that acknowledged entries may be missing: an earlier life
	// acknowledged before fsync (FsyncEvery) and wasn't closed, and the machine has been
	// restarted since, or that can't be known, or the tail was torn. What those entries
	// granted may still be used by others, so the host waits until it has run out and
	// then calls Local.SettleLoss (rule R18).
	MayHaveLost bool
	// Boot is the number of this life: the epoch of every shard.
	Boot uint64
}

// recover rebuilds the machines and begins a new life:
//
//	restore the newest whole snapshot of each shard, many shards at once
//	scan the journal: one goroutine checks every frame and deals the entries out,
//	  one goroutine for each shard applies them, in order
//	note a possible loss; remove leftovers, repair the journal on disk
//	raise the boot counter, durably
//	open the append side; first frame of the life, durably
//
// Until the boot counter is raised nothing has changed that a second recovery
// would see, but for the torn tail.
func (l *Local) recover(ctx context.Context) ([]tip, error) {
	begin := time.Now()
	dir := filepath.Join(l.cfg.Dir, journalDir)
	rp, fd, err := l.rebuild(ctx, dir)
	if err != nil {
		return nil, err
	}
	if len(fd.torn) > 0 {
		l.cfg.Logger.Warn("journal has a torn tail: it is cut off, a copy is kept",
			"bytes", len(fd.torn), "behind_frame", fd.last, "copy_in", filepath.Join(l.cfg.Dir, droppedDir))
	}
	if err := l.noteLoss(fd); err != nil {
		return nil, err
	}
	// Leftovers first: they may be what has filled the disk.
	if err := errors.Join(l.removeStraySnapshots(), removeUnfinished(l.cfg.FS, dir)); err != nil {
		return nil, err
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
	rec.Damaged = len(rp.back.damaged)
	if err := l.beginLife(dir, fd, rp.back, &rec); err != nil {
		return nil, err
	}
	// Entries that no snapshot has make the first round due by age; a life that only
	// began doesn't.
	l.roundFrom = l.journal.written.Load()
	if rec.Entries > 0 {
		l.roundFrom = -1
	}
	rec.Seconds = time.Since(begin).Seconds()
	l.mu.Lock()
	l.recovery = rec
	l.mu.Unlock()
	return rp.tips(), nil
}

// rebuild gives the machines their snapshots and the journal behind those. It changes
// nothing on disk: with a manifest in the wrong place everything looks like a leftover,
// and a start that is refused must leave a directory that can still be put right.
func (l *Local) rebuild(ctx context.Context, dir string) (*replay, found, error) {
	if err := refuseTruncation(l.cfg.FS, dir); err != nil {
		return nil, found{}, err
	}
	watch := new(progress)
	stop := watch.start(l.cfg.Progress)
	defer stop()
	back, err := l.restoreAll(ctx, watch)
	if err != nil {
		return nil, found{}, err
	}
	rp := newReplay(l, back, watch)
	fd, err := rp.run(ctx, dir)
	if err != nil {
		return nil, found{}, err
	}
	for _, ref := range back.refs {
		if ref.through() > fd.last {
			return nil, found{}, &DamageError{
				File: dir, Offset: 0,
				Expected: fmt.Sprintf("a journal up to frame %d, which a snapshot of shard %d has seen", ref.through(), ref.Shard),
				Found:    fmt.Sprintf("its end behind frame %d", fd.last),
			}
		}
	}
	return rp, fd, nil
}

// beginLife raises the boot counter and writes the first frame of the life.
func (l *Local) beginLife(dir string, fd found, back restored, rec *Recovery) error {
	raised := l.man.Load().without(back.damaged)
	raised.Boot++
	raised.Durable = fd.last
	raised.Mark = &mark{Frame: fd.last, Next: fd.next}
	if fd.next == 0 {
		fd.next, raised.Mark = firstItem(), nil
	}
	// What was found is on disk by now, so only the new life's own way counts from here
	// on, but for a loss, which is noted already.
	raised.BootID, raised.Acked = l.cfg.BootID(), ackedSynced
	if l.cfg.Fsync.lazy() {
		raised.Acked = ackedWritten
	}
	if err := l.replaceManifest(&raised); err != nil {
		return err
	}
	rec.Boot, rec.MayHaveLost = raised.Boot, raised.Lost
	app, err := l.cfg.open(appenderConfig{
		dir: dir, segmentBytes: l.cfg.SegmentBytes, lazy: l.cfg.Fsync.lazy(), last: fd.last,
	})
	if err != nil {
		return err
	}
	j := newJournal(journalConfig{
		fs: l.cfg.FS, dir: dir, fsync: l.cfg.Fsync,
		epoch: raised.Boot, last: fd.last, next: fd.next,
		queue:     l.cfg.Shards * l.cfg.Window,
		committed: l.committed, fatal: l.cfg.OnFatal,
		watch: l.watch, metrics: l.cfg.Metrics,
	}, app)
	l.mu.Lock()
	l.journal = j
	l.mu.Unlock()
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
	return l.noteEnd(raised.Acked)
}

// firstItem draws the number of the first item of a journal. Numbers go on from frame
// to frame under the checksum, so a segment of another node's journal shows, although
// its frames may have the same indexes and epochs. It leaves room for as many items
// below 2^53, which every reader of JSON can tell apart.
func firstItem() uint64 { return 1 + rand.Uint64N(1<<52) }

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
