package pyrula_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/pyrula/pyrula-node/cmd/pyrula-node/node"
	"github.com/pyrula/pyrula-node/pyrula"
)

// A cancel reaches an executing body through its context, with the next heartbeat.
// The run is cancelled when the body has returned, whatever it returns.
func ExampleHandle_Cancel() {
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

	started := make(chan struct{})
	train := pyrula.Define("train", func(r *pyrula.Run, o Order) (string, error) {
		close(started)
		<-r.Done() // pass r to whatever takes a context
		fmt.Println("the body stops:", context.Cause(r))
		return "", r.Err()
	}, pyrula.Lease(3*time.Second)) // a heartbeat each second
	working, stop := context.WithCancel(ctx)
	drained := make(chan error)
	go func() { drained <- c.Work(working, train) }()

	run, err := train.Start(ctx, c, Order{})
	if err != nil {
		log.Fatal(err)
	}
	<-started
	if err := run.Cancel(ctx, "nobody needs it any more"); err != nil {
		log.Fatal(err)
	}
	_, err = run.Result(ctx)
	fmt.Println("cancelled:", errors.Is(err, pyrula.ErrRunCancelled))
	stop()
	fmt.Println("drained:", <-drained)
	// Output:
	// the body stops: cancel requested
	// cancelled: true
	// drained: <nil>
}
