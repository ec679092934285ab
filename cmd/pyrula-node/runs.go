package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

func (p *program) runsCommand() *cobra.Command {
	runs := &cobra.Command{
		Use: "runs", Aliases: []string{"run"},
		Short: "Start, list and show runs, ask why they wait, signal, stop and retry them",
		Args:  noArgs,
		RunE:  help,
	}
	p.declareAsking(runs)
	runs.AddCommand(p.submitCommand(), p.listCommand(), p.showCommand(), p.eventsCommand(), p.whyCommand(), p.waitCommand())
	runs.AddCommand(p.signalCommand(), p.cancelCommand(), p.terminateCommand(), p.retryCommand())
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
	list := &cobra.Command{Use: "list", Short: "List runs, newest first", Args: noArgs, Annotations: printsIDs}
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
		if p.asJSON {
			return p.print(a, nil)
		}
		if err := p.listPage(page); err != nil {
			return err
		}
		if page.NextCursor != nil {
			fmt.Fprintf(p.stderr, "more with --cursor %s\n", *page.NextCursor)
		}
		return nil
	})
	return list
}

func (p *program) listPage(page *pyrula.RunList) error {
	if p.asIDs {
		ids := make([]string, len(page.Runs))
		for i := range page.Runs {
			ids[i] = page.Runs[i].RunID
		}
		return p.ids(ids)
	}
	table := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RUN\tWORKFLOW\tSTATUS\tKEY\tATTEMPT\tSUBMITTED\tWAITS FOR")
	for i := range page.Runs {
		r := &page.Runs[i]
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n",
			r.RunID, quoted(r.Workflow), r.Status, keyOf(r), r.Attempt, clock(r.SubmittedAt), stateText(r))
	}
	return table.Flush()
}

// stateText is what a run waits for or, of one that was handed on, where it went.
func stateText(r *pyrula.RunStatus) string {
	if r.ContinuedTo != nil {
		return "went on in " + *r.ContinuedTo
	}
	return waitsFor(r.Wait)
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
