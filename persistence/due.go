package persistence

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

// A round takes a snapshot of every shard that has changed, one after the other. It is
// due by size, when replaying the journal would take longer than reading the snapshots,
// and by age, so that a node with little work doesn't replay last month.
//
// A shard at rest, whose two snapshots both hold all that it ever appended, gets no new
// file: the manifest says instead how far in the journal the two are good. Else a round
// would write again what hasn't changed, or the segments behind the old snapshots could
// never go.

// nextDue sets when snapshots are due, counted from a number of bytes written by
// this life.
func (l *Local) nextDue(from int64) {
	if l.cfg.SnapshotAfter == NoSnapshots {
		l.dueAt.Store(math.MaxInt64)
		return
	}
	total, _ := l.man.Load().snapshotBytes()
	l.dueAt.Store(from + max(l.cfg.SnapshotAfter, total))
}

// checkDue wakes the background goroutine when the journal has grown enough. The
// committing goroutine calls it behind each commit, and the background goroutine
// behind each round: what grew meanwhile may have been the last for a long time.
func (l *Local) checkDue() {
	if l.journal.written.Load() < l.dueAt.Load() {
		return
	}
	l.dueAt.Store(math.MaxInt64) // until the round has ended
	select {
	case l.due <- struct{}{}:
	default:
	}
}

// snapshotWhenDue is the background goroutine. The age is looked at once in
// Config.SnapshotEvery, and never while nothing was appended.
func (l *Local) snapshotWhenDue(ctx context.Context) {
	defer close(l.idle)
	l.checkDue() // the journal that was replayed may be long
	var age *time.Ticker
	var aged <-chan time.Time
	if l.cfg.SnapshotEvery > 0 && l.cfg.SnapshotAfter != NoSnapshots {
		age = time.NewTicker(l.cfg.SnapshotEvery)
		defer age.Stop()
		aged = age.C
	}
	for {
		select {
		case <-l.due:
		case <-aged:
			if l.journal.written.Load() == l.roundFrom {
				continue
			}
		case <-ctx.Done():
			return
		}
		if age != nil {
			age.Reset(l.cfg.SnapshotEvery)
		}
		from := l.journal.written.Load()
		l.roundFrom = from
		if !l.round(ctx) {
			l.roundFrom = -1 // a round is owed, even if nothing is appended any more
		}
		select {
		case <-l.due: // by size, while the one by age began
		default:
		}
		l.nextDue(from)
		l.checkDue()
	}
}

// round takes the snapshots that are due and says whether all of it worked. What
// failed is tried again in the next round; until then the journal stays as it is.
func (l *Local) round(ctx context.Context) bool {
	done := true
	failed := func(what string, err error, about ...any) {
		done = false
		if ctx.Err() == nil {
			l.cfg.Logger.Error(what, append(about, "error", err)...)
		}
	}
	for _, s := range l.shards {
		if l.atRest(s) {
			continue
		}
		if err := l.snapshot(ctx, s); err != nil {
			failed("snapshot was not taken", err, "shard", s.id)
		}
	}
	// All of them at once, and as the last thing: then they reach as far as possible.
	if err := l.advanceAll(ctx); err != nil {
		failed("snapshots of shards at rest were not confirmed", err)
	}
	return done
}

// atRest says whether every snapshot that is kept of a shard holds all that the shard
// has appended.
func (l *Local) atRest(s *shard) bool {
	refs := l.man.Load().of(s.id)
	s.mu.Lock()
	at := s.base + engine.Pos(s.appended)
	s.mu.Unlock()
	for _, ref := range refs {
		if ref.Pos != at {
			return false
		}
	}
	return len(refs) == snapshotsKept
}

// advanceAll advances every shard at rest; one snapshot at a time.
func (l *Local) advanceAll(ctx context.Context) error {
	select {
	case l.snapping <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("advance snapshots: %w", ctx.Err())
	}
	defer func() { <-l.snapping }()
	return l.advance(ctx, l.shards...)
}

// advance says in the manifest how far the snapshots of those of the shards that are
// at rest are good, and deletes what no snapshot needs any more. The caller holds
// snapping.
//
// A crash before the new manifest leaves the old one, which claims less; behind it the
// next start deletes the segments.
func (l *Local) advance(ctx context.Context, shards ...*shard) error {
	// Read before the shards are asked: an entry in a frame up to here was appended
	// before, so a shard that is at rest afterwards has it in its snapshots.
	at := l.journal.tail()
	man := l.man.Load()
	rest := make(map[engine.ShardID]bool)
	for _, s := range shards {
		if l.atRest(s) && man.of(s.id)[snapshotsKept-1].through() < at.Frame {
			rest[s.id] = true
		}
	}
	if len(rest) == 0 {
		return nil
	}
	// The journal must be on disk before the manifest says so.
	if err := l.journal.flush(ctx); err != nil {
		return fmt.Errorf("advance snapshots: %w", err)
	}
	next := man.advanced(rest, at.Frame)
	next.reach(at)
	if err := l.replaceOrStop(&next); err != nil {
		return fmt.Errorf("advance snapshots: %w", err)
	}
	return l.journal.dropBelow(next.MinIndex)
}

// snapshotChanged takes a snapshot of every shard that has entries behind its
// newest one, and confirms those of the others, as the last thing of a life.
func (l *Local) snapshotChanged(ctx context.Context) error {
	var errs []error
	for _, s := range l.shards {
		newest := l.newest(s.id)
		s.mu.Lock()
		at := s.base + engine.Pos(s.appended)
		s.mu.Unlock()
		if newest.Pos == at {
			continue
		}
		if err := l.snapshot(ctx, s); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, l.advanceAll(ctx))...)
}
