package pyrula_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/pyrula/pyrula-node/cmd/pyrula-node/node"
	"github.com/pyrula/pyrula-node/pyrula"
)

// A key can be computed by a function of the parameters. It runs where the run is
// submitted, so a program without the workflow's code can't submit it.
func ExampleLimit_function() {
	ctx := context.Background()
	n, err := node.Start(ctx, node.Config{Addr: "127.0.0.1:0"})
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close(ctx)
	c, err := pyrula.Dial(ctx, pyrula.WithAddr(n.Addr()))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	export := pyrula.Define("export", func(r *pyrula.Run, o Order) (string, error) { return r.Key, nil },
		pyrula.Limit{Key: func(o Order) string { return o.Tenant + ":eu" }, Label: "tenant_region", Max: 1})
	working, stop := context.WithCancel(ctx)
	drained := make(chan error)
	go func() { drained <- c.Work(working, export) }()

	key, err := export.Run(ctx, c, Order{Tenant: "acme"}) // Start and Result in one
	fmt.Println(key, err)

	_, err = c.Submit(ctx, "export", Order{Tenant: "acme"})
	fmt.Println("by name:", errors.Is(err, pyrula.ErrConfiguration))

	stop()
	fmt.Println("drained:", <-drained)
	// Output:
	// acme:eu <nil>
	// by name: true
	// drained: <nil>
}
