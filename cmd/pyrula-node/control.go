package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

func (p *program) cancelCommand() *cobra.Command {
	return p.stopCommand(&cobra.Command{
		Use:   "cancel RUN",
		Short: "Ask for a run's end",
		Long: `Ask for a run's end. One that waits ends at once, one that executes when its worker has
stopped. Cancelling a run that has ended changes nothing and is no error.`,
	}, (*pyrula.Client).Cancel)
}

func (p *program) terminateCommand() *cobra.Command {
	return p.stopCommand(&cobra.Command{
		Use:   "terminate RUN",
		Short: "End a run at once, whatever its body does",
		Long: `End a run at once, whatever its body does. Its slot stays taken until its worker has let
go of it, or until its lease runs out. Prefer "cancel", which lets the body tidy up.
Terminating a run that has ended changes nothing and is no error.`,
	}, (*pyrula.Client).Terminate)
}

// stopCommand makes a command of what ends a run.
func (p *program) stopCommand(c *cobra.Command, stop func(c *pyrula.Client, ctx context.Context, id, reason string) error) *cobra.Command {
	reason := ""
	c.Args = oneRun
	c.Flags().StringVar(&reason, "reason", "", "kept in the run's journal")
	c.RunE = p.asking(func(ctx context.Context, a *asker, args []string) error {
		if err := stop(a.Client, ctx, args[0], reason); err != nil {
			return err
		}
		return p.print(a, func() error {
			var done wire.Stopped
			if err := json.Unmarshal(a.tape.body, &done); err != nil {
				return fmt.Errorf("%w: %w", pyrula.ErrBadAnswer, err)
			}
			p.tellSuccessor(args[0], done.RunID)
			_, err := fmt.Fprintf(p.stdout, "%s %s\n", done.RunID, stopText(&done))
			return err
		})
	})
	return c
}

// stopText says what a cancel or a terminate has done. A run that executes goes on for a
// while, and "executing" alone would look as if nothing had happened.
func stopText(done *wire.Stopped) string {
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

// tellSuccessor says that another run was reached than the one that was asked for (P32).
func (p *program) tellSuccessor(asked, reached string) {
	if id, err := flow.ParseRunID(asked); err == nil && id.String() != reached {
		fmt.Fprintf(p.stderr, "%s was handed on; this is about its successor\n", id)
	}
}

func (p *program) signalCommand() *cobra.Command {
	payload, once := "", ""
	signal := &cobra.Command{
		Use:   "signal RUN NAME",
		Short: "Send a run a signal",
		Long: `Send a run a signal. The run keeps it until its body waits for one of that name, whether
or not it has started yet; several of one name arrive in order. A run that was handed on
gets it at its successor.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return &usageError{c.CommandPath(), fmt.Errorf("want a run id and the name of a signal, got %d arguments", len(args))}
			}
			return oneRun(c, args[:1])
		},
	}
	signal.Flags().StringVar(&payload, "payload", "", "any `JSON`; @FILE reads it from a file, - from standard input; without it, null")
	signal.Flags().StringVar(&once, "once", "", "a `KEY` of at most 64 characters: sent again with it, the signal counts once")
	signal.RunE = p.asking(func(ctx context.Context, a *asker, args []string) error {
		var body any
		if signal.Flags().Changed("payload") {
			raw, err := p.readJSON("payload", payload)
			if err != nil {
				return err
			}
			body = raw
		}
		var opts []pyrula.SignalOption
		if signal.Flags().Changed("once") {
			opts = append(opts, pyrula.SignalKey(once))
		}
		done, err := a.Signal(ctx, args[0], args[1], body, opts...)
		if errors.Is(err, pyrula.ErrHistoryTooLarge) {
			return p.advise(err, "See what the run waits for: %s runs why %s", p.name, args[0])
		}
		if err != nil && len(opts) == 0 {
			return p.unsure(err, fmt.Sprintf("Look with %s runs events %s before you send it again, or use --once.", p.name, args[0]))
		}
		if err != nil {
			return err
		}
		return p.print(a, func() error {
			p.tellSuccessor(args[0], done.RunID)
			text := fmt.Sprintf("%s has signal %s as number %d", done.RunID, quoted(args[1]), done.Number)
			if !done.Created {
				text += " (sent before; nothing changed)"
			}
			_, err := fmt.Fprintln(p.stdout, text)
			return err
		})
	})
	return signal
}

func (p *program) retryCommand() *cobra.Command {
	retry := &cobra.Command{
		Use:   "retry RUN",
		Short: "Start a new run with the workflow and the parameters of an ended one",
		Long: `Start a new run with the workflow and the parameters of an ended one. It is stamped with
the gates that are declared now, takes a token of its own, and its source names the old run.

A workflow whose key is a function of its code can't be retried from here, since the key
can't be computed: the command exits with 2. One that goes on exits with 4.`,
		Args: oneRun, Annotations: printsIDs,
	}
	retry.RunE = p.asking(func(ctx context.Context, a *asker, args []string) error {
		made, err := a.Retry(ctx, args[0])
		switch {
		case errors.Is(err, pyrula.ErrConfiguration):
			return p.advise(err, "Only a program that has the workflow's code can compute its key: start the run again from there.")
		case errors.Is(err, pyrula.ErrRunNotEnded):
			return p.advise(err, "Wait for its end (%s runs wait %s), or cancel it first.", p.name, args[0])
		case err != nil:
			return p.unsure(err, fmt.Sprintf("Look with %s runs list before you retry it again.", p.name))
		}
		return p.printOr(a, []string{made.RunID}, func() error {
			_, err := fmt.Fprintf(p.stdout, "%s %s\n", made.RunID, made.Status)
			return err
		})
	})
	return retry
}
