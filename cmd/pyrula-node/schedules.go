package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

func (p *program) schedulesCommand() *cobra.Command {
	schedules := &cobra.Command{
		Use: "schedules", Aliases: []string{"schedule"},
		Short: "Start runs by the clock: list, show, set and delete schedules",
		Args:  noArgs,
		RunE:  help,
	}
	p.declareAsking(schedules)
	list := &cobra.Command{
		Use: "list", Short: "List all schedules, by name", Args: noArgs, Annotations: printsIDs,
		RunE: p.asking(func(ctx context.Context, a *asker, _ []string) error {
			all, err := a.Schedules(ctx)
			if err != nil {
				return err
			}
			names := make([]string, len(all))
			for i := range all {
				names[i] = all[i].Name
			}
			return p.printOr(a, names, func() error { return p.schedulesTable(all) })
		}),
	}
	show := &cobra.Command{
		Use: "show NAME", Short: "Show a schedule, its next times and its last run", Args: oneName("schedule"),
		RunE: p.asking(func(ctx context.Context, a *asker, args []string) error {
			one, err := a.Schedule(ctx, args[0])
			if err != nil {
				return err
			}
			return p.print(a, func() error { return p.scheduleTable(one) })
		}),
	}
	remove := &cobra.Command{
		Use: "delete NAME", Short: "Forget a schedule; runs that it has made go on", Args: oneName("schedule"),
		RunE: p.asking(func(ctx context.Context, a *asker, args []string) error {
			if err := a.DeleteSchedule(ctx, args[0]); err != nil {
				return err
			}
			return p.print(a, func() error {
				_, err := fmt.Fprintf(p.stdout, "%s deleted\n", quoted(args[0]))
				return err
			})
		}),
	}
	schedules.AddCommand(list, show, p.setCommand(), remove)
	return schedules
}

// timetable is what the flags of a schedule say.
type timetable struct {
	pyrula.Schedule
	params, at, start string
	every             time.Duration
}

func (p *program) setCommand() *cobra.Command {
	var t timetable
	set := &cobra.Command{
		Use:   "set NAME --workflow WORKFLOW (--cron EXPR | --every TIME | --at TIME)",
		Short: "Keep a schedule under a name",
		Long: `Keep a schedule under a name; one of that name is replaced as a whole, so say everything
again that is to stay. The same schedule twice changes nothing.

A cron expression has five fields (minute, hour, day of month, month, day of week) or is one
of @hourly, @daily, @weekly, @monthly and @yearly. A local time that is skipped when clocks
go forward runs once just after; one that comes twice when they go back runs once.`,
		Example: `  pyrula-node schedules set nightly --workflow report --cron '0 3 * * *' --time-zone Europe/Paris
  pyrula-node schedules set poll --workflow sync --every 5m --params '{"tenant":"acme"}'
  pyrula-node schedules set launch --workflow announce --at 2026-03-01T09:00:00+01:00`,
		Args: oneName("schedule"),
	}
	set.Example = strings.ReplaceAll(set.Example, longName, p.name)
	flags := set.Flags()
	flags.StringVar(&t.Workflow, "workflow", "", "the `WORKFLOW` whose runs it makes (required)")
	flags.StringVar(&t.params, "params", "{}", "a `JSON` object; @FILE reads it from a file, - from standard input")
	flags.StringVar(&t.Cron, "cron", "", "a cron expression `EXPR`, as '0 3 * * *'")
	flags.StringVar(&t.TimeZone, "time-zone", "", "the time `ZONE` of --cron, as Europe/Paris (default UTC)")
	flags.DurationVar(&t.every, "every", 0, "the time from one run to the next, as 5m or 24h")
	flags.StringVar(&t.start, "start", "", "of --every: the first `TIME`; without it, one --every from now")
	flags.StringVar(&t.at, "at", "", "once, at this `TIME`: as 2026-03-01T03:00:00Z, or Unix milliseconds")
	flags.StringVar(&t.CatchUp, "catch-up", "", "a `POLICY` for times that were missed: one (default), a run for all of them; none; or all, a run for each of the latest "+strconv.Itoa(wire.MaxCatchUp))
	flags.BoolVar(&t.Paused, "paused", false, "keep it without starting runs")
	set.RunE = p.asking(func(ctx context.Context, a *asker, args []string) error {
		t.Name = args[0]
		if err := p.readTimetable(flags, &t); err != nil {
			return err
		}
		kept, err := a.PutSchedule(ctx, t.Schedule)
		if err != nil {
			return err
		}
		return p.print(a, func() error { return p.setText(kept) })
	})
	return set
}

