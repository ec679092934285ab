package enginetest_test

import (
	"context"
	"testing"

	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/persistence/enginetest"
)

func memStand(m *enginetest.Mem) *enginetest.Stand {
	return &enginetest.Stand{
		Engine: m,
		Crash:  func() *enginetest.Stand { return memStand(m.Crash(1)) },
	}
}

// TestMemConforms fails when Mem breaks a law of package engine.
func TestMemConforms(t *testing.T) {
	enginetest.Conform(t, func(t *testing.T) *enginetest.Stand {
		m := enginetest.NewMem(enginetest.MemConfig{Shards: 3})
		return memStand(m)
	})
}

// TestManualMemConforms is the same with commits by hand.
func TestManualMemConforms(t *testing.T) {
	enginetest.Conform(t, func(t *testing.T) *enginetest.Stand {
		return manualStand(enginetest.NewMem(enginetest.MemConfig{Shards: 2, Commits: enginetest.Manual}))
	})
}

func manualStand(m *enginetest.Mem) *enginetest.Stand {
	return &enginetest.Stand{
		Engine: m,
		Crash:  func() *enginetest.Stand { return manualStand(m.Crash(2)) },
		Pump:   func() { m.CommitAll() },
	}
}

// TestChaosConforms fails when Chaos breaks a law of package engine.
func TestChaosConforms(t *testing.T) {
	enginetest.Conform(t, func(t *testing.T) *enginetest.Stand {
		c := enginetest.NewChaos(enginetest.MemConfig{Shards: 2}, 7)
		keep := 0
		stand := manualStand(c.Mem)
		stand.Shake = func(ctx context.Context, s engine.ShardID) error {
			keep = (keep + 1) % 4
			if err := c.Demote(ctx, s, keep); err != nil {
				return err
			}
			return c.Settle(ctx)
		}
		return stand
	})
}
