package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"github.com/pyrula/pyrula-node/pyrula"
)

// travelWorker is the first argument of a worker process that serves journeys.
const travelWorker = "travel-worker"

// The test binary is also that worker: see TestMain for the programs that it is by name.
func init() { //nolint:gochecknoinits // the worker must not become the tests of its own
	if len(os.Args) == 4 && os.Args[1] == travelWorker {
		travelMain(os.Args[2], os.Args[3])
	}
}

// trip is what a journey takes. One with Legs starts another one as its child.
type trip struct {
	Key  string `json:"key"`
	Legs int    `json:"legs"`
	Odd  bool   `json:"odd"` // its first attempt fails in the middle
}

// travelMain serves journeys until it is killed: it appends what its bodies do to a file.
func travelMain(addr, file string) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err == nil {
		ctx := context.Background()
		var c *pyrula.Client
		if c, err = pyrula.Dial(ctx, pyrula.WithAddr(addr), pyrula.WithDialTimeout(patience)); err == nil {
			err = c.Work(ctx, journeys(f))
		}
	}
	fmt.Println("the worker ends:", err)
	os.Exit(1)
}

// diary is what one execution of a body writes. Lines are, in words:
//
//	enter RUN FENCE PID KEY          the body begins
//	leave RUN FENCE PID KEY          it ends; lost instead when its lease may be over
//	ran RUN STEP VISIT TOKEN         a step is executed
//	kept RUN STEP VISIT TOKEN        the node has acknowledged that it is recorded
type diary struct {
	r *pyrula.Run
	f *os.File
	n map[string]int
}

func (d *diary) writef(format string, args ...any) {
	if err := appendLine(d.f, fmt.Sprintf(format, args...)); err != nil {
		slog.Error("the witness can't be written", "err", err)
		os.Exit(1)
	}
}

func (d *diary) end() {
	word := "leave"
	if cause := context.Cause(d.r); errors.Is(cause, pyrula.ErrLeaseLost) {
		word = "lost"
	}
	d.writef("%s %s %d %d %s", word, d.r.ID, d.r.Fence, os.Getpid(), d.r.Key)
}

var tokens atomic.Int64

// step executes one step and gives its token, which no other execution has.
func (d *diary) step(name string) (string, error) {
	d.n[name]++
	ran := false
	token, err := pyrula.Step(d.r, name, func(ctx context.Context) (string, error) {
		ran = true
		token := fmt.Sprintf("%d-%d", os.Getpid(), tokens.Add(1))
		d.writef("ran %s %s %d %s", d.r.ID, name, d.n[name], token)
		dawdle(ctx)
		return token, nil
	})
	if err == nil && ran {
		d.writef("kept %s %s %d %s", d.r.ID, name, d.n[name], token)
	}
	return token, err
}

// dawdle takes some milliseconds, in which a kill may come.
func dawdle(ctx context.Context) {
	select {
	case <-time.After(time.Duration(rand.IntN(6)) * time.Millisecond):
	case <-ctx.Done():
	}
}

// journeys is a workflow whose bodies use every durable operation. Parent and child are
// of one key, with a Limit of 1.
func journeys(f *os.File) *pyrula.Workflow[trip, []string] {
	var w *pyrula.Workflow[trip, []string]
	w = pyrula.Define("journey", func(r *pyrula.Run, t trip) ([]string, error) {
		d := &diary{r: r, f: f, n: map[string]int{}}
		d.writef("enter %s %d %d %s", r.ID, r.Fence, os.Getpid(), r.Key)
		defer d.end()
		return d.travel(w, t)
	}, pyrula.Limit{Key: "key", Max: 1}, pyrula.Lease(theLease), pyrula.MaxAttempts(2), pyrula.RetryBackoff(5*time.Millisecond))
	return w
}

func (d *diary) travel(w *pyrula.Workflow[trip, []string], t trip) (all []string, err error) {
	visit := func(names ...string) {
		for _, name := range names {
			var token string
			if err != nil {
				return
			}
			if token, err = d.step(name); err == nil {
				all = append(all, token)
			}
		}
	}
	if visit("pack"); t.Legs == 0 || err != nil {
		return all, err
	}
	if visit("go"); err == nil {
		err = d.r.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
	}
	if visit("go"); err == nil {
		var ticket string
		if ticket, err = pyrula.WaitSignal[string](d.r, "ticket", 0); err == nil {
			all = append(all, ticket)
		}
	}
	if visit("go"); err != nil {
		return nil, err
	}
	if t.Odd && d.r.Attempt == 1 {
		return nil, errors.New("the first attempt fails")
	}
	leg, err := w.RunChild(d.r, trip{Key: t.Key}, pyrula.OnceKey("leg of "+d.r.ID))
	if err != nil {
		return nil, err
	}
	all = append(all, leg...)
	visit("unpack")
	return all, err
}
