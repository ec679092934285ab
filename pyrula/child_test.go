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

// TestP54ParentAndChildOnOneKey: a parent that waits for its child holds nothing, so three
// generations on one key with a Limit of 1, at a worker of one place, end.
func TestP54ParentAndChildOnOneKey(t *testing.T) {
	inRealWorld(t, func(t *testing.T, w *world) {
		var c tally
		var wf *pyrula.Workflow[order, string]
		wf = pyrula.Define("family", func(r *pyrula.Run, o order) (string, error) {
			if c.add("at work") > 1 {
				t.Error("two bodies of one key at once")
			}
			defer c.sub("at work")
			if len(o.ID) == 3 {
				return o.ID, nil
			}
			got, err := wf.RunChild(r, order{Tenant: o.Tenant, ID: o.ID + "x"})
			return o.ID + " " + got, err
		}, pyrula.Limit{Key: "tenant", Max: 1})
		k := w.work(w.client, pyrula.WorkerConfig{Concurrency: 1}, wf)
		h := start(w, wf, order{Tenant: "acme", ID: "x"})
		if got, err := h.Result(t.Context()); err != nil || got != "x xx xxx" {
			t.Errorf("result %q, %v", got, err)
		}
		if run := w.status(h.ID); run.Attempt != 1 || w.keyUsed("family", "acme") != 0 {
			t.Errorf("%d attempts, %d slots taken", run.Attempt, w.keyUsed("family", "acme"))
		}
		if got := w.history(h.ID); len(got) != 2 || got[0] != "children family/1" || !strings.HasPrefix(got[1], "runs run_") {
			t.Errorf("history %q", got)
		}
		k.end()
	})
}

// TestS96OutcomesOfChildren: a parent wakes once with how its child ended, in the run of
// the body behind the wait and in each later one, and may ask again.
func TestS96OutcomesOfChildren(t *testing.T) {
	inRealWorld(t, func(t *testing.T, w *world) {
		child := pyrula.Define("child", func(r *pyrula.Run, o order) (string, error) {
			switch o.ID {
			case "fails":
				return "", &pyrula.RunFailed{Type: "declined", Message: "no money"}
			case "waits":
				_, err := r.WaitSignal("never", 0)
				return "", err
			}
			return "done", nil
		})
		parent := pyrula.Define("parent", func(r *pyrula.Run, o order) ([]string, error) {
			one, err := child.StartChild(r, order{ID: o.ID})
			if err != nil {
				return nil, err
			}
			var said []string
			for range 2 {
				got, err := one.Result(r)
				said = append(said, sayOutcome(got, err))
			}
			return append(said, one.ID), r.Sleep(time.Second)
		})
		k := w.work(w.client, pyrula.WorkerConfig{}, parent, child)
		for id, want := range map[string]string{
			"ends": "done", "fails": "failed declined no money", "waits": "cancelled", "waits for the end": "done",
		} {
			h := start(w, parent, order{ID: id})
			if id == "waits" {
				pass(time.Minute)
				w.wantStatus("suspended", h.ID)
				if err := w.client.Cancel(t.Context(), childOf(w, h.ID), ""); err != nil {
					t.Fatal(err)
				}
			}
			got, err := h.Result(t.Context())
			if err != nil || len(got) != 3 || got[0] != want || got[1] != want {
				t.Errorf("%s: result %q, %v, want %q twice", id, got, err, want)
			}
		}
		h := start(w, parent, order{ID: "waits"})
		pass(time.Minute)
		if err := w.client.Terminate(t.Context(), childOf(w, h.ID), ""); err != nil {
			t.Fatal(err)
		}
		if got, err := h.Result(t.Context()); err != nil || got[0] != "terminated" || got[1] != "terminated" {
			t.Errorf("result %q, %v", got, err)
		}
		k.end()
	})
}

// sayOutcome says how a run ended for who waited.
func sayOutcome(got string, err error) string {
	failed, isFailed := errors.AsType[*pyrula.RunFailed](err)
	switch {
	case err == nil:
		return got
	case isFailed && failed.RunID != "":
		return "failed " + failed.Type + " " + failed.Message
	case errors.Is(err, pyrula.ErrRunCancelled):
		return "cancelled"
	case errors.Is(err, pyrula.ErrRunTerminated):
		return "terminated"
	case errors.Is(err, pyrula.ErrUnknownRun):
		return "unknown"
	}
	return err.Error()
}

// childOf is the first child of a run.
func childOf(w *world, id string) string {
	w.Helper()
	for after := int64(0); ; {
		page := readHistory(w, id, after)
		if len(page.Children) > 0 {
			return page.Children[0].Runs[0]
		}
		if page.Next == nil {
			w.Fatalf("run %s has no child", id)
		}
		after = *page.Next
	}
}

