package pyrula_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/pyrula/pyrula-node/cmd/pyrula-node/node"
	"github.com/pyrula/pyrula-node/pyrula"
)

// onTrialNode starts a node and a worker, and gives a client; what it returns stops them.
// A real program has its node elsewhere.
func onTrialNode(ctx context.Context, workflows ...pyrula.Definition) (*pyrula.Client, func()) {
	n, err := node.Start(ctx, node.Config{Addr: "127.0.0.1:0"})
	if err != nil {
		log.Fatal(err)
	}
	c, err := pyrula.Dial(ctx, pyrula.WithAddr(n.Addr()))
	if err != nil {
		log.Fatal(err)
	}
	working, stop := context.WithCancel(ctx)
	drained := make(chan error)
	go func() { drained <- c.Work(working, workflows...) }()
	return c, func() {
		stop()
		if err := <-drained; err != nil {
			log.Print(err)
		}
		c.Close()
		if err := n.Close(ctx); err != nil {
			log.Print(err)
		}
	}
}

// A step's result is recorded with the run. The body fails once, and its second attempt is
// given the charge of the first.
func ExampleStep() {
	ctx := context.Background()
	charges := 0
	ship := pyrula.Define("ship", func(r *pyrula.Run, o Order) (string, error) {
		receipt, err := pyrula.Step(r, "charge", func(context.Context) (Receipt, error) {
			charges++
			return Receipt{Charge: fmt.Sprint("ch_", charges)}, nil
		})
		if err != nil {
			return "", err
		}
		if r.Attempt == 1 {
			return "", fmt.Errorf("no parcel in attempt %d", r.Attempt)
		}
		return receipt.Charge, nil
	}, pyrula.MaxAttempts(3), pyrula.RetryBackoff(10*time.Millisecond))
	c, stop := onTrialNode(ctx, ship)
	defer stop()

	charge, err := ship.Run(ctx, c, Order{})
	fmt.Println(charge, err)
	// Output:
	// ch_1 <nil>
}

// A body that sleeps holds no slot and no worker: the body is run again from its start
// when the time is over. With a real span it sleeps over deploys and restarts.
func ExampleRun_Sleep() {
	ctx := context.Background()
	remind := pyrula.Define("remind", func(r *pyrula.Run, o Order) (string, error) {
		fmt.Println("the body is run")
		if err := r.Sleep(10 * time.Millisecond); err != nil { // 3 * 24 * time.Hour
			return "", err
		}
		return "reminded of " + o.ID, nil
	}, pyrula.Limit{Key: "tenant", Max: 1})
	c, stop := onTrialNode(ctx, remind)
	defer stop()

	done, err := remind.Run(ctx, c, Order{Tenant: "acme", ID: "o-1"})
	fmt.Println(done, err)
	// Output:
	// the body is run
	// the body is run
	// reminded of o-1 <nil>
}

// A body waits for a signal, with a typed payload. Signals are kept from the submit on, so
// it doesn't matter which of the two comes first.
func ExampleWaitSignal() {
	ctx := context.Background()
	type decision struct {
		Approved bool   `json:"approved"`
		By       string `json:"by"`
	}
	refund := pyrula.Define("refund", func(r *pyrula.Run, o Order) (string, error) {
		d, err := pyrula.WaitSignal[decision](r, "decision", 24*time.Hour) // else pyrula.ErrSignalTimeout
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("approved: %v, by %s", d.Approved, d.By), nil
	})
	c, stop := onTrialNode(ctx, refund)
	defer stop()

	run, err := refund.Start(ctx, c, Order{ID: "o-1"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := run.Signal(ctx, "decision", decision{Approved: true, By: "ada"}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
	// Output:
	// approved: true, by ada <nil>
}

// A parent waits for its child suspended, so both may have one key with a Limit of 1.
func ExampleWorkflow_RunChild() {
	ctx := context.Background()
	perTenant := pyrula.Limit{Key: "tenant", Max: 1}
	charge := pyrula.Define("charge", func(r *pyrula.Run, o Order) (Receipt, error) {
		return Receipt{Charge: "ch_" + o.ID}, nil
	}, perTenant)
	order := pyrula.Define("order", func(r *pyrula.Run, o Order) (string, error) {
		receipt, err := charge.RunChild(r, o)
		return "paid with " + receipt.Charge, err
	}, perTenant)
	c, stop := onTrialNode(ctx, charge, order)
	defer stop()

	fmt.Println(order.Run(ctx, c, Order{Tenant: "acme", ID: "o-1"}))
	// Output:
	// paid with ch_o-1 <nil>
}
