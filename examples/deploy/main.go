// Command deploy tightens a limit while runs wait. A worker of version 1 lets three renders
// of a customer run at once; while nine wait, it is replaced by a worker of version 2, which
// lets only one. The runs that wait are handed on, and the ids that the program holds go on
// working. It needs a node: go run ./cmd/pyrula-node dev.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/pyrula/pyrula-node/pyrula"
)

type job struct {
	Customer string `json:"customer"`
	Frame    int    `json:"frame"`
}

const (
	frames = 12
	work   = 50 * time.Millisecond
)

// gauge counts the bodies that are at work, as the bodies themselves see it.
type gauge struct {
	mu        sync.Mutex // guards now and most
	now, most int
}

func (g *gauge) enter() (now int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now++
	g.most = max(g.most, g.now)
	return g.now
}

func (g *gauge) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now--
}

// render is one version of the workflow. Its bodies tell full that as many are at work as
// may be.
func render(version string, at int, g *gauge, full chan<- struct{}) *pyrula.Workflow[job, int] {
	return pyrula.Define("render", func(r *pyrula.Run, j job) (int, error) {
		now := g.enter()
		defer g.leave()
		if now == at {
			select {
			case full <- struct{}{}:
			default:
			}
		}
		select {
		case <-time.After(work):
			return j.Frame, nil
		case <-r.Done():
			return 0, context.Cause(r)
		}
	}, pyrula.Limit{Key: "customer", Max: at}, pyrula.Version(version))
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := pyrula.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()

	// A run that was granted once keeps its gates, so the old worker is only stopped when the
	// bodies of all its grants have begun.
	full := make(chan struct{}, 1)
	var before, after gauge
	old, tight := render("1", 3, &before, full), render("2", 1, &after, nil)
	var runs []*pyrula.Handle[int]
	for frame := range frames {
		h, err := old.Start(ctx, c, job{Customer: "acme", Frame: frame})
		if err != nil {
			return err
		}
		runs = append(runs, h)
	}

	if err := workUntil(ctx, c, old, full); err != nil {
		return err
	}
	fmt.Fprintf(out, "version 1 let at most %d run at once\n", before.most)

	done := make(chan struct{})
	worked := make(chan error, 1)
	go func() { worked <- workUntil(ctx, c, tight, done) }()
	moved, err := collect(ctx, runs)
	close(done)
	if err = errors.Join(err, <-worked); err != nil {
		return err
	}
	fmt.Fprintf(out, "version 2 let at most %d run at once\n", after.most)
	fmt.Fprintf(out, "%d of %d runs were handed on, and every id gave its result\n", moved, frames)
	if moved == 0 {
		fmt.Fprintln(out, "version 2 was declared before, so the runs were stamped with it: start a fresh node to see more")
	}
	return nil
}

// workUntil works on a workflow until told to stop, and then drains: bodies end, nothing
// else starts.
func workUntil(ctx context.Context, c *pyrula.Client, w *pyrula.Workflow[job, int], until <-chan struct{}) error {
	working, drain := context.WithCancel(ctx)
	defer drain()
	drained := make(chan error, 1)
	go func() { drained <- c.Work(working, w) }()
	select {
	case <-until:
	case err := <-drained:
		return errors.Join(errors.New("the worker ended early"), err)
	}
	drain()
	return <-drained
}

// collect waits for every result by the id that the program got at first, and counts the
// runs that were handed on.
func collect(ctx context.Context, runs []*pyrula.Handle[int]) (moved int, err error) {
	for frame, h := range runs {
		got, err := h.Result(ctx)
		if err != nil {
			return moved, err
		}
		if got != frame {
			return moved, fmt.Errorf("run %s gave frame %d, want %d", h.ID, got, frame)
		}
		status, err := h.Status(ctx)
		if err != nil {
			return moved, err
		}
		if status.RequestedRunID == h.ID {
			moved++
		}
	}
	return moved, nil
}
