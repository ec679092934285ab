// Package pyrulatest is for tests of programs that use package pyrula. A test has a node
// of its own in its own process, and time that passes only when everybody waits:
//
//	func TestChargeIsTriedAgain(t *testing.T) {
//		pyrulatest.Test(t, func(t *testing.T, env *pyrulatest.Env) {
//			run := pyrulatest.Start(env, Charge, Order{Tenant: "acme"})
//			env.Expect(run.ID, "suspended") // its first attempt failed
//			env.Advance(24 * time.Hour)     // takes a moment
//			if got := pyrulatest.Result(env, run); got.Charge != "ch_1" {
//				t.Errorf("charged %q", got.Charge)
//			}
//		}, Charge)
//	}
//
// Gates, leases, back-offs, sleeps, signals and children are those of a node, since it is
// one: see package inline. What fails says what the run was waiting for and shows its
// journal.
//
// A workflow whose runs are made of events is tested in the same way: send events with
// [pyrula.Trigger] and Env.Client, let the window pass, and look at [Runs].
//
//	_, err := pyrula.Trigger(t.Context(), env.Client, Reindex, Edit{Page: "home"})
//	env.Advance(48 * time.Hour) // the Window of its Debounce
//	got := pyrulatest.Result(env, pyrulatest.Runs(env, Reindex)[0])
//
// # Virtual time
//
// The test runs in a bubble of testing/synctest. Its clock stands at the beginning of the
// year 2000 and jumps whenever every goroutine of the bubble waits: for time, for a
// channel, or for each other. So no test sleeps, and instants can be compared exactly. It
// needs two things:
//
//   - A channel, timer or context that bodies and the test share is made inside the
//     function that Test calls, and the context to use is that of the t it is given. A
//     workflow whose body uses one is defined in there too, and given to [Env.Serve];
//     others can be package variables.
//   - A body doesn't wait for a network or another process: the bubble can't see that
//     it waits, and its clock stands still meanwhile. Put a fake in its place.
package pyrulatest

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyrula/pyrula-node/pyrula"
	"github.com/pyrula/pyrula-node/pyrula/inline"
)

// DefaultPatience is how long [Result] and those like it wait, in virtual time.
const DefaultPatience = 7 * 24 * time.Hour

// lastMoment is for goroutines of the test that have seen the runner close.
const lastMoment = time.Second

// Env is the node that a test has for itself, and its worker. It may be used by all
// goroutines of the test; methods that can fail end the test when they do, so they are
// called from the test's own goroutine.
type Env struct {
	// Runner runs the workflows; see [inline.Run] and [inline.Runner.WithGateTimeout].
	Runner *inline.Runner
	// Client does all that the methods of Env don't.
	Client *pyrula.Client
	// Patience bounds waits in virtual time, so that a run which can't end fails the test
	// and doesn't hang it. Defaults to DefaultPatience: a workflow that sleeps for longer
	// needs more.
	Patience time.Duration

	t     testing.TB
	began time.Time
}

// Test runs f in virtual time with a node of its own, which serves the workflows and is
// gone when f returns. What the node logs goes to the test's output.
func Test(t *testing.T, f func(t *testing.T, env *Env), workflows ...pyrula.Definition) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		r, err := inline.New(inline.Config{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}, workflows...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			<-time.After(lastMoment)
		})
		f(t, &Env{Runner: r, Client: r.Client(), Patience: DefaultPatience, t: t, began: time.Now()})
	})
}

// Serve has the node serve more workflows, as those that Test is given.
func (e *Env) Serve(workflows ...pyrula.Definition) {
	e.t.Helper()
	if err := e.Runner.Serve(workflows...); err != nil {
		e.t.Fatal(err)
	}
}

// Start submits a run and waits until it has started, or waits for something itself. The
// test fails if it can't be submitted.
func Start[In, Out any](env *Env, w *pyrula.Workflow[In, Out], in In, opts ...pyrula.StartOption) *pyrula.Handle[Out] {
	env.t.Helper()
	h, err := w.Start(env.t.Context(), env.Client, in, opts...)
	if err != nil {
		env.t.Fatalf("start workflow %q: %v", w.Name(), err)
	}
	synctest.Wait()
	return h
}

// Run is [Start], then [Result].
func Run[In, Out any](env *Env, w *pyrula.Workflow[In, Out], in In, opts ...pyrula.StartOption) Out {
	env.t.Helper()
	return Result(env, Start(env, w, in, opts...))
}

