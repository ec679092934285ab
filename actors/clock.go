package actors

import (
	"context"
	"time"

	"github.com/pyrula/pyrula-node/flow"
)

// Clock is where time comes from. The methods are safe for any goroutine.
type Clock interface {
	// Wall is the wall clock.
	Wall() flow.Instant
	// Mono is a clock that only ever goes forward, from an origin of its own.
	Mono() flow.Span
	// After calls f once, d from now, on a goroutine of its own; stop prevents it if
	// it has not happened yet.
	After(d flow.Span, f func()) (stop func())
}

// SystemClock is the machine's clock. Inside a testing/synctest bubble it is the
// bubble's.
type SystemClock struct{ origin time.Time }

// NewSystemClock starts a monotonic count at zero.
func NewSystemClock() SystemClock { return SystemClock{origin: time.Now()} }

// Wall implements Clock.
func (SystemClock) Wall() flow.Instant { return flow.Instant(time.Now().UnixNano()) }

// Mono implements Clock.
func (c SystemClock) Mono() flow.Span { return flow.Span(time.Since(c.origin)) }

// After implements Clock.
func (SystemClock) After(d flow.Span, f func()) func() {
	t := time.AfterFunc(time.Duration(d), f)
	return func() { t.Stop() }
}

// sleep returns when d has passed by the clock. Error: that of ctx, if it ends first.
func sleep(ctx context.Context, c Clock, d flow.Span) error {
	passed := make(chan struct{})
	stop := c.After(d, func() { close(passed) })
	select {
	case <-passed:
		return nil
	case <-ctx.Done():
		stop()
		return ctx.Err()
	}
}

// slewDivisor bounds how fast shard time follows the wall: by one part in 20 of
// the time that passes.
const slewDivisor = 20

// shardTime is the time that a shard decides by (R2): it starts at the later of the
// last entry's time and the wall, then follows the monotonic clock, slewed towards
// the wall by at most 5 %. It never goes back and never jumps, so a stepped wall
// clock neither grants tokens nor ends leases.
type shardTime struct {
	clock Clock
	now   flow.Instant
	mono  flow.Span
}

func startShardTime(c Clock, last flow.Instant) shardTime {
	return shardTime{clock: c, now: max(last, c.Wall()), mono: c.Mono()}
}

// read advances to the present.
func (t *shardTime) read() flow.Instant {
	mono := t.clock.Mono()
	passed := mono - t.mono
	t.mono = mono
	slew := flow.Span(t.clock.Wall() - t.now.Add(passed))
	slew = min(max(slew, -passed/slewDivisor), passed/slewDivisor)
	t.now = t.now.Add(passed + slew)
	return t.now
}

// until says how long to wait for a deadline, in shard time from the last read; zero says
// that it has come. An absolute one also waits for the wall. While the wall is behind,
// shard time passes more slowly than it: whoever waits for it looks again a little early,
// so that the difference isn't added to the wait.
func (t *shardTime) until(d flow.Deadline) flow.Span {
	wait := d.At.Sub(t.now)
	if d.Absolute {
		wall := d.At.Sub(t.clock.Wall())
		wait = max(wait, wall-wall/slewDivisor)
	}
	return max(wait, 0)
}