// TestS96WaitForRuns: a wait for several runs ends with the last of them, in the order in
// which they were asked for, also for runs that are no children, that ended long ago, or
// that don't exist; asking a child for its result afterwards takes no further wait.
func TestS96WaitForRuns(t *testing.T) {
	inRealWorld(t, func(t *testing.T, w *world) {
		child := pyrula.Define("child", func(r *pyrula.Run, o order) (string, error) {
			return o.ID, r.Sleep(time.Duration(len(o.ID)) * time.Minute)
		})
		stranger := start(w, child, order{ID: "s"})
		nobody := nobodyLike(stranger.ID)
		parent := pyrula.Define("parent", func(r *pyrula.Run, o order) ([]string, error) {
			long, err := child.StartChild(r, order{ID: "long"})
			if err != nil {
				return nil, err
			}
			brief, err := child.StartChild(r, order{ID: "b"})
			if err != nil {
				return nil, err
			}
			if none, err := r.WaitRuns(); none != nil || err != nil {
				t.Errorf("a wait for nothing gives %v, %v", none, err)
			}
			all, err := r.WaitRuns(long.ID, nobody, stranger.ID, brief.ID)
			if err != nil {
				return nil, err
			}
			var said []string
			for _, o := range all {
				said = append(said, o.Status+string(o.Result))
			}
			for _, c := range []*pyrula.Child[string]{brief, long, {ID: nobody}} {
				got, err := c.Result(r)
				said = append(said, sayOutcome(got, err))
			}
			return said, nil
		})
		k := w.work(w.client, pyrula.WorkerConfig{}, child, parent)
		h := start(w, parent, order{})
		pass(3 * time.Minute)
		w.wantStatus("suspended", h.ID)
		want := []string{`completed"long"`, "unknown", `completed"s"`, `completed"b"`, "b", "long", "unknown"}
		if got, err := h.Result(t.Context()); err != nil || !slices.Equal(got, want) {
			t.Errorf("result %q, %v, want %q", got, err, want)
		}
		if got := w.history(h.ID); len(got) != 3 || got[0] != "children child/1" || got[1] != "children child/2" {
			t.Errorf("history %q, want two starts and one wait", got)
		}
		k.end()
	})
}

// TestWaitForBadRuns: ids that can't be waited for fail the run at once, for good.
func TestWaitForBadRuns(t *testing.T) {
	inRealWorld(t, func(t *testing.T, w *world) {
		var many []string
		for range wire.MaxAwaited + 1 {
			many = append(many, start(w, pyrula.Define("other", charge), order{}).ID)
		}
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (int, error) {
			switch o.ID {
			case "no id":
				_, err := r.WaitRuns(many[0], "run_x")
				return 0, err
			case "twice":
				_, err := r.WaitRuns(many[0], many[1], many[0])
				return 0, err
			case "lower case":
				_, err := r.WaitRuns(strings.ToLower(many[0]))
				return 0, err
			}
			_, err := r.WaitRuns(many...)
			return 0, err
		}, pyrula.MaxAttempts(3))
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		for id, word := range map[string]string{
			"no id": "run_x", "twice": many[0], "lower case": strings.ToLower(many[0]), "many": "at most 128",
		} {
			h := start(w, wf, order{ID: id})
			wantFailed(t, h, "error", "invalid argument", word)
			if got := w.status(h.ID).Attempt; got != 1 {
				t.Errorf("%s: %d attempts", id, got)
			}
		}
		k.end()
	})
}

// TestP16P20ChildrenAreStamped: a child is stamped like every submit: with the gates of
// its workflow, which this start makes known if need be, and with its function keys. By
// name, a workflow whose key is a function is refused, and no run is made.
func TestP16P20ChildrenAreStamped(t *testing.T) {
	inRealWorld(t, func(t *testing.T, w *world) {
		named := pyrula.Define("named", charge, pyrula.Limit{Key: "tenant", Max: 1})
		keyed := pyrula.Define("keyed", charge, pyrula.Limit{Key: func(o order) string { return "of " + o.Tenant }, Max: 2})
		var refused error
		parent := pyrula.Define("parent", func(r *pyrula.Run, o order) ([]string, error) {
			a, err := named.StartChild(r, order{Tenant: "acme"})
			if err != nil {
				return nil, err
			}
			b, err := keyed.StartChild(r, order{Tenant: "acme"})
			if err != nil {
				return nil, err
			}
			_, refused = r.RunChild("keyed", order{Tenant: "acme"})
			_, invalid := named.StartChild(r, order{}, pyrula.TriggeredBy("case"))
			if !errors.Is(invalid, pyrula.ErrInvalid) {
				t.Errorf("a child with a trigger of its own: %v", invalid)
			}
			return []string{a.ID, b.ID, fmt.Sprint(refused)}, r.Sleep(time.Minute)
		})
		k := w.work(w.client, pyrula.WorkerConfig{}, parent)
		h := start(w, parent, order{})
		pass(time.Second)
		if !errors.Is(refused, pyrula.ErrConfiguration) {
			t.Errorf("by name: %v, want a configuration error", refused)
		}
		first := refused
		got, err := h.Result(t.Context())
		if err != nil || got[2] != first.Error() {
			t.Errorf("result %q, %v; the first run of the body saw %v", got, err, first)
		}
		for i, want := range []string{"acme", "of acme"} {
			if run := w.status(got[i]); run.Status != "queued" || len(run.Gates) != 1 || run.Gates[0].Key != want {
				t.Errorf("child %d is %s under %+v, want the key %q", i, run.Status, run.Gates, want)
			}
		}
		page, err := w.client.List(t.Context(), pyrula.ListQuery{})
		if err != nil || len(page.Runs) != 3 {
			t.Errorf("%d runs, %v, want a parent and two children", len(page.Runs), err)
		}
		k.end()
	})
}

