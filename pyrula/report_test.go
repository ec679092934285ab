package pyrula_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

// completions are the bodies of reports that left a worker.
func completions(t *testing.T, w *world) []wire.CompleteBatch {
	t.Helper()
	var list []wire.CompleteBatch
	for _, c := range w.net.to(wire.PathCompletion) {
		var batch wire.CompleteBatch
		if err := json.Unmarshal(c.body, &batch); err != nil {
			t.Fatal(err)
		}
		list = append(list, batch)
	}
	return list
}

// TestR15ReportIsRepeated: a completion, and a failure, whose answer is lost is sent
// again under the same fence until it is answered, and the run ends once.
func TestR15ReportIsRepeated(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (receipt, error) {
			if o.ID == "fails" {
				return receipt{}, errors.New("no")
			}
			return receipt{Charge: "ch"}, nil
		})
		w.net.setFault(func(c call) fault {
			ends := c.path == wire.PathCompletion || strings.HasSuffix(c.path, "/fail")
			switch {
			case ends && c.nth == 1:
				return fault{cut: true}
			case ends && c.nth < 4:
				return fault{lost: true}
			case ends && c.nth == 4:
				return fault{problem: &wire.Problem{Status: 503, Code: wire.CodeOutcomeUnknown, RetryAfterMS: 1000}}
			}
			return fault{}
		})
		k := w.work(w.client, pyrula.WorkerConfig{Concurrency: 1}, wf)
		for i, id := range []string{"works", "fails"} {
			start(w, wf, order{ID: id})
			pass(5 * time.Second) // before the first heartbeat, whose refusal would also end the repeats
			verb, status := "complete repeated", "completed"
			if id == "fails" {
				verb, status = "fail repeated", "failed"
			}
			if got := w.node.run(i); got.status.String() != status || got.attempt != 1 || got.log[len(got.log)-1] != verb {
				t.Errorf("%s: life %q, want one %s and its repeat", id, got.log, status)
			}
		}
		sent := w.net.to(wire.PathCompletion)
		if len(sent) != 5 || sent[4].at-sent[3].at < time.Second {
			t.Errorf("%d reports of a completion, want five, the last when the node wished it", len(sent))
		}
		k.end()
	})
}

// TestHeartbeatsKeepAnUnreportedRun: while a result can't be reported, heartbeats keep
// the lease, so the run is not given to another worker.
func TestHeartbeatsKeepAnUnreportedRun(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		wf := pyrula.Define("charge", charge, pyrula.Lease(2*time.Second))
		w.net.setFault(func(c call) fault {
			return fault{lost: c.path == wire.PathCompletion && c.at < 30*time.Second}
		})
		k := w.work(w.client, pyrula.WorkerConfig{Concurrency: 1}, wf)
		start(w, wf, order{})
		pass(time.Minute)
		if got := w.node.run(0); got.status.String() != "completed" || got.attempt != 1 {
			t.Errorf("the run is %s after %q, want one life", got.status, got.log)
		}
		k.end()
	})
}

// TestReportsEndWithTheLease: reports are repeated while the lease lasts, and stop
// with it; the place is free again.
func TestReportsEndWithTheLease(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (receipt, error) { return receipt{}, nil }, pyrula.Lease(shortLease))
		k := w.work(w.client, pyrula.WorkerConfig{Concurrency: 1}, wf)
		w.net.setFault(func(c call) fault { return fault{lost: c.path != "/v1/workflows/charge/runs"} })
		start(w, wf, order{})
		pass(time.Minute)
		sent := w.net.to(wire.PathCompletion)
		if last := sent[len(sent)-1].at; len(sent) < 4 || last > shortLease {
			t.Errorf("%d reports, the last at %v; want repeats until the lease was over at %v", len(sent), last, shortLease)
		}
		w.net.setFault(nil)
		pass(time.Minute)
		if got := w.node.run(0); got.status.String() != "completed" || got.attempt != 2 {
			t.Errorf("the run is %s after %q, want a second life", got.status, got.log)
		}
		k.end()
	})
}

