package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pyrula/pyrula-node/cmd/pyrula-node/demo"
	"github.com/pyrula/pyrula-node/examples"
)

func (p *program) demoCommand() *cobra.Command {
	cfg := demo.Config{Out: p.stdout, Talk: p.stderr, Rewrites: p.rewrites}
	file := ""
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show a Limit and a Rate at work, and count whether they hold",
		Long: `Start a durable node on this machine, submit some hundred runs of twelve tenants and
work on them. Bodies count how many of a tenant execute at once and how many begin
in a second; the command exits with 1 when a count breaks what was declared.

It takes half a minute. It reads no environment variable and no configuration file.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checkAddr(cfg.Addr); err != nil {
				return &usageError{c.CommandPath(), fmt.Errorf("addr: %w", err)}
			}
			runs, err := openRuns(file)
			if err != nil {
				return err
			}
			defer runs.Close() // it was only read
			cfg.Runs = runs
			cfg.Logger = slog.New(slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
			err = demo.Run(c.Context(), cfg)
			if errors.Is(err, demo.ErrBadRuns) {
				return &usageError{err: err}
			}
			return err
		},
	}
	c.Flags().StringVar(&file, "runs", "", "`file` with the parameters of the runs, one JSON object a line; default: the 400 of examples/sync_accounts.ndjson")
	c.Flags().StringVar(&cfg.DataDir, "data", "", "the node's data directory; default: a temporary one")
	c.Flags().StringVar(&cfg.Addr, "addr", "127.0.0.1:0", "`host:port` of the node; port 0 takes a free one")
	return c
}

// openRuns opens a file of runs; without a name it is the one inside the program.
func openRuns(name string) (io.ReadCloser, error) {
	if name == "" {
		return io.NopCloser(strings.NewReader(examples.SyncAccounts())), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, &usageError{err: fmt.Errorf("runs: %w", err)}
	}
	return f, nil
}
