package enginetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

// Starter is an engine whose shards come up together, after all are opened.
type Starter interface {
	engine.Engine
	// Start rebuilds the opened shards and promotes them, the first one first.
	Start(ctx context.Context) error
}

// Stand is an engine on a test stand.
type Stand struct {
	Engine Starter
	// Crash plays kill -9 and gives a new engine over what is left. The old one is
	// not closed; it may go on with what it was doing, unseen.
	Crash func() *Stand
	// Shake takes ownership of a shard away and gives it back; nil for an engine
	// that never demotes.
	Shake func(ctx context.Context, s engine.ShardID) error
	// Pump commits what is queued; nil for an engine that commits by itself.
	Pump func()
}

// conformWait bounds each wait of the suite; it only ends a run that hangs.
const conformWait = 30 * time.Second

// Conform runs the suite against engines that fresh gives. Each call of fresh
// returns a fresh engine, with nothing in its log and at least two shards, that
// isn't started. The log takes at least four entries in flight.
func Conform(t *testing.T, fresh func(t *testing.T) *Stand) {
	for _, c := range []struct {
		name string
		run  func(*stage)
	}{
		{"R18EpochsRise", epochsRise},
		{"AcknowledgedSurvivesCrash", acknowledgedSurvives},
		{"R9SnapshotNeverAheadOfLog", snapshotBehindLog},
		{"R9SnapshotAndTailRebuildTheShard", snapshotAndTail},
		{"R5RoomBeforeWork", roomBeforeWork},
		{"AppendWithoutOwnershipRefused", foreignEpochRefused},
		{"DemoteLeaksNoCommitted", demoteIsQuiet},
		{"AppendAfterCloseRefused", closeRefuses},
		{"ReadBarrierWaits", barrierWaits},
		{"R17FirstShardFirst", firstShardFirst},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), conformWait)
			defer cancel()
			st := &stage{t: t, ctx: ctx, stand: fresh(t)}
			c.run(st)
		})
	}
}

// stage is one test of the suite: a stand and the ledgers on it.
type stage struct {
	t       *testing.T
	ctx     context.Context //nolint:containedctx // lives as long as one test
	stand   *Stand
	ledgers []*Ledger
	logs    []engine.Log
}

// open opens all shards and starts.
func (s *stage) open() {
	s.t.Helper()
	s.ledgers, s.logs = nil, nil
	for i := range s.stand.Engine.Shards() {
		l := NewLedger()
		log, err := s.stand.Engine.Open(engine.ShardID(i), l)
		if err != nil {
			s.t.Fatalf("open shard %d: %v", i, err)
		}
		l.Use(log)
		s.ledgers, s.logs = append(s.ledgers, l), append(s.logs, log)
	}
	if err := s.stand.Engine.Start(s.ctx); err != nil {
		s.t.Fatalf("start: %v", err)
	}
}

// crash goes on with the engine that is left after a kill.
func (s *stage) crash() {
	s.t.Helper()
	s.lawful()
	s.stand = s.stand.Crash()
	s.open()
}

// lawful fails the test if a ledger saw a broken law.
func (s *stage) lawful() {
	s.t.Helper()
	for i, l := range s.ledgers {
		for _, b := range l.Broken() {
			s.t.Errorf("shard %d: %s", i, b)
		}
	}
}

func (s *stage) pump() {
	if s.stand.Pump != nil {
		s.stand.Pump()
	}
}

// write appends n lines to a shard and returns their number; it waits for room.
func (s *stage) write(shard, n int) int {
	s.t.Helper()
	last := 0
	for i := range n {
		s.await(shard)
		at, err := s.ledgers[shard].Append(int64(1000+i), fmt.Sprintf("shard %d line %d", shard, i))
		if err != nil {
			s.t.Fatalf("append %d to shard %d: %v", i, shard, err)
		}
		last = at
	}
	return last
}

// await waits for room in a shard's window.
func (s *stage) await(shard int) {
	s.t.Helper()
	for s.logs[shard].Room() == 0 {
		s.barrier(shard)
	}
}

