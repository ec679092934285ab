package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/pyrula"
)

func (p *program) eventsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "events RUN",
		Short: "Print a run's own journal",
		Long: `Print a run's own journal, oldest first. It has the events of this id alone: when the run
was handed on, its last event is run:continued, and the work is in the successor's.`,
		Args: oneRun,
		RunE: p.asking(func(ctx context.Context, a *asker, args []string) error {
			all, err := a.Events(ctx, args[0])
			if err != nil {
				return err
			}
			return p.print(a, func() error { return p.eventsTable(all) })
		}),
	}
}

func (p *program) eventsTable(all []pyrula.Event) error {
	table := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SEQ\tTIME\tEVENT\tDETAILS")
	for i := range all {
		e := &all[i]
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\n", e.Seq, clock(e.At), e.Type, orDash(eventText(e)))
	}
	if err := table.Flush(); err != nil || len(all) == 0 {
		return err
	}
	if first := all[0].Seq; first > 1 {
		fmt.Fprintf(p.stderr, "the %d events before are gone: a run keeps its last %d\n", first-1, flow.MaxRunEvents)
	}
	if last := &all[len(all)-1]; last.Type == flow.EventContinued && len(last.Runs) == 1 {
		fmt.Fprintf(p.stderr, "the work went on in %s: %s runs events %s\n", last.Runs[0], p.name, last.Runs[0])
	}
	return nil
}

// eventText is what an event says beside its type.
func eventText(e *pyrula.Event) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if e.Name != "" {
		add("%s", quoted(e.Name))
	}
	if e.Visit > 1 {
		add("visit %d", e.Visit)
	}
	if e.Attempt > 0 {
		add("attempt %d", e.Attempt)
	}
	if e.Worker != "" {
		add("worker %s", quoted(e.Worker))
	}
	if e.Version != nil && *e.Version != "" {
		add("version %s", quoted(*e.Version))
	}
	if e.Unknown != nil && *e.Unknown {
		add("gates unknown")
	}
	if e.Gates != nil {
		for _, g := range *e.Gates {
			add("%s %s", g.Kind, gateText(g))
		}
	}
	if len(e.Runs) > 0 {
		add("%s", someRuns(e.Runs))
	}
	if e.Until > 0 {
		add("until %s", clock(e.Until))
	}
	if e.Reason != "" {
		add("reason %s", quoted(e.Reason))
	}
	if e.Error != nil {
		add("%s: %s", quoted(e.Error.Type), quoted(e.Error.Message))
	}
	if e.Fence > 0 {
		add("fence %d", e.Fence)
	}
	return strings.Join(parts, ", ")
}