// TestR15ChildrenOnce: over lost requests and answers, and attempts that fail, one call of
// a body starts one child; each call of a loop starts another; and an idempotency key
// names one child for all.
func TestR15ChildrenOnce(t *testing.T) {
	inRealWorld(t, func(t *testing.T, w *world) {
		child := pyrula.Define("child", func(r *pyrula.Run, o order) (string, error) { return o.ID, nil })
		var ids []string
		parent := pyrula.Define("parent", func(r *pyrula.Run, o order) ([]string, error) {
			var now []string
			for i := range 3 {
				c, err := child.StartChild(r, order{ID: fmt.Sprint(i)})
				if err != nil {
					return nil, err
				}
				now = append(now, c.ID)
			}
			for range 2 {
				c, err := child.StartChild(r, order{}, pyrula.OnceKey("the one"))
				if err != nil {
					return nil, err
				}
				now = append(now, c.ID)
			}
			if ids != nil && !slices.Equal(ids, now) {
				t.Errorf("children %q, and %q in the attempt before", now, ids)
			}
			if ids = now; r.Attempt < 3 {
				return nil, errors.New("again")
			}
			return now, nil
		}, pyrula.MaxAttempts(3), pyrula.RetryBackoff(time.Second))
		w.net.setFault(func(c call) fault {
			if !strings.HasSuffix(c.path, "/children") {
				return fault{}
			}
			return fault{lost: c.nth%3 == 1, cut: c.nth%3 == 2}
		})
		k := w.work(w.client, pyrula.WorkerConfig{}, parent, child)
		for i := range 2 {
			ids = nil
			h := start(w, parent, order{})
			got, err := h.Result(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			unique := slices.Compact(slices.Sorted(slices.Values(got)))
			if len(got) != 5 || got[3] != got[4] || len(unique) != 4 {
				t.Errorf("children %q, want three and the one of the key twice", got)
			}
			page, err := w.client.List(t.Context(), pyrula.ListQuery{Workflow: "child"})
			if want := 4 + 3*i; err != nil || len(page.Runs) != want {
				t.Errorf("%d children in all, %v, want %d", len(page.Runs), err, want)
			}
		}
		k.end()
	})
}

// TestP63CancelReachesAwaitedChildren: the cancel of a parent that waits ends it at once
// and reaches the children it waits for; one that it has only started goes on.
func TestP63CancelReachesAwaitedChildren(t *testing.T) {
	inRealWorld(t, func(t *testing.T, w *world) {
		child := pyrula.Define("child", func(r *pyrula.Run, o order) (string, error) {
			_, err := r.WaitSignal("never", 0)
			return "", err
		})
		var ids []string
		parent := pyrula.Define("parent", func(r *pyrula.Run, o order) (string, error) {
			for range 2 {
				c, err := child.StartChild(r, order{})
				if err != nil {
					return "", err
				}
				ids = append(ids, c.ID)
			}
			return (&pyrula.Child[string]{ID: ids[0]}).Result(r)
		})
		k := w.work(w.client, pyrula.WorkerConfig{}, parent, child)
		h := start(w, parent, order{})
		pass(time.Minute)
		if err := h.Cancel(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		w.wantStatus("cancelled", h.ID, ids[0])
		w.wantStatus("suspended", ids[1])
		k.end()
	})
}

// TestP54FiftySuspendedRuns: a worker of one place takes a run while fifty others are
// suspended, and wakes each of them.
func TestP54FiftySuspendedRuns(t *testing.T) {
	inRealWorld(t, func(t *testing.T, w *world) {
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			if o.ID == "last" {
				return o.ID, nil
			}
			return pyrula.WaitSignal[string](r, "go", 0)
		})
		k := w.work(w.client, pyrula.WorkerConfig{Concurrency: 1}, wf)
		var all []*pyrula.Handle[string]
		var ids []string
		for range 50 {
			h := start(w, wf, order{})
			all, ids = append(all, h), append(ids, h.ID)
		}
		pass(time.Minute)
		w.wantStatus("suspended", ids...)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got, err := start(w, wf, order{ID: "last"}).Result(ctx); err != nil || got != "last" {
			t.Errorf("result %q, %v: the place isn't free", got, err)
		}
		for i, id := range ids {
			w.mustSignal(id, "go", fmt.Sprint(i))
		}
		for i, h := range all {
			if got, err := h.Result(t.Context()); err != nil || got != fmt.Sprint(i) {
				t.Errorf("run %d: result %q, %v", i, got, err)
			}
		}
		k.end()
	})
}
