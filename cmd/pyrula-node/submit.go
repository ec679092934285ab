package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pyrula/pyrula-node/pyrula"
)

// submission is what the flags of a submit say.
type submission struct {
	workflow     string
	params, once string
	wait         bool
	timeout      time.Duration
}

func (p *program) submitCommand() *cobra.Command {
	var s submission
	submit := &cobra.Command{
		Use:   "submit WORKFLOW",
		Short: "Start a run of a workflow",
		Long: `Start a run of a workflow, by name. It is taken at once, and executes when its gates are
open and a worker has room.

With --wait the command waits for the run's end and shows it, and exits as "wait" does:
with 5 when the run failed, 6 when it was cancelled or terminated, and 7 when the time of
--timeout is over.

A workflow whose key is a function of its code can't be started from here, since the key
can't be computed: the command exits with 2.`,
		Args: oneName("workflow"), Annotations: printsIDs,
	}
	flags := submit.Flags()
	flags.StringVar(&s.params, "params", "{}", "a `JSON` object; @FILE reads it from a file, - from standard input")
	flags.StringVar(&s.once, "once", "", "a `KEY`: with it only the first submit makes a run, and later ones answer that run")
	flags.BoolVar(&s.wait, "wait", false, "wait for the run's end and show it")
	flags.DurationVar(&s.timeout, "timeout", 0, "with --wait: how long to wait, as 30s; without it, for as long as it takes")
	submit.RunE = p.asking(func(ctx context.Context, a *asker, args []string) error {
		if s.timeout < 0 || s.timeout > 0 && !s.wait {
			return &usageError{submit.CommandPath(), errors.New("timeout: want a time above 0, beside --wait")}
		}
		s.workflow = args[0]
		var once []pyrula.StartOption
		if flags.Changed("once") {
			once = append(once, pyrula.OnceKey(s.once))
		}
		return p.submit(ctx, a, &s, once...)
	})
	return submit
}

func (p *program) submit(ctx context.Context, a *asker, s *submission, opts ...pyrula.StartOption) error {
	params, err := p.readParams(s.params)
	if err != nil {
		return err
	}
	made, err := a.Submit(ctx, s.workflow, params, opts...)
	if errors.Is(err, pyrula.ErrConfiguration) {
		return p.advise(err, "Only a program that has the workflow's code can compute its key: start the run from there.")
	}
	if err != nil && len(opts) == 0 {
		return p.unsure(err, fmt.Sprintf("Look with %s runs list --workflow %s before you submit it again, or use --once.", p.name, quoted(s.workflow)))
	}
	if err != nil {
		return err
	}
	if !s.wait {
		if err := p.printOr(a, []string{made.RunID}, func() error { return p.submitted(&made) }); err != nil {
			return err
		}
		p.warnOfUnknown(ctx, a, s.workflow)
		return nil
	}
	if p.asIDs {
		return errors.Join(p.ids([]string{made.RunID}), p.endedQuietly(ctx, a, made.RunID, s.timeout))
	}
	if !p.asJSON {
		fmt.Fprintf(p.stderr, "run %s is %s\n", made.RunID, made.Status)
	}
	p.warnOfUnknown(ctx, a, s.workflow)
	return p.awaited(ctx, a, made.RunID, s.timeout)
}

// endedQuietly waits for a run's end and says nothing but its error.
func (p *program) endedQuietly(ctx context.Context, a *asker, id string, timeout time.Duration) error {
	run, err := awaitEnd(ctx, a, id, timeout)
	if err == nil {
		err = endOf(run)
	}
	return err
}

func (p *program) submitted(made *pyrula.Submitted) error {
	text := made.RunID + " " + made.Status
	switch {
	case made.Status == "": // so old that only its id is left
		text = made.RunID + " (the key is known; the run ended so long ago that it isn't kept any more)"
	case !made.Created:
		text += " (the key is known; no new run)"
	}
	_, err := fmt.Fprintln(p.stdout, text)
	return err
}

// warnOfUnknown says when nobody has declared a workflow. Such a run is legal and waits
// for whoever declares it (P22), which is for ever when the name is mistyped.
func (p *program) warnOfUnknown(ctx context.Context, a *asker, workflow string) {
	if p.asJSON {
		return
	}
	all, err := a.Workflows(ctx)
	if err != nil {
		return // the run is made, and this was only to be helpful
	}
	names := make([]string, len(all))
	for i := range all {
		if names[i] = all[i].Name; names[i] == workflow {
			return
		}
	}
	fmt.Fprintf(p.stderr, "nobody has declared workflow %s yet: the run waits until a worker does%s\n", quoted(workflow), didYouMean(workflow, names))
}
