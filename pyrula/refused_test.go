package pyrula_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

// TestRecordIsRefused: an operation whose record the node refuses has not happened. A body
// that goes on in spite of it isn't led to a history that it doesn't match.
func TestRecordIsRefused(t *testing.T) {
	for _, kind := range []string{"step", "signal"} {
		t.Run(kind, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				var c tally
				wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
					var err error
					if kind == "step" {
						_, err = c.step(r, "refused")
					} else {
						_, err = r.WaitSignal("x", 0)
					}
					seen := fmt.Sprint(err)
					if err := r.Sleep(time.Minute); err != nil {
						return "", err
					}
					return seen, nil
				}, pyrula.MaxAttempts(2), pyrula.RetryBackoff(time.Second))
				w.node.refuse = []refusal{{kind: "steps", request: 0, err: errors.New("a fault")}}
				h := start(w, wf, order{})
				w.mustSignal(h.ID, "x", 1)
				k := w.work(w.client, pyrula.WorkerConfig{}, wf)
				if got, err := h.Result(t.Context()); err != nil {
					t.Errorf("result %q, %v, history %q, life %q", got, err, w.node.run(0).names(), w.node.run(0).log)
				}
				k.end()
			})
		})
	}
}

// TestPermanentFailureThatIsPassedOver: a step that failed for good and is passed over is
// recorded as a failure like another: a later run of the body that returns it is tried
// again while attempts are left, each with the same text, and the step isn't.
func TestPermanentFailureThatIsPassedOver(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var c tally
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			_, failed := pyrula.Step(r, "charge", func(context.Context) (string, error) {
				c.add("charge")
				return "", pyrula.Permanent(errors.New("no money"))
			})
			if _, err := c.step(r, "undo"); err != nil {
				return "", err
			}
			if err := r.Sleep(time.Minute); err != nil {
				return "", err
			}
			return "", failed
		}, pyrula.MaxAttempts(3), pyrula.RetryBackoff(time.Second))
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		wantFailed(t, start(w, wf, order{}), "error", "no money")
		if got := w.node.run(0).failures; got != 3 || c.of("charge") != 1 || c.of("undo") != 1 {
			t.Errorf("%d failures, calls %v", got, c.calls)
		}
		k.end()
	})
}

// TestStepNamedLikeAFailedStart: the failure of a start of children is recorded under a
// name that no step of the body can take.
func TestStepNamedLikeAFailedStart(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var c tally
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			_, first := c.step(r, "start of child")
			_, err := r.RunChild("child", nil)
			if first != nil || err == nil {
				return "", errors.Join(first, err, errors.New("the start should fail"))
			}
			return fmt.Sprint(err), r.Sleep(time.Minute)
		})
		w.node.refuse = []refusal{{kind: "children", request: 0, err: &wire.Problem{Status: 400, Code: wire.CodeConfiguration, Detail: "no"}}}
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		if got, err := start(w, wf, order{}).Result(t.Context()); err != nil {
			t.Errorf("result %q, %v", got, err)
		}
		k.end()
	})
}
