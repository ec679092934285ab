package persistence

import (
	"context"
	"fmt"
	"sync"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

const (
	// replayBatch is the number of entries handed to a shard's goroutine at once.
	replayBatch = 256
	// replayAhead is the number of those batches that may wait for a shard. Since a
	// batch never outlives its segment in the scanner, it also bounds the number of
	// segments in memory: those of the slowest shard, and one being read.
	replayAhead = 2
)

// replay deals the entries of the journal out to the shards.
type replay struct {
	local   *Local
	shards  []*shardReplay
	items   itemDecoder
	back    restored
	covered uint64 // every shard's snapshot reaches this frame
	watch   *progress

	recovery      Recovery
	sinceSnapshot int64           // bytes of frames that no snapshot covers
	ctx           context.Context //nolint:containedctx // of run; the scanner's callbacks take none
}

// shardReplay is the replay of one shard. end, batch and the check of order are
// the scanning goroutine's, the machine is the shard's.
type shardReplay struct {
	shard *shard
	ref   *snapshotRef
	end   tip  // last entry dealt out, or covered by the snapshot
	dealt bool // an entry was dealt out
	batch []engine.Entry
	in    chan []engine.Entry
}

func newReplay(l *Local, back restored, watch *progress) *replay {
	rp := &replay{local: l, back: back, watch: watch}
	for i, sh := range l.shards {
		sr := &shardReplay{shard: sh, in: make(chan []engine.Entry, replayAhead)}
		index := uint64(0)
		if ref, ok := back.refs[sh.id]; ok {
			sr.ref = &ref
			sr.end = tip{epoch: ref.Epoch, seq: ref.Seq, pos: ref.Pos, wall: ref.Wall}
			index = ref.through()
			rp.recovery.FromSnapshot++
		}
		if i == 0 || index < rp.covered {
			rp.covered = index
		}
		rp.shards = append(rp.shards, sr)
	}
	return rp
}

// run replays the journal. The first error ends all.
func (rp *replay) run(ctx context.Context, dir string) (found, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	rp.ctx = ctx
	var wg sync.WaitGroup
	for _, sr := range rp.shards {
		wg.Go(func() {
			if err := sr.apply(ctx, rp); err != nil {
				cancel(err)
			}
		})
	}
	s := scanner{
		fs: rp.local.cfg.FS, dir: dir, bounds: rp.local.man.Load().bounds(),
		visit: rp.frame, segment: rp.segment,
	}
	fd, err := s.run()
	if err == nil {
		err = rp.dealAll()
	}
	if err != nil {
		cancel(err)
	}
	for _, sr := range rp.shards {
		close(sr.in)
	}
	wg.Wait()
	// A shard's error makes the scan end with "canceled": its cause is the news.
	if cause := context.Cause(ctx); cause != nil {
		return found{}, cause
	}
	return fd, err
}

// tips are the last entries of the shards, after run.
func (rp *replay) tips() []tip {
	var out []tip
	for _, sr := range rp.shards {
		out = append(out, sr.end)
	}
	return out
}

// segment ends the batches of the segment before, so that its memory can go.
func (rp *replay) segment(_ segment, at, of int) error {
	rp.watch.segments.Store(int64(at))
	rp.watch.ofSegments.Store(int64(of))
	return rp.dealAll()
}

// frame takes one checked frame.
func (rp *replay) frame(f frame) error {
	if f.index > rp.covered {
		rp.sinceSnapshot += int64(len(f.body))
	}
	return rp.items.each(f, rp.item)
}

// item deals out one entry. Within an epoch entries are numbered without a gap,
// and an epoch begins with 1: anything else is damage that no checksum shows, like
// a file of another journal.
func (rp *replay) item(it item) error {
	if it.kind != kindEntry {
		return nil
	}
	if int(it.shard) >= len(rp.shards) {
		return fmt.Errorf("%w: shard %d of %d", errItem, it.shard, len(rp.shards))
	}
	sr := rp.shards[it.shard]
	e := sr.end
	switch {
	case it.epoch == e.epoch && it.seq == e.seq+1:
	case it.epoch > e.epoch && it.seq == 1:
	case !sr.dealt && sr.ref != nil && (it.epoch < e.epoch || it.epoch == e.epoch && it.seq <= e.seq):
		return nil // inside the snapshot
	default:
		return fmt.Errorf("%w: shard %d entry %d of epoch %d behind entry %d of epoch %d",
			errItem, it.shard, it.seq, it.epoch, e.seq, e.epoch)
	}
	sr.dealt = true
	sr.end = tip{epoch: it.epoch, seq: it.seq, pos: e.pos + 1, wall: it.wall}
	sr.batch = append(sr.batch, engine.Entry{
		Pos: sr.end.pos, Epoch: it.epoch, Seq: it.seq, Wall: it.wall, Body: it.body,
	})
	rp.recovery.Entries++
	rp.recovery.Bytes += int64(len(it.body))
	if len(sr.batch) < replayBatch {
		return nil
	}
	return rp.deal(sr)
}

func (rp *replay) dealAll() error {
	for _, sr := range rp.shards {
		if err := rp.deal(sr); err != nil {
			return err
		}
	}
	return nil
}

// deal hands the batch to the shard's goroutine.
func (rp *replay) deal(sr *shardReplay) error {
	if len(sr.batch) == 0 {
		return nil
	}
	select {
	case sr.in <- sr.batch:
		sr.batch = make([]engine.Entry, 0, replayBatch)
		return nil
	case <-rp.ctx.Done():
		return context.Cause(rp.ctx)
	}
}

// apply is the shard's goroutine: it applies the entries, and leaves when in is closed
// or something went wrong.
func (sr *shardReplay) apply(ctx context.Context, rp *replay) error {
	for {
		select {
		case batch, more := <-sr.in:
			if !more {
				return nil
			}
			for _, e := range batch {
				if err := sr.shard.machine.Apply(e); err != nil {
					return fmt.Errorf("apply shard %d entry %d: %w", sr.shard.id, e.Pos, err)
				}
				rp.watch.entries.Add(1)
				rp.watch.bytes.Add(int64(len(e.Body)))
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
