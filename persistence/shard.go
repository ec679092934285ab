package persistence

import (
	"context"
	"fmt"
	"sync"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

// shard is one shard of a Local: its machine, and the log that the machine's host
// appends to.
//
// No two methods of the machine run at once, and the committing goroutine never
// waits for a machine that is busy with something else. So a Committed that comes
// during a Capture (or a Promote) is noted in pending and handed over by whoever
// ends the other call:
//
//	committer:  busy? ── no ──► Committed ─► leave
//	              └── yes ─► pending = upto
//	snapshot:   wait until not busy ─► Capture ─► leave ─► pending? ─► Committed
type shard struct {
	local   *Local
	id      engine.ShardID
	machine engine.Machine // set once by Open

	mu       sync.Mutex // guards what follows; never held while a machine is called
	epoch    engine.Epoch
	base     engine.Pos // position of the last entry before this epoch
	closed   bool       // no more appends
	appended engine.Seq // last entry that was taken
	acked    engine.Seq // last entry that is durable and out of the window
	told     engine.Seq // last entry that the machine knows to be durable
	wall     int64      // of the last durable entry
	busy     bool       // a method of the machine runs
	pending  engine.Seq // Committed that waits for the machine; 0: none
	changed  chan struct{}
}

var _ engine.Log = (*shard)(nil)

// Room is the number of entries that Append takes now.
func (s *shard) Room() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.room()
}

func (s *shard) room() int {
	if s.epoch == 0 || s.closed {
		return 0
	}
	return s.local.cfg.Window - int(s.appended-s.acked)
}

// Append hands one entry to the journal.
func (s *shard) Append(ep engine.Epoch, wall int64, body []byte) (engine.Seq, error) {
	if len(body) > engine.MaxEntryBytes {
		return 0, fmt.Errorf("append %d bytes to shard %d: %w", len(body), s.id, engine.ErrTooLarge)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return 0, fmt.Errorf("append to shard %d: %w: closed", s.id, engine.ErrStopped)
	case s.epoch == 0 || s.epoch != ep:
		return 0, engine.ErrNotOwner
	}
	if err := s.local.journal.err(); err != nil {
		return 0, err
	}
	if s.room() <= 0 {
		return 0, engine.ErrBusy
	}
	seq := s.appended + 1
	err := s.local.journal.enqueue(item{
		kind: kindEntry, shard: s.id, epoch: ep, seq: seq, wall: wall, body: body,
	})
	if err != nil {
		return 0, err
	}
	s.appended = seq
	return seq, nil
}

// acknowledge is told by the committing goroutine how far entries are durable.
func (s *shard) acknowledge(upto engine.Seq, wall int64) {
	s.mu.Lock()
	s.acked, s.wall = upto, wall
	s.pending = upto
	if s.busy {
		s.notify()
		s.mu.Unlock()
		return
	}
	s.busy = true
	s.leaveLocked()
}

// enter waits until no method of the machine runs and takes the turn.
func (s *shard) enter(ctx context.Context) error {
	s.mu.Lock()
	for s.busy {
		changed := s.waitChannel()
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("shard %d: wait for the machine: %w", s.id, ctx.Err())
		}
		s.mu.Lock()
	}
	s.busy = true
	s.mu.Unlock()
	return nil
}

// leave ends the turn, after handing over what came meanwhile.
func (s *shard) leave() {
	s.mu.Lock()
	s.leaveLocked()
}

// leaveLocked is leave with mu held; it gives mu back.
func (s *shard) leaveLocked() {
	for s.pending > s.told {
		upto, ep := s.pending, s.epoch
		s.mu.Unlock()
		s.machine.Committed(ep, upto)
		s.mu.Lock()
		s.told = upto
	}
	s.busy = false
	s.notify()
	s.mu.Unlock()
}

// waitChannel is closed at the next change; mu is held.
func (s *shard) waitChannel() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// notify wakes those who wait for a change; mu is held. Most commits have none.
func (s *shard) notify() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// ReadBarrier waits until everything appended before the call is durable and the
// machine has heard of it. With FsyncEvery durable means written, as for every
// acknowledgement. strict makes no difference: nobody else can own the shard.
func (s *shard) ReadBarrier(ctx context.Context, ep engine.Epoch, _ bool) error {
	s.mu.Lock()
	upto := s.appended
	s.mu.Unlock()
	return s.await(ctx, ep, func() bool { return s.told >= upto })
}

// await waits until reached says so; reached is called with mu held.
func (s *shard) await(ctx context.Context, ep engine.Epoch, reached func() bool) error {
	for {
		s.mu.Lock()
		if s.epoch == 0 || s.epoch != ep {
			s.mu.Unlock()
			return engine.ErrNotOwner
		}
		if reached() {
			s.mu.Unlock()
			return nil
		}
		changed := s.waitChannel()
		s.mu.Unlock()
		select {
		case <-changed:
		case <-s.local.journal.dead:
			return s.local.journal.err()
		case <-ctx.Done():
			return fmt.Errorf("shard %d: wait for a commit: %w", s.id, ctx.Err())
		}
	}
}

// Snapshot takes a snapshot of the shard, publishes it and deletes the journal's
// segments that no snapshot needs any more.
func (s *shard) Snapshot(ctx context.Context) error { return s.local.snapshot(ctx, s) }

// Owner is this node from the promotion on.
func (s *shard) Owner() (engine.NodeID, engine.Epoch, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch == 0 {
		return "", 0, false
	}
	return s.local.cfg.Node, s.epoch, true
}

// promote makes the shard owner; at and wall are those of the last entry.
func (s *shard) promote(ctx context.Context, ep engine.Epoch, end tip) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	s.epoch, s.base, s.wall = ep, end.pos, end.wall
	s.mu.Unlock()
	s.machine.Promote(ep, end.pos, end.wall)
	s.leave()
	return nil
}

// shut refuses further appends.
func (s *shard) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// tip is the last entry of a shard.
type tip struct {
	epoch engine.Epoch
	seq   engine.Seq
	pos   engine.Pos
	wall  int64
}
