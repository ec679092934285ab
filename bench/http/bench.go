package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pyrula/pyrula-node/bench/load"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// bench runs configurations one after the other.
type bench struct {
	options
	out     io.Writer
	machine load.Machine
	server  program // what is started; without -addr
	number  int     // of the last workflow: each target has one of its own
	dropped int     // repetitions thrown away for the configuration at hand
}

// run measures everything that the flags ask for.
func (o *options) run(ctx context.Context, out io.Writer) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	b := &bench{options: *o, out: out, machine: load.ThisMachine()}
	dir, err := os.MkdirTemp("", "pyrula-bench-")
	if err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if o.addr == "" {
		if b.server, err = build(dir, o.profile != ""); err != nil {
			return err
		}
		if b.machine.FsyncMicros, err = load.MeasureFsync(dir); err != nil {
			return err
		}
	}
	switch {
	case b.soak > 0:
		return b.soakRuns(ctx)
	case b.snapshots:
		return b.snapshotCost(ctx)
	case b.windows > 0:
		return b.windowed(ctx)
	}
	for _, keys := range o.keys {
		if err := b.forKeys(ctx, keys); err != nil {
			return err
		}
	}
	return nil
}

// forKeys measures one number of keys.
func (b *bench) forKeys(ctx context.Context, keys int) error {
	if b.recovery {
		return b.recoverQueued(ctx, job{keys: keys})
	}
	for _, clients := range b.clients {
		if err := b.shapes(ctx, keys, clients); err != nil {
			return err
		}
	}
	return nil
}

func (o *options) check() error {
	switch {
	case o.reps < 1 || o.tries < 1 || o.dur <= 0 || o.warm < 0:
		return errors.New("-reps, -tries and -dur must be positive, -warm not negative")
	case !o.eventful && slices.Max(o.batch) > wire.MaxBatch:
		return fmt.Errorf("-batch must be at most %d", wire.MaxBatch)
	case slices.Max(o.batch) > wire.MaxEvents:
		return fmt.Errorf("-batch must be at most %d with -events", wire.MaxEvents)
	case o.windows < 0 || o.windows > 0 && o.window <= 0:
		return errors.New("-windows must not be negative, and -window must be positive")
	case o.profile != "" && o.addr != "":
		return errors.New("-profile needs a server of its own: leave -addr out")
	case o.gates && o.max < 1:
		return errors.New("-max must be positive")
	}
	return o.checkDurability()
}

// checkDurability checks the flags of what stops and starts a server.
func (o *options) checkDurability() error {
	durability := o.soak > 0 || o.recovery || o.snapshots || o.windows > 0
	switch {
	case o.soak < 0 || o.rest < 0:
		return errors.New("-soak and -rest must not be negative")
	case durability && o.addr != "":
		return errors.New("-soak, -recovery, -snapshots and -windows need a server of their own: leave -addr out")
	case o.soak > 0 && o.fused:
		return errors.New("-soak completes and claims in two requests: leave -fused out")
	case (o.recovery || o.snapshots) && (o.runs < 1 || o.perSec < 1):
		return errors.New("-runs and -rate must be positive")
	}
	return nil
}

// shapes measures one number of keys and clients in all shapes.
func (b *bench) shapes(ctx context.Context, keys, clients int) error {
	j := job{keys: keys, fused: b.fused, batch: 1}
	if b.gates {
		return b.gate(ctx, j, clients)
	}
	for _, j.batch = range b.batch {
		var err error
		switch {
		case b.eventful:
			err = b.events(ctx, j, clients)
		case len(b.backlog) > 0:
			err = b.standing(ctx, j, clients)
		default:
			err = b.cycles(ctx, j, clients)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// target is a node with a workflow of its own.
type target struct {
	job
	process *process // nil with -addr
}

// open prepares a node: a fresh one, or a fresh workflow of the one at -addr.
func (b *bench) open(j job, p policy) (target, error) {
	b.number++
	j.workflow = fmt.Sprintf("bench_%d_%d", os.Getpid(), b.number)
	t := target{job: j}
	var err error
	if b.addr != "" {
		t.host, err = hostOf(b.addr)
	} else if t.process, err = b.server.launch(b.fsync); err == nil {
		t.host = t.process.host
	}
	if err != nil {
		return t, err
	}
	if err := declare(t.job, p); err != nil {
		return t, errors.Join(fmt.Errorf("declare: %w", err), t.close())
	}
	return t, nil
}

func (t target) close() error {
	if t.process == nil {
		return nil
	}
	return t.process.stop()
}

// plan is a repetition against a target; the caller says who connects.
func (b *bench) plan(t target, clients int) load.Plan {
	p := load.Plan{Clients: clients, Warm: b.warm, Dur: b.dur, Connect: t.connect}
	if t.process != nil {
		p.Usage = t.process.usage
	}
	return p
}

// repeat does a repetition again until it has had the machine to itself.
func (b *bench) repeat(once func() (load.Repetition, error)) (load.Repetition, error) {
	for try := 1; ; try++ {
		rep, err := once()
		if err != nil || try == b.tries || rep.CPU.Others() <= b.others {
			return rep, err
		}
		b.dropped++
	}
}

// measure does one repetition, on a quiet machine if there will be one.
func (b *bench) measure(ctx context.Context, p load.Plan) (load.Repetition, error) {
	quiet := load.WaitQuiet(ctx, b.quiet)
	rep, err := p.Run(ctx)
	rep.Busy = !quiet
	if rep.Tally.Err != nil {
		fmt.Fprintln(os.Stderr, "http: an error among", rep.Tally.Errors, "is:", rep.Tally.Err)
	}
	return rep, err
}

// cycles measures with an empty queue, each repetition on a fresh server.
func (b *bench) cycles(ctx context.Context, j job, clients int) error {
	var reps []load.Repetition
	for i := range b.reps {
		rep, err := b.repeat(func() (load.Repetition, error) { return b.cyclesOnce(ctx, j, clients, i == b.reps-1) })
		if err != nil {
			return err
		}
		reps = append(reps, rep)
	}
	res := b.result(j, clients)
	res.Fold(reps)
	return load.Write(b.out, res)
}

func (b *bench) cyclesOnce(ctx context.Context, j job, clients int, last bool) (rep load.Repetition, err error) {
	t, err := b.open(j, openGates)
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	p := b.plan(t, clients)
	if last {
		b.profiled(&p, t, fmt.Sprintf("batch%d-clients%d", j.batch, clients))
	}
	return b.measure(ctx, p)
}

// profiled has a repetition take profiles, if that was asked for.
func (b *bench) profiled(p *load.Plan, t target, name string) {
	if b.profile == "" {
		return
	}
	if b.fused {
		name = "fused-" + name
	}
	p.Measuring = func() {
		if err := t.process.profile(filepath.Join(b.profile, name), b.dur); err != nil {
			fmt.Fprintln(os.Stderr, "http:", err)
		}
	}
}

// result is a line without its figures, for the repetitions since the last one.
func (b *bench) result(j job, clients int) load.Result {
	r := load.Result{
		Peer: "pyrula-node", Variant: j.variant(), Clients: clients, Keys: j.keys, Batch: j.batch,
		Machine: b.machine, Durability: "that of " + b.addr, Dropped: b.dropped,
	}
	b.dropped = 0
	switch every, lazy := strings.CutPrefix(b.fsync, "every="); {
	case b.addr != "":
	case lazy:
		r.Durability = "fsync every " + every
	default:
		r.Durability = "fsync every commit"
	}
	return r
}
