// Command quickstart declares a workflow, works on it and starts one run. It needs a
// node: go run ./cmd/pyrula-node dev. It must stay as short as the README shows it.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/pyrula/pyrula-node/pyrula"
)

type order struct {
	Tenant string `json:"tenant"`
	ID     string `json:"id"`
}

type receipt struct {
	Charge string `json:"charge"`
}

var charge = pyrula.Define("charge", func(r *pyrula.Run, o order) (receipt, error) {
	r.Log.Info("charging", "order", o.ID)     // run id, key and attempt are already on it
	return receipt{Charge: "ch_" + o.ID}, nil // r is a context: it is done when the body should stop
},
	pyrula.Limit{Key: "tenant", Max: 2},                  // two at a time for each tenant
	pyrula.Rate{Key: "tenant", PerSecond: 20, Burst: 40}, // 20 starts a second for each tenant, in bursts of 40
	pyrula.MaxAttempts(3),
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := pyrula.Dial(ctx) // PYRULA_ADDR, or 127.0.0.1:7477
	if err != nil {
		return err
	}
	defer c.Close()

	working, drain := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- c.Work(working, charge) }() // declares the workflow and claims runs

	// OnceKey makes one run for ever: a second start of this program prints the result of
	// the first, and no body runs.
	got, err := charge.Run(ctx, c, order{Tenant: "acme", ID: "o-1"}, pyrula.OnceKey("o-1"))
	if err == nil {
		log.Println("charged:", got.Charge)
	}
	drain() // the worker drains: bodies finish, nothing is lost
	if drained := <-worked; err == nil {
		err = drained
	}
	return err
}
