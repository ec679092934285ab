// Package demo is the demonstration: a durable node, a workflow with a Limit and a
// Rate, some hundred runs, a worker, and bodies that count.
//
// Its invariant is that what it reports is what the bodies saw. It must not ask the
// node how many ran at once, since that is what it is there to check.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/pyrula/pyrula-node/cmd/pyrula-node/node"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

// What the demonstration declares.
const (
	workflow  = "sync_account"
	keyName   = "tenant_id"
	maxAtOnce = 2
	perSecond = 5
	burst     = 10
)

const (
	// bodiesAtOnce is the worker's concurrency: more than the Limit lets any of the
	// tenants have, so that the gates bind and not the worker.
	bodiesAtOnce = 64
	// drainTimeout is how long bodies may go on after an interrupt; they are short.
	drainTimeout = time.Second
	closeTimeout = 10 * time.Second
)

// Config is how the demonstration runs.
type Config struct {
	Runs     io.Reader // parameters of the runs, one JSON object a line
	DataDir  string    // the node's directory; empty means a temporary one
	Addr     string    // the node's address
	Out      io.Writer // takes the table
	Talk     io.Writer // takes what happens meanwhile
	Rewrites bool      // Talk is a terminal, where a line can be written over
	Logger   *slog.Logger
}

// ErrBroken says that a figure that was counted breaks a promise; its text names the
// figure.
var ErrBroken = errors.New("a promise was broken")

// Run starts a node in this process, lets the runs go through it, prints what the
// bodies counted and checks it. Errors: ErrBroken, the cause of ctx's end, and what
// the node and its client say.
func Run(ctx context.Context, cfg Config) error {
	all, err := readRuns(cfg.Runs)
	if err != nil {
		return err
	}
	n, err := node.Start(ctx, node.Config{DataDir: cfg.DataDir, Addr: cfg.Addr, Logger: cfg.Logger})
	if err != nil {
		return err
	}
	fmt.Fprintf(cfg.Talk, "a durable node serves at %s, its journal is in %s\n", n.URL(), n.DataDir())
	err = show(ctx, cfg, n.URL(), all)
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return errors.Join(err, n.Close(bounded))
}

// show lets the runs go through the node at url.
func show(ctx context.Context, cfg Config, url string, all []params) error {
	c, err := pyrula.Dial(ctx, pyrula.WithAddr(url))
	if err != nil {
		return err
	}
	defer c.Close() // it never fails
	w := newWitness()
	sync := w.workflow()
	if _, err := c.Declare(ctx, sync); err != nil {
		return err
	}
	fmt.Fprintf(cfg.Talk, "workflow %s is declared: for each %s at most %d at once, and %d starts a second in bursts of %d\n",
		workflow, keyName, maxAtOnce, perSecond, burst)
	began := time.Now()
	sent, err := submit(ctx, c, all)
	if err != nil {
		return err
	}
	fmt.Fprintf(cfg.Talk, "%d runs are submitted, each of them durable, in %v\n", len(sent), time.Since(began).Round(time.Millisecond))
	if err := work(ctx, cfg, c, &shift{witness: w, workflow: sync, sent: sent, began: began}); err != nil {
		return err
	}
	rows := tally(sent, w.seen())
	if err := printTable(cfg.Out, rows, time.Since(began)); err != nil {
		return err
	}
	return judge(rows)
}

// shift is the work that is to be done.
type shift struct {
	witness  *witness
	workflow pyrula.Definition
	sent     []*run
	began    time.Time
}

// work runs a worker until every run has ended, and notes how each did.
func work(ctx context.Context, cfg Config, c *pyrula.Client, s *shift) error {
	worker, err := c.NewWorker(pyrula.WorkerConfig{
		Name: "demo", Concurrency: bodiesAtOnce, DrainTimeout: drainTimeout, Logger: cfg.Logger,
	}, s.workflow)
	if err != nil {
		return err
	}
	working, stop := context.WithCancelCause(ctx)
	served := make(chan error, 1)
	go func() {
		err := worker.Run(working)
		stop(err) // a worker that gave up ends the wait for its runs
		served <- err
	}()
	told := newProgress(cfg, s)
	err = awaitEnds(working, c, s.sent)
	told.stop()
	stop(nil)
	if worked := <-served; worked != nil {
		return worked
	}
	return err
}

// awaitEnds waits for the end of each run.
func awaitEnds(ctx context.Context, c *pyrula.Client, sent []*run) error {
	for _, r := range sent {
		status, err := c.Wait(ctx, r.id)
		if err != nil {
			return err
		}
		r.end = status
	}
	return nil
}

// run is a run as the demonstration knows it from the outside.
type run struct {
	id   string
	sent time.Time // before the request that submitted it
	end  *wire.Run // how it ended; nil while it isn't known
}

// submit sends all runs in as few requests as the API allows.
func submit(ctx context.Context, c *pyrula.Client, all []params) ([]*run, error) {
	var sent []*run
	for begin := 0; begin < len(all); begin += wire.MaxBatch {
		part := all[begin:min(begin+wire.MaxBatch, len(all))]
		batch := make([]pyrula.Submission, len(part))
		for i, p := range part {
			batch[i] = pyrula.Submission{Workflow: workflow, Params: p}
		}
		at := time.Now()
		done, err := c.SubmitBatch(ctx, batch)
		if err != nil {
			return nil, err
		}
		for i := range done {
			if done[i].Err != nil {
				return nil, fmt.Errorf("submit run %d: %w", begin+i+1, done[i].Err)
			}
			sent = append(sent, &run{id: done[i].RunID, sent: at})
		}
	}
	return sent, nil
}
