package enginetest

import (
	"bytes"
	"context"
	"fmt"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

// memShard is one shard of a Mem and its log. Its fields are guarded by the
// engine's mu but for those that say otherwise.
type memShard struct {
	mem     *Mem
	id      engine.ShardID
	machine engine.Machine // set once by Open

	// turn holds one value while a method of the machine runs: never two at once.
	turn chan struct{}

	entries []engine.Entry // the whole log; entry i has position i+1
	durable int            // so many of them are durable
	epoch   engine.Epoch   // 0: not owner
	base    int            // number of entries before the epoch began
	acked   int            // so many entries are out of the window: replayed, or about to be told
	told    int            // so many entries the machine has heard of: replayed, or Committed
	snap    *memSnapshot   // newest published snapshot

	// changed is closed and made new when told or epoch changes.
	changed chan struct{}
}

// memSnapshot is a published snapshot.
type memSnapshot struct {
	pos  engine.Pos
	data []byte
}

// notice is a Committed that is on its way.
type notice struct {
	shard *memShard
	epoch engine.Epoch
	upto  engine.Seq
}

var _ engine.Log = (*memShard)(nil)

func newMemShard(m *Mem, id engine.ShardID) *memShard {
	return &memShard{mem: m, id: id, turn: make(chan struct{}, 1), changed: make(chan struct{})}
}

// wakeWaiters tells all who wait that something has changed; mu is held.
func (sh *memShard) wakeWaiters() {
	close(sh.changed)
	sh.changed = make(chan struct{})
}

// enter waits for the machine's turn.
func (sh *memShard) enter(ctx context.Context) error {
	select {
	case sh.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("shard %d: wait for the machine: %w", sh.id, ctx.Err())
	}
}

func (sh *memShard) leave() { <-sh.turn }

// tell hands one Committed over, unless its epoch has ended meanwhile. The room
// grows before the machine hears of it.
func (sh *memShard) tell(n notice) {
	sh.turn <- struct{}{}
	defer sh.leave()
	sh.mem.mu.Lock()
	upto := sh.base + int(n.upto)
	if sh.epoch != n.epoch || sh.acked >= upto || sh.mem.stopped != nil {
		sh.mem.mu.Unlock()
		return
	}
	sh.acked = upto
	sh.mem.mu.Unlock()
	sh.machine.Committed(n.epoch, n.upto)
	sh.mem.mu.Lock()
	sh.told = upto
	sh.wakeWaiters()
	sh.mem.mu.Unlock()
}

// rebuild gives the machine the snapshot and every durable entry after it.
func (sh *memShard) rebuild(ctx context.Context) error {
	if err := sh.enter(ctx); err != nil {
		return err
	}
	defer sh.leave()
	sh.mem.mu.Lock()
	snap, entries := sh.snap, append([]engine.Entry(nil), sh.entries[:sh.durable]...)
	sh.mem.mu.Unlock()
	from := 0
	if snap != nil {
		from = int(snap.pos)
		if err := sh.machine.Restore(bytes.NewReader(snap.data), snap.pos); err != nil {
			return fmt.Errorf("restore shard %d at %d: %w", sh.id, snap.pos, err)
		}
	}
	for _, e := range entries[from:] {
		// The host must not keep a body that it got from Apply: give it a copy and
		// spoil it afterwards, so that a host that does is found out.
		e.Body = bytes.Clone(e.Body)
		if err := sh.machine.Apply(e); err != nil {
			return fmt.Errorf("apply shard %d entry %d: %w", sh.id, e.Pos, err)
		}
		for i := range e.Body {
			e.Body[i] = 0xA5
		}
	}
	return nil
}

// promote makes the shard owner of everything that is durable.
func (sh *memShard) promote(ctx context.Context, ep engine.Epoch) error {
	if err := sh.enter(ctx); err != nil {
		return err
	}
	defer sh.leave()
	sh.mem.mu.Lock()
	sh.epoch, sh.base, sh.acked, sh.told = ep, sh.durable, sh.durable, sh.durable
	at, wall := engine.Pos(sh.durable), int64(0)
	if sh.durable > 0 {
		wall = sh.entries[sh.durable-1].Wall
	}
	sh.wakeWaiters()
	sh.mem.mu.Unlock()
	sh.machine.Promote(ep, at, wall)
	sh.mem.announce(sh.id, sh.mem.cfg.Node, ep)
	return nil
}

// demote ends ownership. Of the entries that are not durable the first keep
// become so without anybody being told; the others are lost.
func (sh *memShard) demote(ctx context.Context, keep int, reason error) error {
	if err := sh.enter(ctx); err != nil {
		return err
	}
	defer sh.leave()
	m := sh.mem
	m.mu.Lock()
	ep := sh.epoch
	if ep == 0 {
		m.mu.Unlock()
		return nil
	}
	var rest []*memShard
	for _, q := range m.queue {
		if q != sh {
			rest = append(rest, q)
		}
	}
	m.queue = rest
	sh.durable = min(sh.durable+keep, len(sh.entries))
	sh.entries = sh.entries[:sh.durable:sh.durable]
	sh.epoch = 0
	sh.wakeWaiters()
	m.mu.Unlock()
	sh.machine.Demote(ep, reason)
	m.announce(sh.id, "", 0)
	return nil
}

// Room is the number of entries that Append takes now.
func (sh *memShard) Room() int {
	sh.mem.mu.Lock()
	defer sh.mem.mu.Unlock()
	return sh.room()
}

func (sh *memShard) room() int {
	if sh.epoch == 0 {
		return 0
	}
	return sh.mem.cfg.Window - (len(sh.entries) - sh.acked)
}

// Append queues one entry.
func (sh *memShard) Append(ep engine.Epoch, wall int64, body []byte) (engine.Seq, error) {
	if len(body) > engine.MaxEntryBytes {
		return 0, fmt.Errorf("append %d bytes to shard %d: %w", len(body), sh.id, engine.ErrTooLarge)
	}
	m := sh.mem
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped != nil {
		return 0, m.stopped
	}
	if m.closing != nil {
		return 0, m.closing
	}
	if sh.epoch == 0 || sh.epoch != ep {
		return 0, engine.ErrNotOwner
	}
	if sh.room() <= 0 {
		return 0, engine.ErrBusy
	}
	seq := engine.Seq(len(sh.entries) - sh.base + 1)
	sh.entries = append(sh.entries, engine.Entry{
		Pos: engine.Pos(len(sh.entries) + 1), Epoch: ep, Seq: seq, Wall: wall, Body: body,
	})
	m.queue = append(m.queue, sh)
	select {
	case m.wake <- struct{}{}:
	default:
	}
	return seq, nil
}

// ReadBarrier waits until all that is appended now is durable and the machine has
// heard of it.
func (sh *memShard) ReadBarrier(ctx context.Context, ep engine.Epoch, _ bool) error {
	sh.mem.mu.Lock()
	upto := len(sh.entries)
	sh.mem.mu.Unlock()
	return sh.await(ctx, ep, upto)
}

// await waits until the first upto entries are durable under epoch ep.
func (sh *memShard) await(ctx context.Context, ep engine.Epoch, upto int) error {
	for {
		sh.mem.mu.Lock()
		switch {
		case sh.epoch != ep:
			sh.mem.mu.Unlock()
			return engine.ErrNotOwner
		case sh.mem.stopped != nil:
			err := sh.mem.stopped
			sh.mem.mu.Unlock()
			return err
		case sh.told >= upto:
			sh.mem.mu.Unlock()
			return nil
		}
		changed := sh.changed
		sh.mem.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("shard %d: wait for entry %d: %w", sh.id, upto, ctx.Err())
		}
	}
}

