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

// An error is tried again while attempts are left, each time after the back-off. One
// that is marked permanent isn't. Whoever waits for the result gets a *RunFailed.
func ExamplePermanent() {
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

	pay := pyrula.Define("pay", func(r *pyrula.Run, o Order) (string, error) {
		switch {
		case o.ID == "no such card":
			return "", pyrula.Permanent(&pyrula.RunFailed{Type: "card", Message: "there is no such card"})
		case r.Attempt < 3:
			return "", errors.New("the bank is busy")
		}
		return fmt.Sprintf("paid in attempt %d", r.Attempt), nil
	}, pyrula.MaxAttempts(5), pyrula.RetryBackoff(10*time.Millisecond))
	working, stop := context.WithCancel(ctx)
	drained := make(chan error)
	go func() { drained <- c.Work(working, pay) }()

	fmt.Println(pay.Run(ctx, c, Order{ID: "o-1"}))
	_, err = pay.Run(ctx, c, Order{ID: "no such card"})
	if failed, ok := errors.AsType[*pyrula.RunFailed](err); ok {
		fmt.Printf("failed as %s: %s\n", failed.Type, failed.Message)
	}
	stop()
	fmt.Println("drained:", <-drained)
	// Output:
	// paid in attempt 3 <nil>
	// failed as card: there is no such card
	// drained: <nil>
}
