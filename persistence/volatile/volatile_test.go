package volatile_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/persistence/enginetest"
	"github.com/pyrula/pyrula-node/persistence/volatile"
)

// TestMain fails when a closed engine leaves its goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestConforms fails when the engine breaks a law of package engine that speaks of one
// life.
func TestConforms(t *testing.T) {
	enginetest.Conform(t, func(t *testing.T) *enginetest.Stand {
		e := volatile.New("n1", 3)
		t.Cleanup(func() {
			if err := e.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		return &enginetest.Stand{Engine: e, Crash: func() *enginetest.Stand {
			t.Skip("nothing of this engine is left after a crash")
			return nil
		}}
	})
}

// TestCommitsAtOnce fails when an entry waits for anything but the engine's own
// goroutine, or when the last entries before a close aren't told.
func TestCommitsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := volatile.New("n1", 2)
		var ledgers []*enginetest.Ledger
		var logs []engine.Log
		for i := range e.Shards() {
			l := enginetest.NewLedger()
			log, err := e.Open(engine.ShardID(i), l)
			if err != nil {
				t.Fatal(err)
			}
			l.Use(log)
			ledgers, logs = append(ledgers, l), append(logs, log)
		}
		if logs[0].Room() != 0 {
			t.Error("a shard has room before it is promoted")
		}
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 3 * volatile.Window {
			if _, err := ledgers[1].Append(1, "x"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if all, acked := ledgers[1].Lines(); acked != len(all) || acked != 3*volatile.Window {
			t.Errorf("%d of %d entries are committed", acked, len(all))
		}
		for range volatile.Window {
			if _, err := ledgers[0].Append(1, "x"); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, acked := ledgers[0].Lines(); acked != volatile.Window {
			t.Errorf("%d entries are told at the close, want %d", acked, volatile.Window)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Errorf("the second close: %v", err)
		}
		for i, l := range ledgers {
			for _, b := range l.Broken() {
				t.Errorf("shard %d: %s", i, b)
			}
		}
	})
}

// TestOpenAndStartOnce fails when a shard is opened twice or too late.
func TestOpenAndStartOnce(t *testing.T) {
	e := volatile.New("n1", 1)
	if _, err := e.Open(1, enginetest.NewLedger()); err == nil {
		t.Error("a shard that isn't there was opened")
	}
	log, err := e.Open(0, enginetest.NewLedger())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Open(0, enginetest.NewLedger()); err == nil {
		t.Error("a shard was opened twice")
	}
	if _, err := log.Append(1, 0, nil); !errors.Is(err, engine.ErrNotOwner) {
		t.Errorf("append before the start: %v", err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err == nil {
		t.Error("the engine was started twice")
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
