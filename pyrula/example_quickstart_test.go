package pyrula_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pyrula/pyrula-node/cmd/pyrula-node/node"
	"github.com/pyrula/pyrula-node/pyrula"
)

// Order is what a run of the examples takes.
type Order struct {
	Tenant string `json:"tenant"`
	ID     string `json:"id"`
}

// Receipt is what it gives.
type Receipt struct {
	Charge string `json:"charge"`
}

// Charge is a workflow with a Limit and a Rate. A workflow is a package variable:
// the program that works and the program that submits use the same one.
var Charge = pyrula.Define("charge", func(r *pyrula.Run, o Order) (Receipt, error) {
	r.Log.Debug("charging", "order", o.ID) // the run's id, key and attempt are already on it
	return Receipt{Charge: "ch_" + o.ID}, nil
},
	pyrula.Limit{Key: "tenant", Max: 2},                 // two at a time for each tenant
	pyrula.Rate{Key: "tenant", PerSecond: 20, Burst: 5}, // 20 starts a second for each tenant, bursts of 5
)

// A workflow with flow control, a worker that serves it, and a run. A real program
// has its node elsewhere and finds it by PYRULA_ADDR.
func Example() {
	ctx := context.Background()
	n, err := node.Start(ctx, node.Config{Addr: "127.0.0.1:0"}) // a trial node over a temporary directory
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close(ctx)

	c, err := pyrula.Dial(ctx, pyrula.WithAddr(n.Addr()))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	working, stop := context.WithCancel(ctx) // signal.NotifyContext in a real program
	drained := make(chan error)
	go func() { drained <- c.Work(working, Charge) }()

	run, err := Charge.Start(ctx, c, Order{Tenant: "acme", ID: "o-1"})
	if err != nil {
		log.Fatal(err)
	}
	receipt, err := run.Result(ctx)
	fmt.Println(receipt.Charge, err)

	stop()
	fmt.Println("drained:", <-drained)
	// Output:
	// ch_o-1 <nil>
	// drained: <nil>
}
