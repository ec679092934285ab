package pyrula

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// claimBackoffMax bounds the wait between claims that fail.
const claimBackoffMax = 30 * time.Second

// presentEvery is how often a worker without a free place says that it lives: a node takes
// it for dead 30 s after its last claim or heartbeat, and heartbeats come as seldom as
// leases are long.
const presentEvery = 10 * time.Second

// ownClaimEvery is how long claims may travel with other requests before a worker that has
// key functions sends one of its own.
const ownClaimEvery = time.Second

// claims asks for runs whenever there are free places, until ctx ends or the node
// refuses for good. A claim isn't repeated blindly: an answer that is lost may have
// granted runs, and those wait for their leases to run out.
func (s *shift) claims(ctx context.Context) error {
	for n := 0; ctx.Err() == nil; {
		credit := s.slots.take()
		if credit == 0 {
			s.waitForPlace(ctx)
			continue
		}
		began := s.w.now()
		granted, asked, err := s.claim(ctx, s.claimOf(credit, s.patience))
		s.slots.give(credit - granted)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			if err := s.afterClaim(ctx, err, n); err != nil {
				return err
			}
			n++
		case granted == 0 && !asked && s.w.now().Sub(began) < s.patience/2:
			// The node answers early, say because it shuts down: no tight loop.
			if pause(ctx, backoff(n, backoffMax)) == nil {
				n++
			}
		default:
			n = 0
		}
	}
	return nil
}

// waitForPlace returns when a place may be free, or ctx ends. Meanwhile the node hears that
// the worker lives.
func (s *shift) waitForPlace(ctx context.Context) {
	timer := time.NewTimer(s.untilPresent())
	defer timer.Stop()
	for {
		select {
		case <-s.slots.wake:
			return
		case <-ctx.Done():
			return
		case <-timer.C:
			if s.untilPresent() <= 0 {
				go s.present(ctx, s.claimOf(0, 0))
			}
			timer.Reset(s.untilPresent())
		}
	}
}

// untilPresent is how long the node needs to hear nothing of the worker: claims that
// travel with other requests speak for it too.
func (s *shift) untilPresent() time.Duration {
	last := time.Duration(max(s.claimed.Load(), s.asked.Load()))
	return presentEvery - (s.w.now().Sub(s.began) - last)
}

// present sends a claim that asks for nothing. Nobody waits for it, and one that fails is
// followed by the next: a place that is free meanwhile must not wait.
func (s *shift) present(ctx context.Context, nothing *wire.Claim) {
	sending, cancel := context.WithTimeout(ctx, presentEvery)
	defer cancel()
	granted, _, err := s.claim(sending, nothing)
	s.slots.give(-granted)
	if err != nil && ctx.Err() == nil {
		s.log.warn("tell the node again that the worker lives", err)
	}
}

// claim asks once. It says how many places the granted runs take, and whether the node
// has asked for keys.
func (s *shift) claim(ctx context.Context, c *wire.Claim) (granted int, asked bool, err error) {
	req := request{method: http.MethodPost, path: wire.PathClaims, body: c, wait: time.Duration(c.WaitMS) * time.Millisecond}
	sent := s.w.now() // before the request leaves: the lease counts from here (R1)
	var out wire.Claimed
	if err := s.w.client.attempt(ctx, &req, &out); err != nil {
		return 0, false, err
	}
	s.asked.Store(int64(s.w.now().Sub(s.began)))
	if asked = len(out.Resolve) > 0; asked {
		s.ask(out.Resolve)
	}
	if c.Credit > 0 {
		s.dry.Store(len(out.Runs) < c.Credit)
	}
	return s.adopt(out.Runs, sent), asked, nil
}

// mayCarry says whether a request that ends a run may claim the next one: while there is
// work at hand. Only the answer to a claim of its own asks for keys, so a worker that has
// key functions sends one now and then, however busy it is.
func (s *shift) mayCarry() bool {
	if s.dry.Load() || s.draining.Load() {
		return false
	}
	return !s.w.functionKeys || s.w.now().Sub(s.began)-time.Duration(s.asked.Load()) < ownClaimEvery
}

func (s *shift) claimOf(credit int, wait time.Duration) *wire.Claim {
	s.claimed.Store(int64(s.w.now().Sub(s.began)))
	return &wire.Claim{Worker: s.w.cfg.Name, Workflows: *s.claiming.Load(), Credit: credit, WaitMS: wait.Milliseconds()}
}

// afterClaim waits after a claim that failed; an error ends the shift.
func (s *shift) afterClaim(ctx context.Context, err error, n int) error {
	if errors.Is(err, ErrNotDeclared) {
		// The node has lost what it knew, say a trial node that began anew.
		s.log.warn("declare the workflows again", err)
		if err := s.declare(ctx); err != nil {
			return err
		}
	} else if !retryable(err) && !errors.Is(err, ErrInternal) && !errors.Is(err, ErrBadAnswer) {
		return fmt.Errorf("claim: %w", err)
	}
	s.log.warn("claim again", err)
	wait := max(backoff(n, claimBackoffMax), min(retryAfter(err), claimBackoffMax))
	_ = pause(ctx, wait) // the end of ctx shows in the loop
	return nil
}
