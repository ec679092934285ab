package pyrula_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pyrula/pyrula-node/cmd/pyrula-node/node"
	"github.com/pyrula/pyrula-node/pyrula"
)

// Up to 256 runs go in one request, of workflows that the program has and of others
// by name.
func ExampleClient_SubmitBatch() {
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

	mine, err := Charge.Submission(Order{Tenant: "acme", ID: "o-1"})
	if err != nil {
		log.Fatal(err)
	}
	byName := pyrula.Submission{Workflow: "index", Params: map[string]any{"tenant": "acme", "pages": 12}}
	done, err := c.SubmitBatch(ctx, []pyrula.Submission{mine, byName})
	if err != nil {
		log.Fatal(err)
	}
	for _, one := range done {
		fmt.Println(one.Status, one.Created, one.Err)
	}
	// Output:
	// queued true <nil>
	// queued true <nil>
}
