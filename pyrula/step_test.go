package pyrula_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

// TestStepIsRecordedBeforeItReturns: when Step returns, the node has the result; a later
// attempt gets it from there, also where a name is called more than once, and reads it
// into another type that fits.
func TestStepIsRecordedBeforeItReturns(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var c tally
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			var list []string
			for i := range 3 {
				got, err := pyrula.Step(r, "slice", func(ctx context.Context) (string, error) {
					if ctx.Err() != nil {
						t.Error("the step's context has ended")
					}
					return fmt.Sprint("slice ", i, " of call ", c.add("slice")), nil
				})
				if err != nil {
					return "", err
				}
				if have := w.node.run(0).entries(); have <= i {
					t.Errorf("the step has returned and the node has %d entries", have)
				}
				list = append(list, got)
			}
			if r.Attempt < 3 {
				return "", errors.New("not yet")
			}
			return strings.Join(list, ", "), nil
		}, pyrula.MaxAttempts(3), pyrula.RetryBackoff(time.Second))
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		got, err := start(w, wf, order{}).Result(t.Context())
		if err != nil || got != "slice 0 of call 1, slice 1 of call 2, slice 2 of call 3" || c.of("slice") != 3 {
			t.Errorf("result %q, %v after %d calls", got, err, c.of("slice"))
		}
		want := []string{"step slice/1", "step slice/2", "step slice/3"}
		if got := w.node.run(0).names(); !slices.Equal(got, want) {
			t.Errorf("history %q", got)
		}
		k.end()
	})
}

// oddly is a type that doesn't read back what it is: only what is recorded counts.
type oddly struct {
	Shown  int
	hidden int
}

// TestStepGivesWhatIsRecorded: the first run of a body is given the same value as every
// later one: what was recorded, not what the function made.
func TestStepGivesWhatIsRecorded(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			v, err := pyrula.Step(r, "odd", func(context.Context) (oddly, error) { return oddly{Shown: 1, hidden: 2}, nil })
			if err != nil {
				return "", err
			}
			n, err := pyrula.Step(r, "any", func(context.Context) (any, error) { return 7, nil })
			if err != nil {
				return "", err
			}
			said := fmt.Sprintf("%+v %T", v, n)
			if r.Attempt == 1 {
				return "", errors.New(said)
			}
			return said, nil
		}, pyrula.MaxAttempts(2))
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		got, err := start(w, wf, order{}).Result(t.Context())
		if first := w.node.run(0).failure.Message; err != nil || got != first || got != "{Shown:1 hidden:0} float64" {
			t.Errorf("the first run saw %q, the second %q, %v", first, got, err)
		}
		k.end()
	})
}

// TestFailedStep: a step that fails isn't recorded when the body fails with it, and is
// tried again; it is recorded when the body goes on, before the next operation's function
// runs, and later runs are given a *StepError with the same text.
func TestFailedStep(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var c tally
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) ([]string, error) {
			_, err := pyrula.Step(r, "flaky", func(context.Context) (int, error) {
				if c.add("flaky") < 3 {
					return 7, errors.New("try again")
				}
				return 0, &pyrula.RunFailed{Type: "declined", Message: "no money"}
			})
			if c.of("flaky") < 3 {
				return nil, err
			}
			seen := []string{err.Error()}
			stepErr, replayed := errors.AsType[*pyrula.StepError](err)
			if replayed && (stepErr.Name != "flaky" || stepErr.Type != "declined") {
				t.Errorf("recorded as %+v", stepErr)
			}
			next, err := pyrula.Step(r, "next", func(context.Context) (string, error) {
				if got := w.node.run(0).names(); !slices.Equal(got, []string{"step flaky/1"}) {
					t.Errorf("history %q when the body went on, want the failure", got)
				}
				return fmt.Sprint("call ", c.add("next")), nil
			})
			if err != nil {
				return nil, err
			}
			if err := r.Sleep(time.Minute); err != nil {
				return nil, err
			}
			return append(seen, next, fmt.Sprint(replayed)), nil
		}, pyrula.MaxAttempts(5), pyrula.RetryBackoff(0))
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		got, err := start(w, wf, order{}).Result(t.Context())
		if err != nil || !slices.Equal(got, []string{"declined: no money", "call 1", "true"}) {
			t.Errorf("result %q, %v", got, err)
		}
		if c.of("flaky") != 3 || c.of("next") != 1 {
			t.Errorf("calls %v", c.calls)
		}
		if got := w.node.run(0).names(); !slices.Equal(got, []string{"step flaky/1", "step next/1", "moment sleep/1"}) {
			t.Errorf("history %q", got)
		}
		k.end()
	})
}

// TestFailedStepOfARunThatEndsWell: a body that passes over a failure and returns has no
// need of a record.
func TestFailedStepOfARunThatEndsWell(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			_, err := pyrula.Step(r, "flaky", func(context.Context) (int, error) { return 0, errors.New("oh") })
			return "in spite of " + err.Error(), nil
		})
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		got, err := start(w, wf, order{}).Result(t.Context())
		if err != nil || got != "in spite of oh" || w.node.run(0).entries() != 0 {
			t.Errorf("result %q, %v, history %q", got, err, w.node.run(0).names())
		}
		k.end()
	})
}

