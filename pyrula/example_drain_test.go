package pyrula_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/pyrula/pyrula-node/cmd/pyrula-node/node"
	"github.com/pyrula/pyrula-node/pyrula"
)

// A worker that is told to stop lets its bodies finish for the drain timeout. What
// is undone then is handed back, without using an attempt, and another worker goes
// on with it.
func ExampleWorker_Run_drain() {
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

	started, resume := make(chan struct{}, 2), make(chan struct{})
	crawl := pyrula.Define("crawl", func(r *pyrula.Run, o Order) (string, error) {
		started <- struct{}{}
		select {
		case <-resume:
			return fmt.Sprintf("done in attempt %d", r.Attempt), nil
		case <-r.Done():
			return "", context.Cause(r)
		}
	}, pyrula.MaxAttempts(1))

	worker, err := c.NewWorker(pyrula.WorkerConfig{Name: "first", DrainTimeout: 10 * time.Millisecond}, crawl)
	if err != nil {
		log.Fatal(err)
	}
	working, stop := context.WithCancel(ctx)
	drained := make(chan error)
	go func() { drained <- worker.Run(working) }()

	run, err := crawl.Start(ctx, c, Order{})
	if err != nil {
		log.Fatal(err)
	}
	<-started
	stop() // the program's SIGTERM
	fmt.Println("drained:", <-drained)

	working, stop = context.WithCancel(ctx)
	go func() { drained <- c.Work(working, crawl) }()
	close(resume)
	fmt.Println(run.Result(ctx))
	stop()
	fmt.Println("drained:", <-drained)
	// Output:
	// drained: <nil>
	// done in attempt 1 <nil>
	// drained: <nil>
}
