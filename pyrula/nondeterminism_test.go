package pyrula_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

// op is one operation of a body that is given as a list.
type op func(r *pyrula.Run) error

func opStep(name string) op {
	return func(r *pyrula.Run) error {
		_, err := pyrula.Step(r, name, func(context.Context) (string, error) { return name, nil })
		return err
	}
}

func opSleep() op { return func(r *pyrula.Run) error { return r.Sleep(time.Second) } }

func opSignal(name string) op {
	return func(r *pyrula.Run) error {
		if _, err := r.WaitSignal(name, -1); !errors.Is(err, pyrula.ErrSignalTimeout) {
			return err
		}
		return nil
	}
}

func opChild(workflow string) op {
	return func(r *pyrula.Run) error {
		_, err := r.RunChild(workflow, nil)
		return err
	}
}

// opRuns waits for runs that don't exist.
func opRuns(ids ...string) op {
	return func(r *pyrula.Run) error {
		_, err := r.WaitRuns(ids...)
		return err
	}
}

// TestNondeterminism: a body that doesn't do again what it has recorded fails its run at
// once, with attempts left, and the message names both what it asks for and what is
// recorded. What it would have done next isn't done.
func TestNondeterminism(t *testing.T) {
	ids := []string{"run_00VHNCZB00E0QSXWAKC8YQVF0C", "run_00VHNCZB00E0QSXWAKC8YQVF1C"}
	for _, one := range []struct {
		name          string
		first, second []op
		says          []string
	}{
		{"a step is inserted", []op{opStep("a"), opStep("b")}, []op{opStep("a"), opStep("new"), opStep("b")}, []string{`step "new"`, `step "b"`}},
		{"a step is inserted first", []op{opStep("a")}, []op{opStep("new"), opStep("a")}, []string{`step "new"`, `step "a"`}},
		{"a step is removed", []op{opStep("a"), opStep("b")}, []op{opStep("b")}, []string{`step "a"`, `step "b"`}},
		{"a step is renamed", []op{opStep("a")}, []op{opStep("b")}, []string{`step "a"`, `step "b"`}},
		{"steps change places", []op{opStep("a"), opStep("b")}, []op{opStep("b"), opStep("a")}, []string{`step "a"`, `step "b"`}},
		{"a loop is shorter", []op{opStep("a"), opStep("a"), opStep("b")}, []op{opStep("a"), opStep("b")}, []string{`step "a", visit 2`, `step "b"`}},
		{"a loop is longer", []op{opStep("a"), opStep("b")}, []op{opStep("a"), opStep("a"), opStep("b")}, []string{`step "a", visit 2`, `step "b"`}},
		{"an early return", []op{opStep("a"), opStep("b")}, []op{opStep("a")}, []string{"returned", `step "b"`}},
		{"nothing at all", []op{opStep("a")}, nil, []string{"returned", `step "a"`}},
		{"another signal", []op{opSignal("x")}, []op{opSignal("y")}, []string{`signal "x"`, `signal "y"`}},
		{"a sleep for a signal", []op{opSignal("x")}, []op{opSleep()}, []string{`signal "x"`, `sleep "sleep"`}},
		{"a step for a sleep", []op{opSleep()}, []op{opStep("a")}, []string{`sleep "sleep"`, `step "a"`}},
		{"a step of a sleep's name", []op{opSleep()}, []op{opStep("sleep")}, []string{`sleep "sleep"`, `step "sleep"`}},
		{"another child", []op{opChild("child")}, []op{opChild("other")}, []string{`children "child"`, `children "other"`}},
		{"a step of a child's name", []op{opChild("child")}, []op{opStep("child")}, []string{`children "child"`, `step "child"`}},
		{"no child", []op{opChild("child"), opStep("a")}, []op{opStep("a")}, []string{`children "child"`, `step "a"`}},
		{"another run", []op{opRuns(ids[0])}, []op{opRuns(ids[1])}, []string{ids[0], ids[1]}},
		{"one run more", []op{opRuns(ids[0])}, []op{opRuns(ids...)}, []string{ids[0], ids[1]}},
		{"one run less", []op{opRuns(ids...)}, []op{opRuns(ids[0])}, []string{ids[0]}},
	} {
		t.Run(one.name, func(t *testing.T) {
			inRealWorld(t, func(t *testing.T, w *world) {
				playChanged(t, w, one.first, one.second, one.says)
			})
		})
	}
}

// playChanged runs a body whose operations change behind a suspension.
func playChanged(t *testing.T, w *world, first, second []op, says []string) {
	t.Helper()
	var c tally
	child := pyrula.Define("child", charge)
	other := pyrula.Define("other", charge)
	wf := pyrula.Define("changing", func(r *pyrula.Run, o order) (string, error) {
		list := first
		if c.of("passed the first") > 0 {
			c.add("later")
			list = second
		}
		for _, do := range list {
			if err := do(r); err != nil {
				return "", err
			}
		}
		if c.of("later") == 0 {
			c.add("passed the first")
			return "", errors.New("an attempt that fails")
		}
		c.add("passed the second")
		return "done", nil
	}, pyrula.MaxAttempts(5), pyrula.RetryBackoff(time.Second))
	k := w.work(w.client, pyrula.WorkerConfig{}, wf, child, other)
	h := start(w, wf, order{})
	wantFailed(t, h, "nondeterministic", says...)
	if got := w.status(h.ID).Attempt; got != 2 || c.of("later") != 1 {
		t.Errorf("%d attempts and %d bodies that had changed, want the run to fail at once", got, c.of("later"))
	}
	if says[0] != "returned" && c.of("passed the second") != 0 {
		t.Error("the body went on")
	}
	k.end()
}

