package kafka

import (
	"context"
	"errors"
	"sync"

	"github.com/pyrula/pyrula-node/pyrula"
)

// flight counts the runs that this consumer made and that haven't ended. While as
// many as may be are in flight nothing is read, so what waits, waits at the brokers.
type flight struct {
	count *counters
	freed chan struct{} // a token after each run that has ended

	mu   sync.Mutex
	free int
}

func newFlight(most int, count *counters) *flight {
	return &flight{count: count, freed: make(chan struct{}, 1), free: most}
}

// room waits until something is free and says how much. Only the one that reads
// takes, so it is still free afterwards. Error: the cause of ctx's end.
func (f *flight) room(ctx context.Context) (int, error) {
	for {
		f.mu.Lock()
		free := f.free
		f.mu.Unlock()
		if free > 0 {
			return free, nil
		}
		select {
		case <-f.freed:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

func (f *flight) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.free--
	f.count.inFlight.Add(1)
}

func (f *flight) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.free++
	f.count.inFlight.Add(-1)
	offer(f.freed)
}

// follow waits for a run's end, in a goroutine of its own. There are at most
// MaxConcurrency of them.
func (s *shift) follow(ctx context.Context, runID string) {
	s.flight.begin()
	s.followers.Go(func() {
		defer s.flight.end()
		for n := 0; ctx.Err() == nil; n++ {
			_, err := s.c.client.Wait(ctx, runID)
			switch {
			case err == nil:
				s.c.count.ended.Add(1)
				return
			case errors.Is(err, pyrula.ErrUnknownRun):
				s.log.Warn("a run of a record is gone", "run_id", runID, "err", err)
				return
			case ctx.Err() == nil:
				s.log.Warn("wait again for the end of a record's run", "run_id", runID, "err", err)
				_ = pause(ctx, backoff(n)) // the end of ctx shows in the loop
			}
		}
	})
}

// offer leaves a token unless one lies there.
func offer(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
