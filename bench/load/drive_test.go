package load

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// timed is a client whose cycle takes a fixed time.
type timed struct {
	cycle  time.Duration
	err    error
	closed *int
}

func (c timed) Cycle(r *Recorder) error {
	if c.err != nil {
		return c.err
	}
	begin := time.Now()
	<-time.After(c.cycle) // virtual: these tests run in a bubble
	r.Claimed(begin, time.Now(), 1)
	r.Completed(begin, time.Now(), 2)
	return nil
}

func (c timed) Close() error { *c.closed++; return nil }

// Fails when cycles outside of the window are counted, or a client isn't closed.
func TestPlanCountsTheWindowOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed, measured := 0, false
		p := Plan{
			Clients: 3, Warm: time.Second, Dur: 2 * time.Second, Measuring: func() { measured = true },
			Connect: func(int) (Client, error) { return timed{10 * time.Millisecond, nil, &closed}, nil },
		}
		rep, err := p.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// 200 cycles of two runs for each client end in the window.
		if rep.PerSec != 600 || rep.Tally.Cycle.Len() != 600 || rep.Tally.Claims != 600 {
			t.Errorf("%g/s, %d cycles, %d claims", rep.PerSec, rep.Tally.Cycle.Len(), rep.Tally.Claims)
		}
		if closed != 3 || !measured {
			t.Errorf("%d clients closed, measured %v", closed, measured)
		}
	})
}

// Fails when a client that gets only errors goes on for ever, or they aren't counted.
func TestPlanGivesUpOnErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken, closed := errors.New("broken"), 0
		p := Plan{
			Clients: 2, Dur: time.Second,
			Connect: func(int) (Client, error) { return timed{err: broken, closed: &closed}, nil },
		}
		rep, err := p.Run(t.Context())
		if err != nil || rep.Tally.Errors != 2*maxErrors || !errors.Is(rep.Tally.Err, broken) {
			t.Errorf("%d errors, %v, %v", rep.Tally.Errors, rep.Tally.Err, err)
		}
	})
}

// Fails when a repetition starts without one of its clients, or leaves the others open.
func TestPlanNeedsEveryClient(t *testing.T) {
	refused, closed := errors.New("refused"), 0
	p := Plan{Clients: 2, Dur: time.Second, Connect: func(id int) (Client, error) {
		if id == 1 {
			return nil, refused
		}
		return timed{closed: &closed}, nil
	}}
	if _, err := p.Run(t.Context()); !errors.Is(err, refused) || closed != 1 {
		t.Errorf("%d clients closed, error is %v", closed, err)
	}
}

// Fails when a repetition goes on after it was told to end.
func TestPlanEndsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		closed, begin := 0, time.Now()
		p := Plan{
			Clients: 1, Warm: time.Second, Dur: time.Hour,
			Connect: func(int) (Client, error) { return timed{10 * time.Millisecond, nil, &closed}, nil },
		}
		_, err := p.Run(ctx)
		if took := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || took > 4*time.Second || closed != 1 {
			t.Errorf("it took %v, %d clients closed, %v", took, closed, err)
		}
	})
}
