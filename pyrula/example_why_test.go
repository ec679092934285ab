package pyrula_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pyrula/pyrula-node/cmd/pyrula-node/node"
	"github.com/pyrula/pyrula-node/pyrula"
)

// A run that waits always has a reason, and the reason is the one that decides.
func ExampleClient_Why() {
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

	started, finish := make(chan string), make(chan struct{})
	index := pyrula.Define("index", func(r *pyrula.Run, o Order) (string, error) {
		started <- r.ID
		<-finish
		return "done", nil
	}, pyrula.Limit{Key: "tenant", Max: 1})
	working, stop := context.WithCancel(ctx)
	drained := make(chan error)
	go func() { drained <- c.Work(working, index) }()

	first, err := index.Start(ctx, c, Order{Tenant: "acme"})
	if err != nil {
		log.Fatal(err)
	}
	<-started
	second, err := index.Start(ctx, c, Order{Tenant: "acme"})
	if err != nil {
		log.Fatal(err)
	}
	why, err := second.Why(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("waits for the %s of key %q: %d of %d slots used\n", why.Wait.Reason, *why.Wait.Key, *why.Wait.Used, *why.Wait.Max)
	fmt.Println("held by the first run:", why.Holders[0].RunID == first.ID)

	finish <- struct{}{}
	<-started
	finish <- struct{}{}
	fmt.Println(second.Result(ctx))
	stop()
	fmt.Println("drained:", <-drained)
	// Output:
	// waits for the limit of key "acme": 1 of 1 slots used
	// held by the first run: true
	// done <nil>
	// drained: <nil>
}