// TestStepPanics: a panic of a step's function is one of the body. Nothing is recorded,
// and a body that recovers can't go on as if nothing had been: that would be another path
// than the one of a later run.
func TestStepPanics(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var c tally
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			func() {
				defer func() {
					if p := recover(); p != nil && o.ID != "recovers" {
						panic(p)
					}
				}()
				_, err := pyrula.Step(r, "bad", func(context.Context) (int, error) {
					if c.add("bad of "+o.ID) == 1 {
						panic("oh no")
					}
					return 0, nil
				})
				if err != nil {
					t.Errorf("the step gives %v", err)
				}
			}()
			return c.step(r, "next")
		}, pyrula.MaxAttempts(2))
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		for i, id := range []string{"panics", "recovers"} {
			if got, err := start(w, wf, order{ID: id}).Result(t.Context()); got != "next" || err != nil {
				t.Errorf("%s: result %q, %v", id, got, err)
			}
			run := w.node.run(i)
			if !slices.Equal(run.names(), []string{"step bad/1", "step next/1"}) || run.failures != 1 || c.of("bad of "+id) != 2 {
				t.Errorf("%s: history %q after %d failures and %v", id, run.names(), run.failures, c.calls)
			}
		}
		k.end()
	})
}

// TestStepOfBadValues: what doesn't encode, is too large, or has no name, fails the run
// for good; what was recorded in another type fails it where it is read.
func TestStepOfBadValues(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var c tally
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			var err error
			switch o.ID {
			case "chan":
				_, err = pyrula.Step(r, "s", func(context.Context) (chan int, error) { return make(chan int), nil })
			case "large":
				_, err = pyrula.Step(r, "s", func(context.Context) (string, error) { return strings.Repeat("x", 1<<20), nil })
			case "reads as nothing":
				_, err = pyrula.Step(r, "s", func(context.Context) (error, error) { return errors.New("x"), nil })
			case "no name":
				_, err = c.step(r, "")
			case "control":
				_, err = c.step(r, "a\nb")
			case "another type":
				if c.add("type") == 1 {
					_, err = pyrula.Step(r, "s", func(context.Context) (string, error) { return "text", nil })
					return "", errors.Join(err, errors.New("again"))
				}
				_, err = pyrula.Step(r, "s", func(context.Context) (int, error) { return 1, nil })
			}
			return "", err
		}, pyrula.MaxAttempts(3), pyrula.RetryBackoff(0))
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		for i, one := range []struct {
			id, kind, word string
			attempts       int64
		}{
			{"chan", "result_error", `step "s"`, 1},
			{"large", "result_error", `step "s"`, 1},
			{"reads as nothing", "result_error", `step "s"`, 1},
			{"no name", "error", "name", 1},
			{"control", "error", "name", 1},
			{"another type", "error", `step "s"`, 2},
		} {
			wantFailed(t, start(w, wf, order{ID: one.id}), one.kind, one.word)
			if got := w.node.run(i); got.attempt != one.attempts {
				t.Errorf("%s: %d attempts, want %d", one.id, got.attempt, one.attempts)
			}
		}
		k.end()
	})
}

// TestBadResultThatIsPassedOver: a step whose result can't be kept is a failed step like
// another where the body goes on.
func TestBadResultThatIsPassedOver(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var c tally
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			_, err := pyrula.Step(r, "s", func(context.Context) (chan int, error) {
				c.add("s")
				return make(chan int), nil
			})
			if err == nil {
				t.Error("a channel was recorded")
			}
			if err := r.Sleep(time.Minute); err != nil {
				return "", err
			}
			return c.step(r, "next")
		})
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		if got, err := start(w, wf, order{}).Result(t.Context()); got != "next" || err != nil || c.of("s") != 1 {
			t.Errorf("result %q, %v after %d calls", got, err, c.of("s"))
		}
		k.end()
	})
}

// TestStepOverABadNetwork: a record is sent again until it is taken, with the same bytes,
// and is made once; the function runs once.
func TestStepOverABadNetwork(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var c tally
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			if _, err := c.step(r, "a"); err != nil {
				return "", err
			}
			return c.step(r, "b")
		})
		w.net.setFault(func(c call) fault {
			switch {
			case !strings.HasSuffix(c.path, "/steps"):
				return fault{}
			case c.nth == 1:
				return fault{lost: true}
			case c.nth == 2:
				return fault{cut: true} // it was recorded
			case c.nth == 4:
				return fault{problem: &wire.Problem{Status: 503, Code: wire.CodeNotReady, Retryable: true}}
			case c.nth == 5:
				return fault{problem: &wire.Problem{Status: 503, Code: wire.CodeOutcomeUnknown, Retryable: true}}
			}
			return fault{}
		})
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		if got, err := start(w, wf, order{}).Result(t.Context()); got != "b" || err != nil {
			t.Errorf("result %q, %v", got, err)
		}
		if got := w.node.run(0); got.entries() != 2 || got.attempt != 1 || c.of("a") != 1 || c.of("b") != 1 {
			t.Errorf("history %q after %d attempts and %v", got.names(), got.attempt, c.calls)
		}
		sent := w.net.to(endPath(w, "steps"))
		if len(sent) != 6 || string(sent[0].body) != string(sent[2].body) {
			t.Errorf("%d requests, want six, the first three the same", len(sent))
		}
		k.end()
	})
}