// barrier waits until all that is appended is durable.
func (s *stage) barrier(shard int) {
	s.t.Helper()
	s.pump()
	err := s.logs[shard].ReadBarrier(s.ctx, s.ledgers[shard].Epoch(), true)
	if err != nil {
		s.t.Fatalf("barrier of shard %d: %v", shard, err)
	}
}

func (s *stage) close() {
	s.t.Helper()
	if err := s.stand.Engine.Close(s.ctx); err != nil {
		s.t.Fatalf("close: %v", err)
	}
	s.lawful()
}

func epochsRise(s *stage) {
	var last engine.Epoch
	for life := range 3 {
		if life == 0 {
			s.open()
		} else {
			s.crash()
		}
		for i, l := range s.ledgers {
			if l.Epoch() <= last {
				s.t.Fatalf("life %d shard %d: epoch %d after %d", life, i, l.Epoch(), last)
			}
			_, ep, ok := s.logs[i].Owner()
			if !ok || ep != l.Epoch() {
				s.t.Fatalf("life %d shard %d: owner epoch %d %v, promoted with %d", life, i, ep, ok, l.Epoch())
			}
		}
		last = s.ledgers[0].Epoch()
		s.write(0, 1)
	}
	s.close()
}

func acknowledgedSurvives(s *stage) {
	s.open()
	for shard := range s.ledgers {
		s.write(shard, 9)
	}
	s.barrier(0)
	s.write(0, 3) // in flight at the crash, perhaps
	before := make([][]Line, len(s.ledgers))
	acked := make([]int, len(s.ledgers))
	for i, l := range s.ledgers {
		before[i], acked[i] = l.Lines()
	}
	if acked[0] < 9 {
		s.t.Fatalf("shard 0 has %d acknowledged lines after a barrier over 9", acked[0])
	}
	s.crash()
	for i, l := range s.ledgers {
		after, _ := l.Lines()
		if len(after) < acked[i] || len(after) > len(before[i]) {
			s.t.Fatalf("shard %d: %d lines after the crash, %d acknowledged, %d appended",
				i, len(after), acked[i], len(before[i]))
		}
		for n, line := range after {
			if line != before[i][n] {
				s.t.Fatalf("shard %d line %d: %v after the crash, %v before", i, n, line, before[i][n])
			}
		}
	}
	s.close()
}

func snapshotBehindLog(s *stage) {
	s.open()
	s.write(0, 4)
	done := make(chan error, 1)
	go func() { done <- s.logs[0].Snapshot(s.ctx) }()
	for published := false; !published; {
		select {
		case err := <-done:
			if err != nil {
				s.t.Fatalf("snapshot: %v", err)
			}
			published = true
		default:
			s.pump()
		}
	}
	all, acked := s.ledgers[0].Lines()
	s.crash()
	after, _ := s.ledgers[0].Lines()
	if acked < 4 || len(after) < 4 || len(all) != 4 {
		s.t.Fatalf("snapshot published with %d of %d lines acknowledged, %d came back", acked, len(all), len(after))
	}
	if s.ledgers[0].Restores() != 1 {
		s.t.Fatalf("shard 0 was restored %d times, want once", s.ledgers[0].Restores())
	}
	s.close()
}

// snapshotAndTail takes snapshots between entries, crashes and compares.
func snapshotAndTail(s *stage) {
	s.open()
	var want []Line
	for round := range 3 {
		s.write(1, 5)
		s.barrier(1)
		if err := s.logs[1].Snapshot(s.ctx); err != nil {
			s.t.Fatalf("snapshot %d: %v", round, err)
		}
		s.write(1, 2)
		s.barrier(1)
		want, _ = s.ledgers[1].Lines()
		s.crash()
		got, _ := s.ledgers[1].Lines()
		if len(got) != len(want) {
			s.t.Fatalf("round %d: %d lines after the crash, want %d", round, len(got), len(want))
		}
		for i := range want {
			if got[i] != want[i] {
				s.t.Fatalf("round %d line %d: %v, want %v", round, i, got[i], want[i])
			}
		}
	}
	s.close()
}

