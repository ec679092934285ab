package inline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/actors/keyexpr"
	"github.com/pyrula/pyrula-node/persistence/volatile"
	"github.com/pyrula/pyrula-node/pyrula"
	"github.com/pyrula/pyrula-node/pyrula/inline/internal/loopback"
	"github.com/pyrula/pyrula-node/transport"
)

const (
	// DefaultGateTimeout is how long a run may be gated unless a runner says otherwise.
	DefaultGateTimeout = 300 * time.Second
	// NoGateTimeout lets a run be gated for as long as it takes.
	NoGateTimeout time.Duration = -1

	// shards is that of a node's default.
	shards = 16
	// maxInFlight bounds the requests under way: each waiting call has one, and there is
	// no connection to spend on it.
	maxInFlight = 1 << 20
	// startTimeout bounds the start. It passes only when a shard hangs.
	startTimeout = 30 * time.Second
	// nodeName is shown as the node's id.
	nodeName = "inline"
)

// Config is how a runner works. The zero value is the default of everything.
type Config struct {
	// GateTimeout is how long a run may be gated before [Run] gives it up; nil means
	// DefaultGateTimeout, 0 that it isn't to wait at a gate at all, NoGateTimeout (or
	// anything below 0) that it may wait for ever.
	GateTimeout *time.Duration
	// Concurrency is how many bodies run at once; 1 to pyrula.MaxConcurrency, which is the
	// default: gates are what limits runs, and a body that waits inside costs little.
	Concurrency int
	// Logger takes the lines about gated runs and the worker's warnings, and is what each
	// Run.Log is made of. Defaults to slog.Default().
	Logger *slog.Logger
}

// Runner runs the workflows that it serves, in this process. It is made by [New] and may
// be used by many goroutines.
type Runner struct {
	*machine
	gateTimeout time.Duration
}

// machine is what all views of a runner share.
type machine struct {
	log    *slog.Logger
	places int
	engine *volatile.Engine
	node   *actors.Node
	door   *door
	server *transport.Server
	wire   *loopback.Transport
	client *pyrula.Client

	// calls are the calls of Run and Serve under way; closing ends with the cause
	// pyrula.ErrClosed.
	closing context.Context //nolint:containedctx // as long as the runner lives
	endAll  context.CancelCauseFunc
	calls   sync.WaitGroup
	once    sync.Once
	closed  error

	mu      sync.Mutex // guards what follows, and Add of calls against Wait
	served  map[string]bool
	workers []worker
}

// worker is one that works; ended gives what it ended with.
type worker struct {
	stop  context.CancelFunc
	ended chan error
}

// New makes a runner that serves the workflows. What it knows of ended runs stays in
// memory until it is closed, some 2 KB for each small one, and it takes no more than
// actors.DefaultMaxRuns of them. Close ends it. Error: [pyrula.ErrConfiguration] for a
// wrong setting or a wrong declaration.
func New(cfg Config, workflows ...pyrula.Definition) (*Runner, error) {
	m := &machine{
		log: cmp.Or(cfg.Logger, slog.Default()), served: map[string]bool{},
		places: cmp.Or(cfg.Concurrency, pyrula.MaxConcurrency),
	}
	m.closing, m.endAll = context.WithCancelCause(context.Background())
	r := &Runner{machine: m, gateTimeout: DefaultGateTimeout}
	if cfg.GateTimeout != nil {
		r.gateTimeout = *cfg.GateTimeout
	}
	err := m.start()
	if err == nil && len(workflows) > 0 {
		err = r.Serve(workflows...)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("inline: %w", err), r.Close())
	}
	return r, nil
}

