// Command http measures a node over its HTTP API.
//
// A claim cycle is: submit a run for a random key that has a Limit and a Rate, claim
// the next run of any key, complete it. Each client does cycles in a closed loop on a
// connection of its own. One line of JSON is written for each configuration.
//
// Without -addr the product is built and started in a process of its own, over a
// temporary data directory, and every repetition gets a fresh one; with -profile it is
// the same node with a door for profiles.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	clients, keys, batch, backlog numbers

	dur, warm, quiet, body time.Duration
	reps, max, tries       int
	others                 float64
	fused, gates           bool
	addr, fsync, profile   string
}

func main() {
	o := options{clients: numbers{64}, keys: numbers{1000}, batch: numbers{1, 16}}
	flag.Var(&o.clients, "clients", "clients at once, comma separated")
	flag.Var(&o.keys, "keys", "distinct keys, comma separated")
	flag.Var(&o.batch, "batch", "runs a request, comma separated")
	flag.Var(&o.backlog, "backlog", "runs that stand in the queue while cycles are measured, comma separated: those are measured in turns and compared")
	flag.DurationVar(&o.dur, "dur", 5*time.Second, "measured window of a repetition")
	flag.DurationVar(&o.warm, "warm", time.Second, "time before the window")
	flag.IntVar(&o.reps, "reps", 5, "repetitions; the median by throughput is reported")
	flag.DurationVar(&o.quiet, "quiet", 20*time.Second, "how long a repetition waits, at most, for the machine to be idle")
	flag.Float64Var(&o.others, "others", 1, "share of the machine that may go to others during a repetition; a repetition with more is thrown away and done again")
	flag.IntVar(&o.tries, "tries", 10, "how often a repetition is done, at most, before it counts all the same")
	flag.BoolVar(&o.fused, "fused", false, "complete, and claim the next, in one request")
	flag.BoolVar(&o.gates, "gates", false, "limits that bind: measure from a free slot to the grant")
	flag.IntVar(&o.max, "max", 2, "with -gates: the Limit")
	flag.DurationVar(&o.body, "body", 5*time.Millisecond, "with -gates: how long a run takes")
	flag.StringVar(&o.addr, "addr", "", "base address of a running node; its durability isn't known then")
	flag.StringVar(&o.fsync, "fsync", "always", `durability of the started server: "always" or "every=D"`)
	flag.StringVar(&o.profile, "profile", "", "directory that takes profiles of the started server's last repetition")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := o.run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "http:", err)
		os.Exit(1)
	}
}

// numbers is a flag that holds positive numbers.
type numbers []int

// String implements flag.Value.
func (n *numbers) String() string {
	texts := make([]string, len(*n))
	for i, v := range *n {
		texts[i] = strconv.Itoa(v)
	}
	return strings.Join(texts, ",")
}

// Set implements flag.Value.
func (n *numbers) Set(s string) error {
	*n = nil
	for text := range strings.SplitSeq(s, ",") {
		v, err := strconv.Atoi(text)
		if err != nil || v < 1 {
			return fmt.Errorf("%q is not a positive number", text)
		}
		*n = append(*n, v)
	}
	return nil
}
