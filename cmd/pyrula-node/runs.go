package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

func (p *program) runsCommand() *cobra.Command {
	runs := &cobra.Command{
		Use: "runs", Aliases: []string{"run"},
		Short: "List and show runs, cancel them, ask why they wait",
		Args:  noArgs,
		RunE:  help,
	}
	p.declareAsking(runs)
	runs.AddCommand(p.listCommand(), p.showCommand(), p.whyCommand(), p.cancelCommand())
	return runs
}

// oneRun refuses anything but one run id.
func oneRun(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return &usageError{c.CommandPath(), fmt.Errorf("want one run id, got %d arguments", len(args))}
	}
	if _, err := flow.ParseRunID(args[0]); err != nil {
		return &usageError{err: fmt.Errorf("%q is not a run id: want \"run_\" and 26 characters", args[0])}
	}
	return nil
}

func (p *program) listCommand() *cobra.Command {
	var q pyrula.ListQuery
	key := ""
	list := &cobra.Command{Use: "list", Short: "List runs, newest first", Args: noArgs}
	flags := list.Flags()
	flags.StringVar(&q.Workflow, "workflow", "", "only runs of this workflow")
	flags.StringVar(&q.Status, "status", "", "only runs that are queued, executing, suspended, completed, failed, cancelled, terminated or continued")
	flags.StringVar(&key, "key", "", "only runs with this key; the empty key is one")
	flags.IntVar(&q.Limit, "limit", 100, "runs in one page, 1 to "+strconv.Itoa(wire.MaxListLimit))
	flags.StringVar(&q.Cursor, "cursor", "", "where the page before ended")
	list.RunE = p.asking(func(ctx context.Context, a *asker, _ []string) error {
		if flags.Changed("key") {
			q.Key = &key
		}
		if q.Limit < 1 {
			return &usageError{list.CommandPath(), errors.New("limit: want at least 1")}
		}
		page, err := a.List(ctx, q)
		if err != nil {
			return err
		}
		return p.print(a, func() error { return p.listTable(page) })
	})
	return list
}

func (p *program) listTable(page *pyrula.RunList) error {
	table := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RUN\tWORKFLOW\tSTATUS\tKEY\tATTEMPT\tSUBMITTED\tWAITS FOR")
	for i := range page.Runs {
		r := &page.Runs[i]
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n",
			r.RunID, quoted(r.Workflow), r.Status, keyOf(r), r.Attempt, clock(r.SubmittedAt), waitsFor(r.Wait))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if page.NextCursor != nil {
		fmt.Fprintf(p.stderr, "more with --cursor %s\n", *page.NextCursor)
	}
	return nil
}

func (p *program) showCommand() *cobra.Command {
	wait := time.Duration(0)
	show := &cobra.Command{
		Use:   "show RUN",
		Short: "Show a run",
		Long: `Show a run as it stands. With --wait, wait for its end first: the command exits with
5 when the run failed, 6 when it was cancelled or terminated, and 7 when the time is over.`,
		Args: oneRun,
	}
	show.Flags().DurationVar(&wait, "wait", 0, "how long to wait for the run's end, as 30s")
	show.RunE = p.asking(func(ctx context.Context, a *asker, args []string) error {
		run, err := a.Status(ctx, args[0])
		if err == nil && wait > 0 {
			run, err = awaitEnd(ctx, a, run, wait)
		}
		if run == nil {
			return err
		}
		if printed := p.print(a, func() error { return p.showTable(ctx, a, run) }); printed != nil {
			return printed
		}
		if err == nil && wait > 0 {
			err = endOf(run)
		}
		return err
	})
	return show
}

// awaitEnd waits for a run's end. When the time is over it gives the run as it
// stands, with errTimedOut.
func awaitEnd(ctx context.Context, a *asker, run *pyrula.RunStatus, wait time.Duration) (*pyrula.RunStatus, error) {
	bounded, cancel := context.WithTimeoutCause(ctx, wait, errTimedOut)
	defer cancel()
	ended, err := a.Wait(bounded, run.RunID)
	if err == nil {
		return ended, nil
	}
	if !errors.Is(err, errTimedOut) {
		return nil, err
	}
	now, err := a.Status(ctx, run.RunID)
	if err != nil {
		return nil, err
	}
	return now, fmt.Errorf("run %s is %s after %v: %w", now.RunID, now.Status, wait, errTimedOut)
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
	table := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(table, "%s\t%s\n", name, text)
		}
	}
	line("run", r.RunID)
	line("workflow", quoted(r.Workflow))
	line("version", quoted(versionOf(r, events)))
	if r.IdempotencyKey != nil {
		line("idempotency key", quoted(*r.IdempotencyKey))
	}
	line("status", r.Status)
	line("waits for", waitsFor(r.Wait))
	for _, g := range r.Gates {
		line(g.Kind, gateText(g))
	}
	line("attempt", strconv.FormatInt(r.Attempt, 10))
	if r.Worker != nil {
		line("worker", quoted(*r.Worker))
	}
	if r.CancelRequested {
		line("cancel", "requested")
	}
	line("submitted", clock(r.SubmittedAt))
	line("started", clockOrNone(r.StartedAt))
	line("ended", clockOrNone(r.EndedAt))
	if reason := reasonOf(events); reason != "" {
		line("reason", quoted(reason))
	}
	if len(r.Result) > 0 && string(r.Result) != "null" {
		line("result", string(r.Result))
	}
	if failed := errorOf(r, events); failed != nil {
		line("error", quoted(failed.Type)+": "+quoted(failed.Message))
	}
	return table.Flush()
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

