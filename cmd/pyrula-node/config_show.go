package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

func (p *program) configCommand() *cobra.Command {
	config := &cobra.Command{Use: "config", Short: "How a node would be configured", Args: noArgs, RunE: help}
	show := &cobra.Command{
		Use:   "show",
		Short: "Print every setting of serve, its value and where that comes from",
		Args:  noArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return p.showConfig(c) },
	}
	declareServeFlags(show)
	config.AddCommand(show)
	return config
}

// showConfig prints the settings even if they are wrong, and then what is wrong.
func (p *program) showConfig(c *cobra.Command) error {
	vs, err := resolve(c.Flags(), p.getenv)
	if err != nil {
		return err
	}
	for _, stray := range strayVariables(p.environ) {
		fmt.Fprintf(p.stderr, "%s: warning: the environment variable %s\n", p.name, stray)
	}
	table := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SETTING\tVALUE\tFROM")
	for _, s := range settings {
		v := vs[s.flag]
		fmt.Fprintf(table, "%s\t%s\t%s\n", s.key(), orDash(v.text), v.origin)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err = vs.nodeConfig()
	return err
}

// orDash keeps a column of a table from being empty.
func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
