package inline_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/pyrula/pyrula-node/pyrula"
	"github.com/pyrula/pyrula-node/pyrula/inline"
)

// Order is what a run of the examples takes.
type Order struct {
	Tenant string `json:"tenant"`
	ID     string `json:"id"`
}

// A workflow that is run in this process, under the same gates as on a node.
func Example() {
	charge := pyrula.Define("charge", func(r *pyrula.Run, o Order) (string, error) {
		return pyrula.Step(r, "charge", func(context.Context) (string, error) { return "ch_" + o.ID, nil })
	}, pyrula.Limit{Key: "tenant", Max: 2})

	runner, err := inline.New(inline.Config{}, charge)
	if err != nil {
		log.Fatal(err)
	}
	defer runner.Close()
	fmt.Println(inline.Run(context.Background(), runner, charge, Order{Tenant: "acme", ID: "o-1"}))
	// Output: ch_o-1 <nil>
}

// A call that won't wait at a gate: while the first run of a tenant works, the second one
// is given up at once and leaves nothing behind.
func ExampleRunner_WithGateTimeout() {
	ctx := context.Background()
	started, finish := make(chan string), make(chan struct{})
	index := pyrula.Define("index", func(r *pyrula.Run, o Order) (string, error) {
		started <- r.ID
		<-finish
		return "indexed " + o.ID, nil
	}, pyrula.Limit{Key: "tenant", Max: 1})
	runner, err := inline.New(inline.Config{}, index)
	if err != nil {
		log.Fatal(err)
	}
	defer runner.Close()

	done := make(chan string)
	go func() {
		text, err := inline.Run(ctx, runner, index, Order{Tenant: "acme", ID: "o-1"})
		done <- fmt.Sprint(text, " ", err)
	}()
	<-started

	_, err = inline.Run(ctx, runner.WithGateTimeout(0), index, Order{Tenant: "acme", ID: "o-2"})
	if gated, ok := errors.AsType[*inline.RunGatedError](err); ok {
		fmt.Printf("gated by the %s of key %q\n", gated.Gate, gated.Key)
	}
	finish <- struct{}{}
	fmt.Println(<-done)
	// Output:
	// gated by the limit of key "acme"
	// indexed o-1 <nil>
}