// start builds from the inside out; shut takes down whatever of it stands.
func (m *machine) start() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	m.engine = volatile.New(nodeName, shards)
	expressions, err := keyexpr.New()
	if err != nil {
		return err
	}
	if m.node, err = actors.Open(actors.Config{Engine: m.engine, Logger: m.log, Expressions: expressions}); err != nil {
		return err
	}
	if err := m.engine.Start(ctx); err != nil {
		return err
	}
	if err := m.node.WaitReady(ctx); err != nil {
		return err
	}
	m.door = newDoor(m.node, m.log)
	m.server = transport.NewServer(transport.Config{Node: m.door, Logger: m.log, MaxInFlight: maxInFlight})
	m.wire = loopback.New(m.server)
	m.client, err = pyrula.Dial(ctx, pyrula.WithAddr(nodeName), pyrula.WithHTTPClient(m.wire.Client()))
	return err
}

// Serve has the runner serve more workflows, at least one, with a worker of their own
// and so with Concurrency places of their own. Errors: [pyrula.ErrConfiguration],
// [pyrula.ErrClosed].
func (r *Runner) Serve(workflows ...pyrula.Definition) error {
	m := r.machine
	if !m.begin() {
		return fmt.Errorf("serve workflows: %w", pyrula.ErrClosed)
	}
	defer m.end()
	m.mu.Lock()
	name := nodeName
	if n := len(m.workers); n > 0 {
		name += fmt.Sprintf("-%d", n+1)
	}
	m.mu.Unlock()
	w, err := m.client.NewWorker(pyrula.WorkerConfig{Name: name, Concurrency: m.places, DrainTimeout: -1, Logger: m.log}, workflows...)
	if err != nil {
		return err
	}
	// Before the worker does it: a submit by name right after this finds the gates.
	declared, err := m.client.Declare(m.closing, workflows...)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	started := worker{stop: stop, ended: make(chan error, 1)}
	go func() { started.ended <- w.Run(ctx) }()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.workers = append(m.workers, started)
	for i := range declared {
		m.served[declared[i].Workflow] = true
	}
	return nil
}

// serves says whether the runner serves a workflow.
func (m *machine) serves(workflow string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.served[workflow]
}

// Client speaks with the node inside the runner. It does all that a client of a server
// does, for as long as the runner lives; the runner takes whatever it submits of the
// workflows that it serves. The gate timeout is of [Run] alone: runs that the client
// submits wait for as long as it takes.
func (r *Runner) Client() *pyrula.Client { return r.client }

// WithGateTimeout is the same runner with another gate timeout, in the sense of
// [Config]: 0 doesn't wait at a gate at all, NoGateTimeout waits for ever. Closing either
// closes both.
func (r *Runner) WithGateTimeout(timeout time.Duration) *Runner {
	return &Runner{machine: r.machine, gateTimeout: timeout}
}

// Close ends the runner and all that is its: calls of [Run] return [pyrula.ErrClosed],
// the contexts of bodies end with the cause [pyrula.ErrDraining], and what is left of
// their runs is forgotten. It returns when every goroutine of the runner has ended. A
// body must not call it. Error: [pyrula.ErrDrainTimeout] when bodies ignore the end of
// their context for 3 s. Later calls answer what the first did.
func (r *Runner) Close() error {
	r.once.Do(func() { r.closed = r.shut() })
	return r.closed
}

// begin admits a call of Run; the caller calls end when it is over.
func (m *machine) begin() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closing.Err() != nil {
		return false
	}
	m.calls.Add(1)
	return true
}

func (m *machine) end() { m.calls.Done() }

// shut takes down what stands, from the outside in.
func (m *machine) shut() error {
	m.mu.Lock()
	m.endAll(pyrula.ErrClosed)
	m.mu.Unlock()
	m.calls.Wait()
	var errs []error
	for _, w := range m.workers { // nobody adds to them any more
		w.stop()
		errs = append(errs, <-w.ended)
	}
	if m.client != nil {
		errs = append(errs, m.client.Close())
	}
	if m.server != nil {
		m.server.Drain() // who waits for a run's end is answered
		m.wire.Close()
	}
	if m.node != nil {
		errs = append(errs, m.node.Quiesce(), m.engine.Close(context.Background()), m.node.Close())
	}
	return errors.Join(errs...)
}
