package pyrula

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// Defaults and bounds of a worker.
const (
	DefaultConcurrency  = 16
	MaxConcurrency      = 1 << 14
	DefaultDrainTimeout = 25 * time.Second
	// stopGrace is for bodies to return, and for their runs to be handed back, once the
	// drain timeout is over. Both together stay under the 30 s that a Kubernetes pod
	// has by default.
	stopGrace = 3 * time.Second
)

// WorkerConfig is how a worker works. The zero value is the default of everything.
type WorkerConfig struct {
	// Name is shown with the runs that the worker holds; at most 128 bytes. Defaults to
	// host name, process id and a few random characters.
	Name string
	// Concurrency is how many bodies run at once, and so the credit that the worker
	// offers; 1 to 16,384. Defaults to 16.
	Concurrency int
	// DrainTimeout is how long bodies may go on once the worker's context has ended.
	// Then their contexts end, and what they leave undone is handed back. Defaults to
	// 25 s; negative means at once.
	DrainTimeout time.Duration
	// Logger takes the worker's warnings, and is what each Run.Log is made of. Defaults
	// to slog.Default().
	Logger *slog.Logger
}

func (cfg WorkerConfig) withDefaults() WorkerConfig {
	if cfg.Name == "" {
		// Without a host name the process id and the random characters still tell
		// workers apart.
		host, _ := os.Hostname()
		cfg.Name = cmp.Or(host, "worker") + "-" + strconv.Itoa(os.Getpid()) + "-" + uuid.NewString()[:8]
	}
	cfg.Concurrency = cmp.Or(cfg.Concurrency, DefaultConcurrency)
	cfg.DrainTimeout = cmp.Or(cfg.DrainTimeout, DefaultDrainTimeout)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	return cfg
}

func (cfg WorkerConfig) validate() error {
	switch {
	case !flow.ValidName(cfg.Name):
		return fmt.Errorf("%w: the worker's name must be %s", ErrConfiguration, flow.NameRule)
	case cfg.Concurrency < 1 || cfg.Concurrency > MaxConcurrency:
		return fmt.Errorf("%w: the worker's concurrency must be from 1 to %d, not %d", ErrConfiguration, MaxConcurrency, cfg.Concurrency)
	}
	return nil
}

// Worker runs the bodies of workflows. It is made by [Client.NewWorker] and started
// by [Worker.Run].
type Worker struct {
	client      *Client
	cfg         WorkerConfig
	definitions map[string]*definition
	workflows   []Definition
	now         func() time.Time // the monotonic clock; tests stop it

	functionKeys bool // one of the workflows has a key that only its code can compute
}

// Work runs the bodies of workflows until ctx ends, with the default
// [WorkerConfig]. See [Worker.Run].
func (c *Client) Work(ctx context.Context, workflows ...Definition) error {
	w, err := c.NewWorker(WorkerConfig{}, workflows...)
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// NewWorker checks a worker's settings and the workflows that it is to serve, at
// least one and at most 256, no name twice. Error: [ErrConfiguration], also for a
// workflow whose declaration is wrong (P57).
func (c *Client) NewWorker(cfg WorkerConfig, workflows ...Definition) (*Worker, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if len(workflows) == 0 || len(workflows) > wire.MaxWorkflows {
		return nil, fmt.Errorf("%w: a worker serves 1 to %d workflows, not %d", ErrConfiguration, wire.MaxWorkflows, len(workflows))
	}
	w := &Worker{client: c, cfg: cfg, workflows: workflows, definitions: map[string]*definition{}, now: time.Now}
	for _, workflow := range workflows {
		d := workflow.definition()
		if d.err != nil {
			return nil, d.err
		}
		if w.definitions[d.name] != nil {
			return nil, d.wrong("name", "must be served once by a worker")
		}
		w.definitions[d.name] = d
		w.functionKeys = w.functionKeys || d.functionKey()
	}
	return w, nil
}

// Run serves the workflows until ctx ends: it declares them, claims runs while it
// has free places, and works on them. A node that can't be reached is asked again
// for as long as ctx lives.
//
// When ctx ends the worker drains: it claims no more, lets bodies finish for the
// drain timeout, then ends their contexts and hands back what they leave undone,
// which uses no attempt. Run then returns nil. Errors: [ErrDrainTimeout] when bodies
// ignored their ended context, [ErrConfiguration] and the like when the node refuses
// the declarations.
func (w *Worker) Run(ctx context.Context) error {
	s := newShift(ctx, w)
	defer s.end()
	err := s.declare(ctx)
	if err == nil {
		err = s.claims(ctx)
	}
	if drained := s.drain(); drained != nil && err == nil {
		err = drained
	}
	if err != nil {
		return fmt.Errorf("worker %s: %w", w.cfg.Name, err)
	}
	return nil
}

// patience is how long one claim waits at the node for a run. A first lease counts
// from the sending of the claim (R1), so a claim that waits for no more than a third
// of the shortest lease brings runs that may start at once.
func (w *Worker) patience() time.Duration {
	wait := waitFor
	for _, workflow := range w.workflows {
		wait = min(wait, workflow.definition().lease/startShare)
	}
	return wait
}
