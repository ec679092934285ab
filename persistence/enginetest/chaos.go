package enginetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

// ErrShaken is the reason that Chaos gives for a Demote.
var ErrShaken = errors.New("enginetest: ownership taken away")

// Chaos is a Mem whose shards lose and win ownership at random. At a Demote a
// random number of the entries in flight is lost and the others become durable
// with nobody told, as when a leader falls. Then the shard is rebuilt (Restore,
// Apply) and promoted with a higher epoch.
//
// Nothing happens by itself: call Step, or let Run call it. The same number and
// the same calls give the same history.
type Chaos struct {
	*Mem

	mu  sync.Mutex // one step at a time; guards rng
	rng *rand.Rand
}

// NewChaos makes an engine whose choices all come from number. Commits of cfg is
// taken as Manual: the steps commit.
func NewChaos(cfg MemConfig, number uint64) *Chaos {
	cfg.Commits = Manual
	return &Chaos{Mem: NewMem(cfg), rng: rand.New(rand.NewPCG(number, 0x9E3779B97F4A7C15))}
}

// Step does one thing at random: it commits some entries, demotes a shard, or
// promotes one that has no owner.
func (c *Chaos) Step(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch draw := c.rng.IntN(10); {
	case draw < 6:
		c.commit(c.rng.IntN(c.Queued() + 1))
		return nil
	case draw < 8:
		if sh := c.pick(owned); sh != nil {
			return sh.demote(ctx, c.rng.IntN(c.cfg.Window+1), ErrShaken)
		}
		return nil
	default:
		if sh := c.pick(lost); sh != nil {
			return c.regain(ctx, sh)
		}
		return nil
	}
}

// Demote takes the shard away now; keep of its entries in flight become durable,
// the others are lost. A shard without owner stays as it is.
func (c *Chaos) Demote(ctx context.Context, s engine.ShardID, keep int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shards[s].demote(ctx, keep, ErrShaken)
}

// Settle promotes every shard that has no owner and commits everything queued.
func (c *Chaos) Settle(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for sh := c.pick(lost); sh != nil; sh = c.pick(lost) {
		if err := c.regain(ctx, sh); err != nil {
			return err
		}
	}
	c.CommitAll()
	return nil
}

// Run steps until ctx is done, with a pause of up to twice every between two
// steps, and then settles. Its error is that of a step.
func (c *Chaos) Run(ctx context.Context, every time.Duration) error {
	for {
		c.mu.Lock()
		pause := time.Duration(c.rng.Int64N(int64(2*every) + 1))
		c.mu.Unlock()
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return c.Settle(context.WithoutCancel(ctx))
		}
		if err := c.Step(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// regain rebuilds and promotes a shard without owner.
func (c *Chaos) regain(ctx context.Context, sh *memShard) error {
	if err := sh.rebuild(ctx); err != nil {
		return err
	}
	c.Mem.mu.Lock()
	c.epoch++
	ep := c.epoch
	c.Mem.mu.Unlock()
	return sh.promote(ctx, ep)
}

// ownership is what pick looks for.
type ownership uint8

const (
	owned ownership = iota
	lost
)

// pick chooses one of the opened shards with that ownership, nil if there is none.
func (c *Chaos) pick(want ownership) *memShard {
	c.Mem.mu.Lock()
	var found []*memShard
	for _, sh := range c.shards {
		if sh.machine != nil && c.started && (sh.epoch == 0) == (want == lost) {
			found = append(found, sh)
		}
	}
	c.Mem.mu.Unlock()
	if len(found) == 0 {
		return nil
	}
	return found[c.rng.IntN(len(found))]
}
