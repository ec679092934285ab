package kafka

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/pyrula/pyrula-node/pyrula"
)

const (
	backoffFirst = 100 * time.Millisecond
	backoffMax   = 30 * time.Second
)

// backoff is the wait before repeat number n, counted from zero: doubling up to 30 s,
// and between half and the whole of that at random.
func backoff(n int) time.Duration {
	wait := min(backoffFirst<<min(n, 16), backoffMax)
	return wait/2 + rand.N(wait/2+1)
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

// verdict is what an error of a submit means for its records.
type verdict uint8

const (
	tryAgain verdict = iota // the node may take it later
	unfit                   // no node will ever take this record
	hopeless                // no record can be submitted like this
)

// judge says what an error of the node or its client means. Only the node's own word,
// or the client's that found it before sending, makes a record unfit: what a proxy
// says on the way must lose nothing.
func judge(err error) verdict {
	if refusal, ok := errors.AsType[*pyrula.APIError](err); ok && refusal.Problem.Code == "" {
		return tryAgain
	}
	is := func(list ...error) bool {
		for _, one := range list {
			if errors.Is(err, one) {
				return true
			}
		}
		return false
	}
	switch {
	case is(pyrula.ErrInvalid, pyrula.ErrMalformed, pyrula.ErrTooLarge):
		return unfit
	case is(pyrula.ErrConfiguration, pyrula.ErrClosed, pyrula.ErrUnsupported, pyrula.ErrUnknownField, pyrula.ErrNotFound,
		pyrula.ErrMethod, pyrula.ErrMediaType, pyrula.ErrCrossOrigin, pyrula.ErrHost):
		return hopeless
	}
	return tryAgain
}