func (p *program) whyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "why RUN", Short: "Say why a run waits, and who holds what it waits for", Args: oneRun,
		RunE: p.asking(func(ctx context.Context, a *asker, args []string) error {
			why, err := a.Why(ctx, args[0])
			if err != nil {
				return err
			}
			return p.print(a, func() error { return p.whyTable(why) })
		}),
	}
}

func (p *program) whyTable(why *pyrula.Why) error {
	fmt.Fprintln(p.stdout, dated(why.Text))
	table := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	for _, g := range why.Gates {
		state := "open"
		switch {
		case !g.Open && g.OpensAt != nil:
			state = "shut until " + upcoming(*g.OpensAt)
		case !g.Open:
			state = "shut"
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\n", g.Kind, gateText(g.Gate), state)
	}
	for _, h := range why.Holders {
		fmt.Fprintf(table, "  held by\t%s\t%s\n", h.RunID, h.State)
	}
	return table.Flush()
}

func (p *program) cancelCommand() *cobra.Command {
	reason := ""
	cancel := &cobra.Command{
		Use:   "cancel RUN",
		Short: "Ask for a run's end",
		Long: `Ask for a run's end. One that waits ends at once, one that executes when its worker has
stopped. Cancelling a run that has ended changes nothing and is no error.`,
		Args: oneRun,
	}
	cancel.Flags().StringVar(&reason, "reason", "", "kept in the run's journal")
	cancel.RunE = p.asking(func(ctx context.Context, a *asker, args []string) error {
		if err := a.Cancel(ctx, args[0], reason); err != nil {
			return err
		}
		return p.print(a, func() error {
			var done wire.Stopped
			if err := json.Unmarshal(a.tape.body, &done); err != nil {
				return fmt.Errorf("%w: %w", pyrula.ErrBadAnswer, err)
			}
			_, err := fmt.Fprintf(p.stdout, "%s %s\n", done.RunID, cancelText(&done))
			return err
		})
	})
	return cancel
}

// cancelText says what a cancel has done. One that executes goes on for a while, and
// "executing" alone would look as if nothing had happened.
func cancelText(done *wire.Stopped) string {
	switch {
	case done.Status == flow.StatusExecuting.String():
		asked := "cancel requested"
		if !done.Changed {
			asked = "cancel was requested before"
		}
		return asked + "; it ends when its worker stops the body, or when its lease runs out"
	case !done.Changed:
		return done.Status + " (nothing changed)"
	}
	return done.Status
}

// gateText is a gate in one line.
func gateText(g wire.Gate) string {
	text := fmt.Sprintf("%s=%s", g.KeyName, quoted(g.Key))
	if g.Max > 0 {
		return fmt.Sprintf("%s  at most %d at once", text, g.Max)
	}
	return fmt.Sprintf("%s  %s a second, burst %d", text, strconv.FormatFloat(g.PerSecond, 'g', -1, 64), g.Burst)
}

// waitsFor is what a run waits for, in one word and its facts; "" when it doesn't.
func waitsFor(w *wire.Wait) string {
	if w == nil {
		return ""
	}
	text := w.Reason
	if w.Used != nil && w.Max != nil {
		text += fmt.Sprintf(" %d/%d", *w.Used, *w.Max)
	}
	if w.Position != nil {
		text += fmt.Sprintf(" place %d", *w.Position)
	}
	if w.OpensAt != nil {
		text += " until " + upcoming(*w.OpensAt)
	}
	return text
}

// keyOf is the key that a run is known by: of its first gate, "-" without gates.
func keyOf(r *pyrula.RunStatus) string {
	if len(r.Gates) == 0 {
		return "-"
	}
	return quoted(r.Gates[0].Key)
}

// quoted is a text that may come from anywhere, fit for a terminal: as it is when it
// is plain, else in quotes.
func quoted(text string) string {
	if q := strconv.Quote(text); text == "" || strings.ContainsRune(text, ' ') || q[1:len(q)-1] != text {
		return q
	}
	return text
}

// clock is an instant of the API in UTC.
func clock(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// upcoming is an instant to come, with the time until then: "..., in 0.8 s".
func upcoming(ms int64) string {
	left := time.Until(time.UnixMilli(ms))
	if left < 0 {
		return clock(ms)
	}
	if left < time.Minute {
		return fmt.Sprintf("%s, in %.1f s", clock(ms), left.Seconds())
	}
	return fmt.Sprintf("%s, in %v", clock(ms), left.Round(time.Second))
}

// instants is how the API's sentences name an instant.
var instants = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// dated is a sentence of the API with the time that is left until its instants.
func dated(text string) string {
	return instants.ReplaceAllStringFunc(text, func(found string) string {
		at, err := time.Parse(time.RFC3339Nano, found)
		if err != nil {
			return found
		}
		return upcoming(at.UnixMilli())
	})
}

func clockOrNone(ms *int64) string {
	if ms == nil {
		return ""
	}
	return clock(*ms)
}