func roomBeforeWork(s *stage) {
	s.open()
	room := s.logs[0].Room()
	if room < 4 {
		s.t.Fatalf("room %d at the start, want at least 4", room)
	}
	for i := range 200 {
		if s.logs[0].Room() == 0 {
			s.barrier(0)
		}
		if s.logs[0].Room() == 0 {
			s.t.Fatalf("no room after a barrier, append %d", i)
		}
		if _, err := s.ledgers[0].Append(1, "x"); err != nil {
			s.t.Fatalf("append %d with room: %v", i, err)
		}
	}
	s.barrier(0)
	if got := s.logs[0].Room(); got != room {
		s.t.Fatalf("room %d when all is durable, %d at the start", got, room)
	}
	big := string(make([]byte, engine.MaxEntryBytes+1))
	if _, err := s.ledgers[0].Append(1, big); !errors.Is(err, engine.ErrTooLarge) {
		s.t.Fatalf("append of %d bytes: %v, want ErrTooLarge", len(big), err)
	}
	s.close()
}

func foreignEpochRefused(s *stage) {
	s.open()
	ep := s.ledgers[0].Epoch()
	for _, wrong := range []engine.Epoch{0, ep - 1, ep + 1} {
		if _, err := s.ledgers[0].AppendAs(wrong, 1, "x"); !errors.Is(err, engine.ErrNotOwner) {
			s.t.Fatalf("append with epoch %d, owner is %d: %v, want ErrNotOwner", wrong, ep, err)
		}
		if wrong == ep-1 {
			err := s.logs[0].ReadBarrier(s.ctx, wrong, true)
			if !errors.Is(err, engine.ErrNotOwner) {
				s.t.Fatalf("barrier with epoch %d, owner is %d: %v, want ErrNotOwner", wrong, ep, err)
			}
		}
	}
	s.close()
}

func demoteIsQuiet(s *stage) {
	if s.stand.Shake == nil {
		s.t.Skip("this engine never demotes")
	}
	s.open()
	for range 20 {
		before := s.ledgers[0].Epoch()
		s.write(0, 3)
		all, acked := s.ledgers[0].Lines()
		if err := s.stand.Shake(s.ctx, 0); err != nil {
			s.t.Fatalf("shake: %v", err)
		}
		got, _ := s.ledgers[0].Lines()
		if len(got) < acked || len(got) > len(all) {
			s.t.Fatalf("%d lines after a demote, %d acknowledged, %d appended", len(got), acked, len(all))
		}
		if _, err := s.ledgers[0].AppendAs(before, 1, "late"); !errors.Is(err, engine.ErrNotOwner) {
			s.t.Fatalf("append with the old epoch: %v, want ErrNotOwner", err)
		}
		s.pump() // a Committed of the old epoch would be noted by the ledger
	}
	s.close()
}

func closeRefuses(s *stage) {
	s.open()
	s.write(0, 3)
	s.close()
	_, acked := s.ledgers[0].Lines()
	if acked != 3 {
		s.t.Fatalf("%d of 3 lines acknowledged after close", acked)
	}
	if _, err := s.ledgers[0].Append(1, "late"); !errors.Is(err, engine.ErrStopped) {
		s.t.Fatalf("append after close: %v, want ErrStopped", err)
	}
}

func barrierWaits(s *stage) {
	s.open()
	at := s.write(0, 3)
	s.barrier(0)
	if _, acked := s.ledgers[0].Lines(); acked < at {
		s.t.Fatalf("%d lines acknowledged after a barrier over %d", acked, at)
	}
	ended, cancel := context.WithCancel(s.ctx)
	cancel()
	s.write(1, 1)
	err := s.logs[1].ReadBarrier(ended, s.ledgers[1].Epoch(), false)
	if err != nil && !errors.Is(err, context.Canceled) {
		s.t.Fatalf("barrier with an ended context: %v", err)
	}
	s.close()
}

func firstShardFirst(s *stage) {
	var order []engine.ShardID
	s.stand.Engine.Watch(func(sh engine.ShardID, owner engine.NodeID, _ engine.Epoch) {
		if owner != "" {
			order = append(order, sh)
		}
	})
	s.open()
	if len(order) != len(s.ledgers) || order[0] != 0 {
		s.t.Fatalf("shards were promoted in the order %v, want all of them, 0 first", order)
	}
	s.close()
}
