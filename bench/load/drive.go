package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// maxErrors ends a client that gets nothing but errors.
const maxErrors = 100

// Client does cycles one after the other; each is used by one goroutine.
type Client interface {
	// Cycle does one cycle, or one batch of them, and notes what it saw. Its error is
	// noted by the caller.
	Cycle(r *Recorder) error
	// Close ends it.
	Close() error
}

// Plan is what one repetition does.
type Plan struct {
	Clients int
	Warm    time.Duration // before anything is counted
	Dur     time.Duration // counted
	// Connect makes the client of a number from 0 on.
	Connect func(id int) (Client, error)
	// Usage reads the CPU time that the server has taken so far; nil when it can't be
	// known.
	Usage func() time.Duration
	// Measuring is called when the counting begins, on a goroutine of its own; nil does
	// nothing. The repetition waits for it to return.
	Measuring func()
}

// Run does one repetition: all clients at once, each in a closed loop. When ctx ends
// it ends early with ctx's error.
func (p Plan) Run(ctx context.Context) (Repetition, error) {
	clients, err := p.connect()
	if err != nil {
		return Repetition{}, err
	}
	w := OpenWindow(p.Warm, p.Dur)
	recorders := make([]*Recorder, len(clients))
	var group sync.WaitGroup
	for i, c := range clients {
		recorders[i] = NewRecorder(w)
		group.Go(func() { loop(ctx, w, c, recorders[i]) })
	}
	share := p.watch(ctx, w)
	group.Wait()
	rep := Repetition{CPU: share()}
	err = ctx.Err()
	for i, c := range clients {
		rep.Tally.Merge(recorders[i].Tally())
		err = errors.Join(err, c.Close())
	}
	rep.PerSec = float64(rep.Tally.Cycles) / p.Dur.Seconds()
	return rep, err
}

func (p Plan) connect() ([]Client, error) {
	clients := make([]Client, p.Clients)
	for i := range clients {
		c, err := p.Connect(i)
		if err != nil {
			err = fmt.Errorf("connect client %d: %w", i, err)
			for _, before := range clients[:i] {
				err = errors.Join(err, before.Close())
			}
			return nil, err
		}
		clients[i] = c
	}
	return clients, nil
}

// loop does cycles until the window is over.
func loop(ctx context.Context, w Window, c Client, r *Recorder) {
	for errs := 0; errs < maxErrors && ctx.Err() == nil && time.Now().Before(w.To); {
		if err := c.Cycle(r); err != nil {
			r.Failed(err)
			errs++
		}
	}
}

// watch reads the CPU clocks at both ends of the window; share waits for the second
// reading.
func (p Plan) watch(ctx context.Context, w Window) (share func() CPUShare) {
	result := make(chan CPUShare, 1)
	go func() {
		sleep(ctx, time.Until(w.From))
		before := readCPU(p.Usage)
		var more sync.WaitGroup
		if p.Measuring != nil {
			more.Go(p.Measuring)
		}
		sleep(ctx, time.Until(w.To))
		after := readCPU(p.Usage)
		more.Wait()
		result <- after.since(before)
	}()
	return func() CPUShare { return <-result }
}

// sleep waits for a while, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
