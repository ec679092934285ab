package pyrulatest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pyrula/pyrula-node/pyrula"
	"github.com/pyrula/pyrula-node/pyrula/pyrulatest"
)

// TestMain fails when a test leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Order and Receipt are what the workflow under test takes and gives.
type Order struct {
	Tenant string `json:"tenant"`
	Down   bool   `json:"down"` // the bank is, at first
}

type Receipt struct {
	Charge string `json:"charge"`
}

var errDown = errors.New("the bank is down")

// Charge is a workflow as a program has it: a package variable with its policies.
var Charge = pyrula.Define("charge", func(r *pyrula.Run, o Order) (Receipt, error) {
	if o.Down && r.Attempt == 1 {
		return Receipt{}, errDown
	}
	return Receipt{Charge: "ch_" + o.Tenant}, nil
},
	pyrula.Limit{Key: "tenant", Max: 1}, pyrula.MaxAttempts(2), pyrula.RetryBackoff(24*time.Hour))

// A run that is tried again a day later, in a moment.
func TestChargeIsTriedAgain(t *testing.T) {
	pyrulatest.Test(t, func(t *testing.T, env *pyrulatest.Env) {
		run := pyrulatest.Start(env, Charge, Order{Tenant: "acme", Down: true})
		env.Expect(run.ID, "suspended")
		env.Advance(23 * time.Hour)
		env.Expect(run.ID, "suspended")
		if got := pyrulatest.Result(env, run); got.Charge != "ch_acme" {
			t.Errorf("charged %q", got.Charge)
		}
		if env.Elapsed() != 24*time.Hour {
			t.Errorf("it took %v, want a day", env.Elapsed())
		}
	}, Charge)
}

// Two runs of one tenant, of which one waits for the other. What the bodies and the test
// share is made inside, and so is the workflow.
func TestOneChargeAtATime(t *testing.T) {
	pyrulatest.Test(t, func(t *testing.T, env *pyrulatest.Env) {
		bank := make(chan string)
		charge := pyrula.Define("charge", func(r *pyrula.Run, o Order) (Receipt, error) {
			select {
			case id := <-bank:
				return Receipt{Charge: id}, nil
			case <-r.Done():
				return Receipt{}, context.Cause(r)
			}
		}, pyrula.Limit{Key: "tenant", Max: 1})
		env.Serve(charge)

		first := pyrulatest.Start(env, charge, Order{Tenant: "acme"})
		second := pyrulatest.Start(env, charge, Order{Tenant: "acme"})
		env.Expect(first.ID, "executing")
		env.Expect(second.ID, "queued")
		bank <- "ch_1"
		env.Expect(second.ID, "executing")
		bank <- "ch_2"
		if got := pyrulatest.Result(env, second); got.Charge != "ch_2" {
			t.Errorf("charged %q", got.Charge)
		}
	})
}

// Approval sleeps over a request, and then waits for a word.
var Approval = pyrula.Define("approval", func(r *pyrula.Run, o Order) (Receipt, error) {
	if err := r.Sleep(8 * time.Hour); err != nil {
		return Receipt{}, err
	}
	by, err := pyrula.WaitSignal[string](r, "approved", 4*time.Hour)
	if errors.Is(err, pyrula.ErrSignalTimeout) {
		return Receipt{}, pyrula.Permanent(errors.New("nobody cared"))
	}
	return Receipt{Charge: o.Tenant + " by " + by}, err
})

// A run that is told something, one that nobody tells anything, and one that is called off.
func TestApproval(t *testing.T) {
	pyrulatest.Test(t, func(t *testing.T, env *pyrulatest.Env) {
		told := pyrulatest.Start(env, Approval, Order{Tenant: "a"})
		silent := pyrulatest.Start(env, Approval, Order{Tenant: "b"})
		off := pyrulatest.Start(env, Approval, Order{Tenant: "c"})
		env.Advance(9 * time.Hour)
		env.Expect(told.ID, "suspended")
		env.Cancel(off.ID, "not needed any more")
		env.Expect(off.ID, "cancelled")
		env.Signal(told.ID, "approved", "jo")
		env.Expect(told.ID, "completed")
		if got := pyrulatest.Result(env, told); got.Charge != "a by jo" {
			t.Errorf("gave %q", got.Charge)
		}
		if got := pyrulatest.Failure(env, silent); got.Message != "nobody cared" {
			t.Errorf("failed with %+v", got)
		}
		if env.Elapsed() != 12*time.Hour {
			t.Errorf("it took %v, want 8 h and 4 h", env.Elapsed())
		}
	}, Approval)
}

func TestFailureIsReturned(t *testing.T) {
	pyrulatest.Test(t, func(t *testing.T, env *pyrulatest.Env) {
		broken := pyrulatest.Start(env, Refund, Order{Tenant: "acme"})
		if got := pyrulatest.Failure(env, broken); got.Type != "error" || got.Message != errDown.Error() {
			t.Errorf("failed with %+v", got)
		}
		if got := pyrulatest.Run(env, Charge, Order{Tenant: "b"}); got.Charge != "ch_b" {
			t.Errorf("charged %q", got.Charge)
		}
		if env.Elapsed() != 0 {
			t.Errorf("it took %v", env.Elapsed())
		}
	}, Charge, Refund)
}

// Refund fails for good.
var Refund = pyrula.Define("refund", func(*pyrula.Run, Order) (Receipt, error) {
	return Receipt{}, pyrula.Permanent(errDown)
})
