package demo

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// printTable prints a line for each tenant and says how to read it.
func printTable(out io.Writer, rows []*row, took time.Duration) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "tenant\truns\tat once\tlimit\tbusiest second\tallowed\twait p50\twait p99\t")
	runs, again, allowed := 0, 0, 0
	var lag time.Duration
	for _, r := range rows {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t\n",
			nameOf(r.tenant), r.runs, r.atOnce, maxAtOnce, r.busiest, r.allowed(), shown(r.p50), shown(r.p99))
		runs, again = runs+r.runs, again+r.again
		allowed, lag = max(allowed, r.allowed()), max(lag, r.lag)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, `
%d runs of %d tenants completed in %.1f s, %d bodies began again.
at once: the most bodies of a tenant that executed at one moment, counted by the bodies.
busiest second: the most bodies that began within any one second. The Rate lets burst + rate x 1 s = %d runs be
admitted in it; bodies began up to %s later after that than others, so "allowed" is burst + rate x (1 s + that).
wait: from the submit to the beginning of the body.
`, runs, len(rows), took.Seconds(), again, burst+perSecond, lag.Round(time.Millisecond))
	return err
}

func nameOf(tenant string) string {
	if tenant == "" {
		return "(none)"
	}
	return tenant
}

// shown is a wait with as many digits as mean something.
func shown(wait time.Duration) string {
	if wait < time.Second {
		return fmt.Sprintf("%d ms", wait.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", wait.Seconds())
}
