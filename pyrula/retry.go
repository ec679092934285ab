package pyrula

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

const (
	backoffFirst = 50 * time.Millisecond
	backoffMax   = 2 * time.Second
)

// retryable says whether the same request, sent again, may be taken: the node says
// so, or no answer came. All requests of this package are safe to repeat.
func retryable(err error) bool {
	if e, ok := errors.AsType[*APIError](err); ok && e.Problem.Retryable {
		return true
	}
	return errors.Is(err, ErrUnreachable) || errors.Is(err, ErrNotReady) || errors.Is(err, ErrServerBusy) ||
		errors.Is(err, ErrOverloaded) || errors.Is(err, ErrArchiveBehind) || errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrBufferFull)
}

// retryAfter is how long the node asked to wait; zero when it didn't.
func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*APIError](err); ok {
		return e.RetryAfter()
	}
	return 0
}

// backoff is the wait before repeat number n, counted from zero: doubling up to
// most, and between half and the whole of that at random, so that those who fail
// together don't come back together.
func backoff(n int, most time.Duration) time.Duration {
	wait := min(backoffFirst<<min(n, 20), most)
	return wait/2 + rand.N(wait/2+1)
}

// retry bounds the repeats of one request in time.
type retry struct {
	until time.Time
	n     int
}

// newRetry begins the time in which a request may be repeated.
func (c *Client) newRetry() *retry { return &retry{until: time.Now().Add(c.retryFor)} }

// next is the wait before the next repeat, and whether there is one. The node's own
// wish is a lower bound; one that lies behind the end means no repeat.
func (r *retry) next(err error) (time.Duration, bool) {
	if !retryable(err) {
		return 0, false
	}
	wait := max(backoff(r.n, backoffMax), retryAfter(err))
	r.n++
	return wait, time.Now().Add(wait).Before(r.until)
}

// pause waits, or returns the cause of ctx's end.
func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
