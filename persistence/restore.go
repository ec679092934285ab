package persistence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

// restored is where the shards begin.
type restored struct {
	// refs are the snapshots that were restored; a shard without one begins with the
	// journal.
	refs map[engine.ShardID]snapshotRef
	// damaged are the names of the files that were passed over.
	damaged map[string]bool
}

// restoresMax bounds the snapshots that are read at once, each with two chunks in
// memory and an open file.
const restoresMax = 32

// restoreAll gives every shard its newest whole snapshot, many shards at once. Each
// file is read once: its checksums are compared while the machine reads it. The first
// error ends all.
func (l *Local) restoreAll(ctx context.Context, watch *progress) (restored, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	total, _ := l.man.Load().snapshotBytes()
	watch.ofRestored.Store(total)
	passed := make([]int, len(l.shards)) // of the shard's snapshots, the newest first
	var wg sync.WaitGroup
	turns := make(chan struct{}, restoresMax)
	for i, s := range l.shards {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			var err error
			if passed[i], err = l.restoreShard(ctx, s, watch); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return restored{}, err
	}
	out := restored{refs: make(map[engine.ShardID]snapshotRef), damaged: make(map[string]bool)}
	for i, n := range passed {
		refs := l.man.Load().of(engine.ShardID(i))
		for _, ref := range refs[:n] {
			out.damaged[ref.fileName()] = true
		}
		if n < len(refs) {
			out.refs[engine.ShardID(i)] = refs[n]
		}
	}
	return out, nil
}

// restoreShard restores the newest snapshot that is whole, and returns how many newer
// ones were passed over, loudly: the journal still reaches back to the one before, and
// to its beginning while no shard has two. If all are passed over the shard begins with
// the journal.
func (l *Local) restoreShard(ctx context.Context, s *shard, watch *progress) (passed int, err error) {
	var damage error
	spoiled := false
	for _, ref := range l.man.Load().of(s.id) {
		if passed > 0 {
			watch.ofRestored.Add(ref.Bytes)
		}
		r := &restoring{ctx: ctx, watch: watch}
		err := l.restoreFrom(s, ref, r)
		switch {
		case err == nil:
			return passed, nil
		case !r.damaged || ctx.Err() != nil || errors.Is(err, ErrNewerFormat):
			return 0, fmt.Errorf("restore shard %d from %s: %w", s.id, ref.fileName(), err)
		}
		passed++
		if !spoiled { // the one to name: while it is there, the journal can't replace it
			damage, spoiled = err, r.taken
		}
		l.cfg.Logger.Error("snapshot can't be used, going back to the one before it",
			"shard", s.id, "file", ref.fileName(), "error", err)
	}
	switch {
	case damage == nil:
		return 0, nil
	case l.man.Load().MinIndex > 1:
		return 0, fmt.Errorf("no snapshot of shard %d is whole, and the journal, from frame %d on, can't replace it: put back a backup: %w",
			s.id, l.man.Load().MinIndex, damage)
	case spoiled:
		// There is no snapshot left that would replace what the machine has taken.
		return 0, fmt.Errorf("no snapshot of shard %d is whole; with the damaged file moved away the whole journal replaces it: %w", s.id, damage)
	}
	return passed, nil
}

// restoring is what is known of the reading of one snapshot.
type restoring struct {
	ctx   context.Context //nolint:containedctx // of one restore; readers take none
	watch *progress
	// damaged: the file couldn't be read, or its bytes are wrong. Else a failed
	// restore means that the machine didn't understand a whole file.
	damaged bool
	// taken: the machine said that it has the state.
	taken bool
}

// restoreFrom hands one snapshot to the machine. The reader gives nothing out before
// it has seen that what follows is whole, so a machine that has got the last byte has
// got all of a whole file. A machine that stopped before is not asked why: if the file
// is damaged anywhere, that is the reason.
//
// A whole file that the machine can't decode was written by another build. Going back
// to an older one could work and would hide that, so it is an error.
func (l *Local) restoreFrom(s *shard, ref snapshotRef, r *restoring) error {
	r.damaged = true
	return readSnapshot(l.cfg.FS, filepath.Join(l.cfg.Dir, snapshotDir), ref, func(file io.Reader) error {
		checked := &restoreReader{file: file, restoring: r}
		refused := s.machine.Restore(checked, ref.Pos)
		r.taken = refused == nil
		if _, err := io.Copy(io.Discard, checked); err != nil {
			return err
		}
		r.damaged = false
		return refused
	})
}

// restoreReader counts what is read, and ends early when the recovery does.
type restoreReader struct {
	file io.Reader
	*restoring
}

func (r *restoreReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.file.Read(p)
	r.watch.restored.Add(int64(n))
	return n, err
}
