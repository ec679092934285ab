package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

func (p *program) showCommand() *cobra.Command {
	wait := time.Duration(0)
	show := &cobra.Command{
		Use:   "show RUN",
		Short: "Show a run",
		Long: `Show a run as it stands; of one that was handed on, its successor. With --wait, wait for
its end first, as "wait" does.`,
		Args: oneRun,
	}
	show.Flags().DurationVar(&wait, "wait", 0, "how long to wait for the run's end, as 30s")
	show.RunE = p.asking(func(ctx context.Context, a *asker, args []string) error {
		if wait > 0 {
			return p.awaited(ctx, a, args[0], wait)
		}
		run, err := a.Status(ctx, args[0])
		if err != nil {
			return err
		}
		return p.print(a, func() error { return p.showTable(ctx, a, run) })
	})
	return show
}

func (p *program) waitCommand() *cobra.Command {
	timeout := time.Duration(0)
	wait := &cobra.Command{
		Use:   "wait RUN",
		Short: "Wait for a run's end and show it",
		Long: `Wait for a run's end and show it; of one that was handed on, its successor's. The command
exits with 0 when the run completed, with 5 when it failed, with 6 when it was cancelled or
terminated, and with 7 when the time of --timeout is over.`,
		Args: oneRun,
	}
	wait.Flags().DurationVar(&timeout, "timeout", 0, "how long to wait, as 30s; without it, for as long as it takes")
	wait.RunE = p.asking(func(ctx context.Context, a *asker, args []string) error {
		if timeout < 0 {
			return &usageError{wait.CommandPath(), errors.New("timeout: want a time above 0, or none")}
		}
		return p.awaited(ctx, a, args[0], timeout)
	})
	return wait
}

// awaited waits for a run's end, shows the run, and gives the error that its end stands
// for. A timeout of 0 is none.
func (p *program) awaited(ctx context.Context, a *asker, id string, timeout time.Duration) error {
	run, err := awaitEnd(ctx, a, id, timeout)
	if run == nil {
		return err
	}
	if printed := p.print(a, func() error { return p.showTable(ctx, a, run) }); printed != nil {
		return printed
	}
	if err == nil {
		err = endOf(run)
	}
	return err
}

// awaitEnd waits for a run's end. When the time is over it gives the run as it
// stands, with errTimedOut.
func awaitEnd(ctx context.Context, a *asker, id string, timeout time.Duration) (*pyrula.RunStatus, error) {
	bounded, cancel := ctx, context.CancelFunc(func() {})
	if timeout > 0 {
		bounded, cancel = context.WithTimeoutCause(ctx, timeout, errTimedOut)
	}
	defer cancel()
	ended, err := a.Wait(bounded, id)
	if err == nil {
		return ended, nil
	}
	if !errors.Is(err, errTimedOut) {
		return nil, err
	}
	now, err := a.Status(ctx, id)
	if err != nil {
		return nil, err
	}
	return now, fmt.Errorf("run %s is %s after %v: %w", now.RunID, now.Status, timeout, errTimedOut)
}

// endOf is the error that an ended run stands for; nil for one that completed.
func endOf(run *pyrula.RunStatus) error {
	switch status, _ := flow.ParseStatus(run.Status); status {
	case flow.StatusFailed:
		failed := &pyrula.RunFailed{RunID: run.RunID}
		if run.Error != nil {
			failed.Type, failed.Message = run.Error.Type, run.Error.Message
		}
		return failed
	case flow.StatusCancelled:
		return fmt.Errorf("run %s: %w", run.RunID, pyrula.ErrRunCancelled)
	case flow.StatusTerminated:
		return fmt.Errorf("run %s: %w", run.RunID, pyrula.ErrRunTerminated)
	default:
		return nil
	}
}

func (p *program) showTable(ctx context.Context, a *asker, r *pyrula.RunStatus) error {
	events, err := a.Events(ctx, r.RunID)
	if err != nil {
		return err
	}
	table := p.facts()
	if r.RequestedRunID != "" {
		table.line("asked for", r.RequestedRunID+", which was handed on")
	}
	table.line("run", r.RunID)
	table.line("workflow", quoted(r.Workflow))
	table.line("version", quoted(versionOf(r, events)))
	showOrigin(table, r)
	table.line("status", r.Status)
	table.line("waits for", waitsFor(r.Wait))
	if r.Wait != nil && r.Wait.Since != nil {
		table.line("waits since", ago(*r.Wait.Since))
	}
	if r.GatesUnknown {
		table.line("gates", "unknown: nobody had declared the workflow when the run was submitted")
	}
	for _, g := range r.Gates {
		table.line(g.Kind, gateText(g))
	}
	table.line("attempt", strconv.FormatInt(r.Attempt, 10))
	table.named("worker", r.Worker)
	if r.CancelRequested {
		table.line("cancel", "requested")
	}
	table.line("submitted", clock(r.SubmittedAt))
	table.line("started", clockOrNone(r.StartedAt))
	table.line("ended", clockOrNone(r.EndedAt))
	if reason := reasonOf(events); reason != "" {
		table.line("reason", quoted(reason))
	}
	if len(r.Result) > 0 && string(r.Result) != "null" {
		table.line("result", string(r.Result))
	}
	if failed := errorOf(r, events); failed != nil {
		table.line("error", quoted(failed.Type)+": "+quoted(failed.Message))
	}
	return table.Flush()
}

// showOrigin writes what made the run.
func showOrigin(table facts, r *pyrula.RunStatus) {
	table.named("idempotency key", r.IdempotencyKey)
	from := &r.Provenance.Source
	table.named("took over from", from.GatedFrom)
	if from.GatedRoot != nil && from.GatedFrom != nil && *from.GatedRoot != *from.GatedFrom {
		table.named("and before from", from.GatedRoot)
	}
	table.named("child of", from.Parent)
	table.named("retry of", from.RetryOf)
	table.named("schedule", from.Schedule)
}

// versionOf is the version of the worker that held the run last, else the one that the
// run was stamped with.
func versionOf(r *pyrula.RunStatus, events []pyrula.Event) string {
	for _, e := range slices.Backward(events) {
		if e.Type == flow.EventClaimed && e.Version != nil {
			return *e.Version
		}
	}
	return r.StampedVersion
}

// errorOf is why the run failed or, while it waits for another attempt, why its last one
// did; nil when there is no such error.
func errorOf(r *pyrula.RunStatus, events []pyrula.Event) *wire.RunError {
	if r.Error != nil || r.Status != flow.StatusSuspended.String() {
		return r.Error
	}
	for _, e := range slices.Backward(events) {
		switch e.Type {
		case flow.EventRetrying:
			return e.Error
		case flow.EventClaimed:
			return nil // it has begun again since
		}
	}
	return nil
}

// reasonOf is why the run was asked to stop; "" when it wasn't, or nobody said.
func reasonOf(events []pyrula.Event) string {
	for _, e := range slices.Backward(events) {
		if e.Reason != "" {
			return e.Reason
		}
	}
	return ""
}