// TestChangeBehindTheHistory: what isn't recorded yet may change.
func TestChangeBehindTheHistory(t *testing.T) {
	inRealWorld(t, func(t *testing.T, w *world) {
		var c tally
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			if err := opStep("a")(r); err != nil {
				return "", err
			}
			if c.add("body") == 1 {
				return "", errors.New("again")
			}
			return "done", errors.Join(opStep("new")(r), opSleep()(r), opStep("a")(r))
		}, pyrula.MaxAttempts(2))
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		if got, err := start(w, wf, order{}).Result(t.Context()); err != nil || got != "done" {
			t.Errorf("result %q, %v", got, err)
		}
		k.end()
	})
}

// TestErrorBeforeTheRecordedEnd: a body that fails before it comes to what is recorded is
// an attempt that fails like another, since what failed may go well the next time.
func TestErrorBeforeTheRecordedEnd(t *testing.T) {
	inRealWorld(t, func(t *testing.T, w *world) {
		var c tally
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			if c.add("body") == 2 {
				return "", errors.New("no database")
			}
			got, err := c.step(r, "a")
			if err == nil && r.Attempt == 1 {
				err = errors.New("again")
			}
			return got, err
		}, pyrula.MaxAttempts(3), pyrula.RetryBackoff(time.Second))
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		h := start(w, wf, order{})
		if got, err := h.Result(t.Context()); err != nil || got != "a" || c.of("a") != 1 || w.status(h.ID).Attempt != 3 {
			t.Errorf("result %q, %v after %v", got, err, c.calls)
		}
		k.end()
	})
}

// TestOperationsOneByOne: an operation in a step's function, or beside one in another
// goroutine, fails the run at once, and the message names both.
func TestOperationsOneByOne(t *testing.T) {
	inRealWorld(t, func(t *testing.T, w *world) {
		var c tally
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			switch o.ID {
			case "in a step":
				return pyrula.Step(r, "outer", func(context.Context) (string, error) { return c.step(r, "inner") })
			case "sleep in a step":
				return pyrula.Step(r, "outer", func(context.Context) (string, error) { return "", r.Sleep(time.Second) })
			}
			busy, ended := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(ended)
				<-busy
				got, err := c.step(r, "inner")
				t.Errorf("the second operation gives %q, %v", got, err)
			}()
			_, err := pyrula.Step(r, "outer", func(ctx context.Context) (string, error) {
				close(busy)
				<-ended
				return "", ctx.Err()
			})
			return "swallowed", err
		}, pyrula.MaxAttempts(3))
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		for id, inner := range map[string]string{"in a step": `step "inner"`, "sleep in a step": `sleep "sleep"`, "beside a step": `step "inner"`} {
			h := start(w, wf, order{ID: id})
			wantFailed(t, h, "nondeterministic", `step "outer"`, inner)
			if got := w.status(h.ID).Attempt; got != 1 || c.of("inner") != 0 {
				t.Errorf("%s: %d attempts, calls %v", id, got, c.calls)
			}
		}
		k.end()
	})
}

// TestReturnBesideAnOperation: a body that returns while a goroutine of it is in the
// middle of an operation hasn't ended well.
func TestReturnBesideAnOperation(t *testing.T) {
	inRealWorld(t, func(t *testing.T, w *world) {
		release := make(chan struct{})
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			busy := make(chan struct{})
			go func() {
				if _, err := pyrula.Step(r, "beside", func(context.Context) (int, error) {
					close(busy)
					<-release
					return 1, nil
				}); err == nil {
					t.Error("a step was recorded behind the body's end")
				}
			}()
			<-busy
			return "done", nil
		}, pyrula.MaxAttempts(3))
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		wantFailed(t, start(w, wf, order{}), "nondeterministic", `step "beside"`)
		close(release)
		synctest.Wait()
		k.end()
	})
}

// TestStepIsRecordedOtherwise: when the node knows another result of the same call, the
// run can't go on.
func TestStepIsRecordedOtherwise(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) { return "", opStep("a")(r) }, pyrula.MaxAttempts(3))
		w.net.setFault(func(c call) fault {
			if strings.HasSuffix(c.path, "/steps") {
				return fault{problem: &wire.Problem{Status: 409, Code: wire.CodeStepConflict, Detail: `step "a" is recorded otherwise`}}
			}
			return fault{}
		})
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		wantFailed(t, start(w, wf, order{}), "nondeterministic", `step "a"`)
		if got := w.node.run(0).attempt; got != 1 {
			t.Errorf("%d attempts", got)
		}
		k.end()
	})
}
