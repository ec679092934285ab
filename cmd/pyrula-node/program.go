package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

const (
	// longName is the program's name; shortName is the other one that it answers to.
	longName  = "pyrula-node"
	shortName = "pyrula"
)

// program is one invocation. Data goes to stdout, talk to stderr.
type program struct {
	name     string
	args     []string
	stdin    io.Reader // nil is empty
	stdout   io.Writer
	stderr   io.Writer
	getenv   func(string) string
	environ  []string // all variables as NAME=value, to warn of those that nothing reads
	rewrites bool     // stderr is a terminal: a progress line may be written over
	logsJSON bool     // --log-format json: an error is a record of the log
	asJSON   bool     // -o json: an error is a problem document
	asIDs    bool     // -o id
}

// run parses the arguments, does what they say and returns the exit code.
func (p *program) run(ctx context.Context) int {
	if p.name != shortName {
		p.name = longName
	}
	root := p.root()
	root.SetArgs(p.args)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	err := root.ExecuteContext(ctx)
	p.complain(err)
	return exitCode(err)
}

// complain tells an error to a person, or to a program that asked for JSON.
func (p *program) complain(err error) {
	if err == nil {
		return
	}
	if p.asJSON {
		if failed := json.NewEncoder(p.stderr).Encode(problemOf(err)); failed != nil {
			fmt.Fprintln(p.stderr, err)
		}
		return
	}
	if p.logsJSON {
		slog.New(slog.NewJSONHandler(p.stderr, nil)).Error("the node ended with an error", "err", plain(err.Error()))
		return
	}
	fmt.Fprintf(p.stderr, "%s: %s\n", p.name, sentence(err))
	if with, ok := errors.AsType[*advised](err); ok {
		fmt.Fprintln(p.stderr, with.advice)
	}
	if u, ok := errors.AsType[*usageError](err); ok && u.command != "" {
		fmt.Fprintf(p.stderr, "Run '%s --help' for usage.\n", u.command)
	}
}

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:           p.name,
		Short:         "Decides when work may start, and never loses track of it",
		Args:          noArgs,
		RunE:          help,
		SilenceErrors: true,
		SilenceUsage:  true,

		DisableFlagsInUseLine: true,
	}
	root.Version = versionText()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return &usageError{c.CommandPath(), flagFault(err)} })
	root.AddCommand(p.devCommand(), p.serveCommand(), p.demoCommand(), p.configCommand(), p.versionCommand())
	root.AddCommand(p.runsCommand(), p.workflowsCommand(), p.schedulesCommand(), p.sendingCommand(), p.keysCommand())
	root.AddCommand(p.journalCommand(), p.snapshotCommand())
	return root
}

// usageError is a command line that can't be right.
type usageError struct {
	command string // whose --help helps; empty when none does
	err     error
}

// Error is the fault itself.
func (u *usageError) Error() string { return u.err.Error() }

// Unwrap is the fault itself.
func (u *usageError) Unwrap() error { return u.err }

// help is what a command does that only has commands below it.
func help(c *cobra.Command, _ []string) error { return c.Help() }

// noArgs refuses arguments. One that nearly is a command gets the right spelling.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !c.HasSubCommands() {
		return &usageError{c.CommandPath(), fmt.Errorf("%q: it takes no arguments", args[0])}
	}
	if c.SuggestionsMinimumDistance <= 0 {
		c.SuggestionsMinimumDistance = 2
	}
	text := fmt.Sprintf("unknown command %q for %q", args[0], c.CommandPath())
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return &usageError{c.CommandPath(), errors.New(text)}
}

// isTerminal says whether a line on f can be written over.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}