// TestReportsAreBatched: completions that come while requests are under way travel
// together, at most 256 and half a MiB of results in one.
func TestReportsAreBatched(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			if o.ID == "large" {
				return strings.Repeat("x", 300<<10), nil
			}
			return "", nil
		})
		w.net.setFault(func(c call) fault {
			if c.path == wire.PathCompletion {
				return fault{delay: time.Second}
			}
			return fault{}
		})
		k := w.work(w.client, pyrula.WorkerConfig{Concurrency: 1000}, wf)
		submitMany := func(n int, id string) {
			var subs []pyrula.Submission
			for range n {
				sub, err := wf.Submission(order{ID: id})
				if err != nil {
					t.Fatal(err)
				}
				subs = append(subs, sub)
			}
			if _, err := w.client.SubmitBatch(t.Context(), subs); err != nil {
				t.Fatal(err)
			}
		}
		submitMany(250, "")
		synctest.Wait()
		submitMany(5, "large")
		pass(time.Minute)
		reported, most := 0, 0
		for _, batch := range completions(t, w) {
			size := 0
			for _, one := range batch.Runs {
				size += len(one.Result)
			}
			if len(batch.Runs) > 256 || (size > 512<<10 && len(batch.Runs) > 1) {
				t.Errorf("a request with %d results of %d bytes", len(batch.Runs), size)
			}
			reported += len(batch.Runs)
			most = max(most, len(batch.Runs))
		}
		if reported != 255 || most < 50 {
			t.Errorf("%d results were reported, at most %d together", reported, most)
		}
		k.end()
	})
}

// TestReportNotNow: an entry of a batch that the node can't take now is sent again,
// and the others aren't.
func TestReportNotNow(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		wf := pyrula.Define("charge", charge)
		w.node.refuse = []refusal{{1, "complete", flow.ErrOutcomeUnknown}}
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		for range 4 {
			start(w, wf, order{})
		}
		pass(5 * time.Second)
		reported := 0
		for _, batch := range completions(t, w) {
			reported += len(batch.Runs)
		}
		if reported != 5 {
			t.Errorf("%d reports of four runs, want one to be repeated", reported)
		}
		for i := range 4 {
			if got := w.node.run(i); got.status.String() != "completed" || got.attempt != 1 {
				t.Errorf("run %d is %s after %q", i, got.status, got.log)
			}
		}
		k.end()
	})
}

// TestReportRefused: a bad result refuses its whole batch, so the others are sent
// alone, and its own run fails: without an end it would run again and again.
func TestReportRefused(t *testing.T) {
	// Which results travel together is up to the scheduler.
	for range 50 {
		if reportRefused(t) >= 3 {
			return
		}
	}
	t.Error("never did three results travel together, so the test shows nothing")
}

// reportRefused has one of eight results refused and returns the most that travelled
// together.
func reportRefused(t *testing.T) (together int) {
	t.Helper()
	inWorld(t, func(t *testing.T, w *world) {
		gates := []chan struct{}{make(chan struct{}), make(chan struct{})}
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			<-gates[o.ID[0]/'4'] // the first four, then the others
			return o.ID, nil
		})
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		for i := range 8 {
			start(w, wf, order{ID: fmt.Sprint(i)})
		}
		synctest.Wait()
		bad := w.node.run(7).id
		w.net.setFault(func(c call) fault {
			switch {
			case c.path != wire.PathCompletion:
			case strings.Contains(string(c.body), bad):
				return fault{delay: time.Second, problem: &wire.Problem{Status: 422, Code: wire.CodeInvalid, Detail: "a bad result"}}
			case c.nth <= 4:
				return fault{delay: time.Second}
			}
			return fault{}
		})
		close(gates[0])
		synctest.Wait() // four requests are under way: the other results travel together
		close(gates[1])
		pass(time.Minute)
		for _, batch := range completions(t, w) {
			together = max(together, len(batch.Runs))
		}
		for i := range 8 {
			want := "completed"
			if i == 7 {
				want = "failed"
			}
			if got := w.node.run(i); got.status.String() != want || got.attempt != 1 {
				t.Errorf("run %d is %s after %q, want %s", i, got.status, got.log, want)
			}
		}
		if f := w.node.run(7).failure; f == nil || f.Type != "result_error" || !strings.Contains(f.Message, "a bad result") {
			t.Errorf("failure %+v", f)
		}
		k.end()
	})
	return together
}

// TestP51StaleReport: a report that comes too late is refused, said in the log, and
// not repeated.
func TestP51StaleReport(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		gate := make(chan struct{})
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			if r.Attempt == 1 {
				<-gate
			}
			return "", nil
		})
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		h := start(w, wf, order{})
		synctest.Wait()
		w.node.lapse(h.ID) // the owner's clock is far ahead, say
		synctest.Wait()
		close(gate)
		pass(time.Second)
		if got := w.node.run(0); got.attempt != 2 || got.status.String() != "completed" || got.log[len(got.log)-1] == "complete repeated" {
			t.Errorf("life %q", got.log)
		}
		if got := len(w.net.to(wire.PathCompletion)); got != 2 {
			t.Errorf("%d reports, want the second grant's and one that is refused", got)
		}
		if !strings.Contains(w.logs.String(), "isn't this worker's any more") && !strings.Contains(w.logs.String(), "didn't take") {
			t.Errorf("log %s", w.logs)
		}
		k.end()
	})
}