// readTimetable fills in what the flags don't set by themselves.
func (p *program) readTimetable(flags *pflag.FlagSet, t *timetable) (err error) {
	ways := 0
	for _, way := range []string{"cron", "every", "at"} {
		if flags.Changed(way) {
			ways++
		}
	}
	switch {
	case t.Workflow == "":
		return &usageError{err: errors.New("--workflow: say whose runs the schedule makes")}
	case ways != 1:
		return &usageError{err: errors.New("say when: exactly one of --cron, --every and --at")}
	case t.TimeZone != "" && t.Cron == "":
		return &usageError{err: errors.New("--time-zone belongs to --cron")}
	case t.start != "" && !flags.Changed("every"):
		return &usageError{err: errors.New("--start belongs to --every")}
	case flags.Changed("every") && t.every <= 0:
		return &usageError{err: errors.New("--every: " + wantDuration + ", above 0")}
	}
	if t.Params, err = p.readParams(t.params); err != nil {
		return err
	}
	if t.every > 0 {
		t.EverySeconds = new(t.every.Seconds())
	}
	if t.StartMS, err = momentPtr("start", t.start); err != nil {
		return err
	}
	t.AtMS, err = momentPtr("at", t.at)
	return err
}

func momentPtr(flag, value string) (*int64, error) {
	if value == "" {
		return nil, nil //nolint:nilnil // no moment is no error
	}
	ms, err := readMoment(flag, value)
	return &ms, err
}

func (p *program) setText(kept *pyrula.ScheduleInfo) error {
	text := quoted(kept.Name) + " " + nextText(kept)
	if !kept.Changed {
		text += " (nothing changed)"
	}
	_, err := fmt.Fprintln(p.stdout, text)
	return err
}

func (p *program) schedulesTable(all []pyrula.ScheduleInfo) error {
	table := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SCHEDULE\tWORKFLOW\tWHEN\tNEXT\tRUNS\tMISSED\tLAST RUN")
	for i := range all {
		s := &all[i]
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%d\t%s\n",
			quoted(s.Name), quoted(s.Workflow), whenText(&s.Schedule), nextText(s), s.Runs, s.Missed, lastText(s))
	}
	return table.Flush()
}

func (p *program) scheduleTable(s *pyrula.ScheduleInfo) error {
	table := p.facts()
	table.line("schedule", quoted(s.Name))
	table.line("workflow", quoted(s.Workflow))
	table.line("params", string(s.Params))
	table.line("when", whenText(&s.Schedule))
	if s.StartMS != nil {
		table.line("start", clock(*s.StartMS))
	}
	table.line("missed times", catchUpText(s.CatchUp))
	if len(s.Next) == 0 || s.Paused {
		table.line("next", nextText(s))
	} else {
		for _, at := range s.Next {
			table.line("next", upcoming(at))
		}
	}
	table.line("runs", strconv.FormatInt(s.Runs, 10))
	table.line("missed", strconv.FormatInt(s.Missed, 10))
	table.line("last run", lastText(s))
	if s.LastAt != nil {
		table.line("it was for", clock(*s.LastAt))
	}
	table.line("created", clock(s.CreatedAt))
	return table.Flush()
}

// whenText is a schedule's rule in one line.
func whenText(s *pyrula.Schedule) string {
	switch {
	case s.Cron != "":
		zone := s.TimeZone
		if zone == "" {
			zone = "UTC"
		}
		return s.Cron + " " + zone
	case s.EverySeconds != nil:
		return "every " + wholeText(time.Duration(*s.EverySeconds*float64(time.Second)))
	case s.AtMS != nil:
		return "at " + clock(*s.AtMS)
	}
	return "-"
}

// nextText is the next time of a schedule, or why there is none.
func nextText(s *pyrula.ScheduleInfo) string {
	switch {
	case s.Paused:
		return "paused"
	case len(s.Next) == 0:
		return "over"
	}
	return upcoming(s.Next[0])
}

// lastText is the last run of a schedule, or why its last time made none.
func lastText(s *pyrula.ScheduleInfo) string {
	switch {
	case s.LastError != nil:
		return "none: " + quoted(*s.LastError)
	case s.LastRunID != nil:
		return *s.LastRunID
	}
	return "-"
}

func catchUpText(policy string) string {
	switch policy {
	case wire.CatchUpNone:
		return "make no run"
	case wire.CatchUpAll:
		return "make a run each, of the latest " + strconv.Itoa(wire.MaxCatchUp)
	}
	return "make one run together"
}
