package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

func (p *program) workflowsCommand() *cobra.Command {
	workflows := &cobra.Command{
		Use: "workflows", Aliases: []string{"workflow"},
		Short: "List and show the workflows that workers have declared",
		Args:  noArgs,
		RunE:  help,
	}
	p.declareAsking(workflows)
	list := &cobra.Command{
		Use: "list", Short: "List all workflows, by name, as a submit is stamped now", Args: noArgs, Annotations: printsIDs,
		RunE: p.asking(func(ctx context.Context, a *asker, _ []string) error {
			all, err := a.Workflows(ctx)
			if err != nil {
				return err
			}
			names := make([]string, len(all))
			for i := range all {
				names[i] = all[i].Name
			}
			return p.printOr(a, names, func() error { return p.workflowsTable(all) })
		}),
	}
	show := &cobra.Command{
		Use: "show WORKFLOW", Short: "Show a workflow's declarations, the oldest first", Args: oneName("workflow"),
		RunE: p.asking(func(ctx context.Context, a *asker, args []string) error {
			one, err := a.Workflow(ctx, args[0])
			if err != nil {
				return err
			}
			return p.print(a, func() error { return p.versionsTable(one) })
		}),
	}
	workflows.AddCommand(list, show)
	return workflows
}

func (p *program) workflowsTable(all []pyrula.WorkflowInfo) error {
	table := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "WORKFLOW\tVERSION\tGATES\tATTEMPTS\tLEASE\tDECLARED\tDECLARATIONS")
	for i := range all {
		for j := range all[i].Versions {
			if v := &all[i].Versions[j]; v.Current {
				fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%d\n", quoted(all[i].Name), quoted(v.Version), policiesText(v),
					v.MaxAttempts, secondsText(v.LeaseSeconds), clock(v.DeclaredAt), len(all[i].Versions))
			}
		}
	}
	return table.Flush()
}

func (p *program) versionsTable(one *pyrula.WorkflowInfo) error {
	table := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "VERSION\tRANK\tGATES\tATTEMPTS\tBACKOFF\tLEASE\tDECLARED\tGATES HASH\t")
	for i := range one.Versions {
		v := &one.Versions[i]
		current := ""
		if v.Current {
			current = "current"
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", quoted(v.Version), v.VersionRank, policiesText(v), v.MaxAttempts,
			secondsText(v.RetryBackoffSeconds), secondsText(v.LeaseSeconds), clock(v.DeclaredAt), shortHash(v.GatesHash), current)
	}
	return table.Flush()
}

// shownHash is how much of a hash stands in a table.
const shownHash = 12

func shortHash(hash string) string { return hash[:min(len(hash), shownHash)] }

// policiesText is what a declaration says about when its runs may start, in one line.
func policiesText(v *wire.WorkflowVersion) string {
	var parts []string
	if v.Limit != nil {
		parts = append(parts, fmt.Sprintf("limit %s %d at once", keyText(v.Limit.Key), v.Limit.Max))
	}
	if v.Rate != nil {
		text := fmt.Sprintf("rate %s %s a second", keyText(v.Rate.Key), strconv.FormatFloat(v.Rate.PerSecond, 'g', -1, 64))
		if v.Rate.Burst != nil {
			text += fmt.Sprintf(" burst %d", *v.Rate.Burst)
		}
		parts = append(parts, text)
	}
	if t := v.Trigger; t != nil && t.Collect != nil {
		parts = append(parts, fmt.Sprintf("collect %s %d in %gs", keyText(t.Collect.Key), t.Collect.MaxEvents, t.Collect.WindowSeconds))
	}
	if t := v.Trigger; t != nil && t.Debounce != nil {
		parts = append(parts, fmt.Sprintf("debounce %s %gs", keyText(t.Debounce.Key), t.Debounce.WindowSeconds))
	}
	if v.Kafka != nil {
		parts = append(parts, "kafka "+v.Kafka.Topic)
	}
	return orDash(strings.Join(parts, ", "))
}

// keyText is where a key comes from: a parameter, or a function of the worker's code.
func keyText(k wire.Key) string {
	if k.Function != "" {
		return quoted(k.Function) + "()"
	}
	return quoted(k.Name)
}

func secondsText(seconds float64) string { return strconv.FormatFloat(seconds, 'g', -1, 64) + "s" }
