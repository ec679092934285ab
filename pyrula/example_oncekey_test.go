package pyrula_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pyrula/pyrula-node/cmd/pyrula-node/node"
	"github.com/pyrula/pyrula-node/pyrula"
)

// An idempotency key makes a submit safe to repeat by the whole program, say by a
// webhook that is delivered twice. A plain repeat for want of an answer needs none.
func ExampleOnceKey() {
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

	first, err := Charge.Start(ctx, c, Order{Tenant: "acme", ID: "o-1"}, pyrula.OnceKey("webhook-17"))
	if err != nil {
		log.Fatal(err)
	}
	again, err := Charge.Start(ctx, c, Order{Tenant: "acme", ID: "o-1"}, pyrula.OnceKey("webhook-17"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("created:", first.Created, again.Created)
	fmt.Println("the same run:", first.ID == again.ID)
	// Output:
	// created: true false
	// the same run: true
}
