// Command http measures a node over its HTTP API.
//
// A claim cycle is: submit a run for a random key that has a Limit and a Rate, claim
// the next run of any key, complete it. Each client does cycles in a closed loop on a
// connection of its own. One line of JSON is written for each configuration.
//
// Without -addr the product is built and started in a process of its own, over a
// temporary data directory, and every repetition gets a fresh one; with -profile it is
// the same node with a door for profiles.
//
// With -events and -windows it measures events in place of cycles, and windows that are
// open at once. With -soak, -recovery and -snapshots it measures what durability costs instead: what
// grows while runs end, how long a start takes, what snapshots do to claims.
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

	dur, warm, quiet, body, rest time.Duration
	reps, max, tries             int
	others                       float64
	fused, gates                 bool
	addr, fsync, profile         string

	recovery, snapshots, eventful bool

	windows            int
	window             time.Duration
	soak, runs, perSec int
}

func main() {
	var o options
	o.declare()
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := o.run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "http:", err)
		os.Exit(1)
	}
}

// declare gives the program its flags.
func (o *options) declare() {
	*o = options{clients: numbers{64}, keys: numbers{1000}, batch: numbers{1, 16}}
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
	flag.IntVar(&o.soak, "soak", 0, "let so many runs end on one server, and see what grows: memory, disk, archive")
	flag.DurationVar(&o.rest, "rest", 15*time.Second, "with -soak: how long the server is left alone before the last sample")
	flag.BoolVar(&o.recovery, "recovery", false, "measure a start over -runs queued runs: after kill -9, and after SIGTERM")
	flag.BoolVar(&o.snapshots, "snapshots", false, "measure claims over -runs queued runs, each with a key of its own, while snapshots are taken and in between; -reps rounds of them")
	flag.IntVar(&o.runs, "runs", 1_000_000, "with -recovery and -snapshots: queued runs")
	flag.BoolVar(&o.eventful, "events", false, "send events to a Collect of 100 instead, -batch of them a request")
	flag.IntVar(&o.windows, "windows", 0, "open so many windows at once, one event in each, and measure what they cost and how late they fire")
	flag.DurationVar(&o.window, "window", time.Minute, "with -windows: how long a window is")
	flag.IntVar(&o.perSec, "rate", 5000, "with -snapshots: cycles a second, of all clients together")
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
