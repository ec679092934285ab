package enginetest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/persistence/enginetest"
)

// openAll opens and starts every shard of an engine.
func openAll(t *testing.T, e enginetest.Starter) []*enginetest.Ledger {
	t.Helper()
	var ledgers []*enginetest.Ledger
	for i := range e.Shards() {
		l := enginetest.NewLedger()
		log, err := e.Open(engine.ShardID(i), l)
		if err != nil {
			t.Fatal(err)
		}
		l.Use(log)
		ledgers = append(ledgers, l)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return ledgers
}

// TestChaosKeepsAcknowledgedLines fails when a line that was acknowledged is not
// there at the end, or when a law breaks, over many changes of owner.
func TestChaosKeepsAcknowledgedLines(t *testing.T) {
	for number := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			c := enginetest.NewChaos(enginetest.MemConfig{Shards: 3}, number)
			ledgers := openAll(t, c)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			ran := make(chan error, 1)
			go func() { ran <- c.Run(ctx, time.Millisecond) }()
			acked := make([]map[string]bool, len(ledgers))
			for i := range acked {
				acked[i] = make(map[string]bool)
			}
			for n := 0; ctx.Err() == nil; n++ {
				for i, l := range ledgers {
					_, err := l.Append(int64(n), fmt.Sprintf("%d/%d", i, n))
					if err != nil && !errors.Is(err, engine.ErrNotOwner) && !errors.Is(err, engine.ErrBusy) {
						t.Fatal(err)
					}
					lines, upto := l.Lines()
					for _, line := range lines[:upto] {
						acked[i][line.Body] = true
					}
				}
				pause(ctx)
			}
			if err := <-ran; err != nil {
				t.Fatal(err)
			}
			moved := false
			for i, l := range ledgers {
				lines, _ := l.Lines()
				for _, line := range lines {
					delete(acked[i], line.Body)
				}
				if len(acked[i]) != 0 {
					t.Errorf("number %d shard %d: acknowledged and lost: %v", number, i, acked[i])
				}
				for _, b := range l.Broken() {
					t.Errorf("number %d shard %d: %s", number, i, b)
				}
				moved = moved || l.Epoch() > 3
			}
			if !moved {
				t.Errorf("number %d: no shard changed its owner", number)
			}
			if err := c.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// pause waits a virtual millisecond or until ctx ends.
func pause(ctx context.Context) {
	timer := time.NewTimer(time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// TestMemCrashKeepsAChosenShare fails when Crash keeps another number of queued
// entries than it is told.
func TestMemCrashKeepsAChosenShare(t *testing.T) {
	for keep := range 5 {
		m := enginetest.NewMem(enginetest.MemConfig{Shards: 1, Commits: enginetest.Manual})
		l := openAll(t, m)[0]
		for i := range 5 {
			if _, err := l.Append(int64(i), "x"); err != nil {
				t.Fatal(err)
			}
		}
		if !m.CommitNext() {
			t.Fatal("nothing to commit")
		}
		after := openAll(t, m.Crash(keep))[0]
		if lines, _ := after.Lines(); len(lines) != 1+keep {
			t.Errorf("keep %d: %d lines came back, want %d", keep, len(lines), 1+keep)
		}
	}
}

// TestS16MemFailAcknowledgesNothing fails when an entry is acknowledged, or taken,
// after a failed write.
func TestS16MemFailAcknowledgesNothing(t *testing.T) {
	var fatal error
	m := enginetest.NewMem(enginetest.MemConfig{
		Shards: 1, Commits: enginetest.Manual, OnFatal: func(err error) { fatal = err },
	})
	l := openAll(t, m)[0]
	if _, err := l.Append(1, "x"); err != nil {
		t.Fatal(err)
	}
	disk := errors.New("disk")
	m.Fail(disk)
	if m.CommitNext() {
		t.Error("an entry was committed after the failure")
	}
	if _, acked := l.Lines(); acked != 0 {
		t.Errorf("%d lines acknowledged after the failure", acked)
	}
	if _, err := l.Append(1, "y"); !errors.Is(err, engine.ErrStopped) || !errors.Is(err, disk) {
		t.Errorf("append after the failure: %v, want ErrStopped and its cause", err)
	}
	if !errors.Is(fatal, disk) {
		t.Errorf("OnFatal got %v", fatal)
	}
}