// Snapshot captures the machine, waits until the boundary is durable and
// publishes. In Manual mode somebody else has to commit meanwhile.
func (sh *memShard) Snapshot(ctx context.Context) error {
	select {
	case sh.mem.snapping <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("snapshot shard %d: %w", sh.id, ctx.Err())
	}
	defer func() { <-sh.mem.snapping }()
	if err := sh.enter(ctx); err != nil {
		return err
	}
	snap, err := sh.machine.Capture()
	sh.leave()
	if err != nil {
		return fmt.Errorf("capture shard %d: %w", sh.id, err)
	}
	defer snap.Release()
	ep, seq := snap.Boundary()
	sh.mem.mu.Lock()
	pos := sh.base + int(seq)
	sh.mem.mu.Unlock()
	if err := sh.await(ctx, ep, pos); err != nil {
		return fmt.Errorf("snapshot shard %d: %w", sh.id, err)
	}
	var data bytes.Buffer
	if _, err := snap.WriteTo(&data); err != nil {
		return fmt.Errorf("write snapshot of shard %d: %w", sh.id, err)
	}
	sh.mem.mu.Lock()
	defer sh.mem.mu.Unlock()
	if sh.epoch != ep {
		return fmt.Errorf("snapshot shard %d: %w", sh.id, engine.ErrNotOwner)
	}
	sh.snap = &memSnapshot{pos: engine.Pos(pos), data: data.Bytes()}
	return nil
}

// Owner is this node while the shard is promoted.
func (sh *memShard) Owner() (engine.NodeID, engine.Epoch, bool) {
	sh.mem.mu.Lock()
	defer sh.mem.mu.Unlock()
	if sh.epoch == 0 {
		return "", 0, false
	}
	return sh.mem.cfg.Node, sh.epoch, true
}