// Result lets time pass until the run ends, and returns what it gave. The test fails,
// with [Env.Explain], if the run doesn't complete within the env's patience.
func Result[Out any](env *Env, h *pyrula.Handle[Out]) Out {
	env.t.Helper()
	env.await(h.ID, "completed")
	out, err := h.Result(env.t.Context())
	if err != nil {
		env.t.Fatalf("%v\n%s", err, env.Explain(h.ID))
	}
	return out
}

// Failure lets time pass until the run ends, and returns how it failed. The test fails,
// with [Env.Explain], if the run doesn't fail within the env's patience.
func Failure[Out any](env *Env, h *pyrula.Handle[Out]) *pyrula.RunFailed {
	env.t.Helper()
	env.await(h.ID, "failed")
	_, err := h.Result(env.t.Context())
	failed, ok := errors.AsType[*pyrula.RunFailed](err)
	if !ok {
		env.t.Fatalf("gave %v, want a failed run\n%s", err, env.Explain(h.ID))
	}
	return failed
}

// Runs are the runs of a workflow that there are once nothing moves, the oldest first: also
// those that events or a schedule have made. A run of events is as old as the first of them.
func Runs[In, Out any](env *Env, w *pyrula.Workflow[In, Out]) []*pyrula.Handle[Out] {
	env.t.Helper()
	synctest.Wait()
	var all []*pyrula.Handle[Out]
	for q := (pyrula.ListQuery{Workflow: w.Name()}); ; {
		page, err := env.Client.List(env.t.Context(), q)
		if err != nil {
			env.t.Fatalf("list the runs of workflow %q: %v", w.Name(), err)
		}
		for i := range page.Runs {
			all = append(all, w.Handle(env.Client, page.Runs[i].RunID))
		}
		if page.NextCursor == nil {
			slices.Reverse(all)
			return all
		}
		q.Cursor = *page.NextCursor
	}
}

// await waits for a run's end and fails unless it is this one.
func (e *Env) await(runID, want string) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), e.Patience)
	defer cancel()
	st, err := e.Client.Wait(ctx, runID)
	switch {
	case err != nil && ctx.Err() != nil:
		e.t.Fatalf("the run has not ended within %v of virtual time (see Env.Patience), want %s\n%s", e.Patience, want, e.Explain(runID))
	case err != nil:
		e.t.Fatalf("wait for run %s: %v", runID, err)
	case st.Status != want:
		e.t.Fatalf("the run is %s, want %s\n%s", st.Status, want, e.Explain(runID))
	}
}

// Advance lets time pass, and everything happen that is due by then.
func (e *Env) Advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// Wait returns when nobody in the test has anything to do before time passes.
func (e *Env) Wait() { synctest.Wait() }

// Elapsed is the virtual time since the test began.
func (e *Env) Elapsed() time.Duration { return time.Since(e.began) }

// Expect waits until nothing moves, and fails, with [Env.Explain], unless the run has the
// status now: "queued", "executing", "suspended", "completed", "failed", "cancelled",
// "terminated" or "continued". It goes on after a failure.
func (e *Env) Expect(runID, status string) {
	e.t.Helper()
	synctest.Wait()
	if st := e.Status(runID); st.Status != status {
		e.t.Errorf("the run is %s, want %s\n%s", st.Status, status, e.Explain(runID))
	}
}

// Status is the run as it stands.
func (e *Env) Status(runID string) *pyrula.RunStatus {
	e.t.Helper()
	st, err := e.Client.Status(e.t.Context(), runID)
	if err != nil {
		e.t.Fatal(err)
	}
	return st
}

// Signal sends a run a signal, and waits until nothing moves.
func (e *Env) Signal(runID, name string, payload any) {
	e.t.Helper()
	if _, err := e.Client.Signal(e.t.Context(), runID, name, payload); err != nil {
		e.t.Fatal(err)
	}
	synctest.Wait()
}

// Cancel asks for a run's end, and waits until nothing moves. A body that works hears of
// it with its worker's next heartbeat, within a third of its lease.
func (e *Env) Cancel(runID, reason string) {
	e.t.Helper()
	if err := e.Client.Cancel(e.t.Context(), runID, reason); err != nil {
		e.t.Fatal(err)
	}
	synctest.Wait()
}
