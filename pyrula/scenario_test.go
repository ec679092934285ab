package pyrula_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

// tenLease is the lease of the scenarios: the owner ends it after 13 s.
const tenLease = 10 * time.Second

// TestS01DeadBetweenGrantAndStart: the answer to a claim is lost with its worker. The
// run is queued again when the owner ends the lease, ahead of younger ones, and at no
// time do two of the key execute.
func TestS01DeadBetweenGrantAndStart(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		order1 := make(chan string, 10)
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (receipt, error) {
			order1 <- o.ID
			return receipt{}, nil
		}, pyrula.Limit{Key: "tenant", Max: 1}, pyrula.Lease(tenLease))
		w.net.setFault(func(c call) fault {
			return fault{cut: c.path == wire.PathClaims && c.nth == 1, lost: c.path == wire.PathClaims && c.nth > 1}
		})
		k1 := w.work(w.client, pyrula.WorkerConfig{Name: "w1"}, wf)
		start(w, wf, order{Tenant: "acme", ID: "b"})
		synctest.Wait()
		start(w, wf, order{Tenant: "acme", ID: "c"})
		_, c2 := w.another()
		k2 := w.work(c2, pyrula.WorkerConfig{Name: "w2"}, wf)
		pass(12 * time.Second)
		if len(order1) != 0 {
			t.Errorf("%s started before the lease of the dead worker was over", <-order1)
		}
		pass(2 * time.Second)
		if b, c := <-order1, <-order1; b != "b" || c != "c" {
			t.Errorf("started %s, then %s; want the older one first", b, c)
		}
		if got := w.node.run(0).log; !slices.Equal(got, []string{"granted to w1", "expired", "granted to w2", "completed"}) {
			t.Errorf("life %q", got)
		}
		if got := w.node.most("charge", "acme"); got != 1 {
			t.Errorf("%d slots were taken at once", got)
		}
		k1.end()
		k2.end()
	})
}

// TestS05WorkerThoughtDead: a worker that can't reach the node loses its run to
// another one. Its body is stopped before the owner gives the run away; a body that
// goes on regardless reports nothing when it ends, also to a node that can be reached
// again; and a report under the old fence is refused.
func TestS05WorkerThoughtDead(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		type span struct{ from, stopped, to time.Duration }
		spans := make(chan span, 10)
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (receipt, error) {
			s := span{from: time.Since(w.net.begin)}
			if r.Attempt == 1 && o.ID == "a" {
				<-r.Done()
				s.stopped = time.Since(w.net.begin)
				<-time.After(4 * time.Second) // ignores it
			} else {
				<-time.After(5 * time.Second)
			}
			s.to = time.Since(w.net.begin)
			spans <- s
			return receipt{Charge: o.ID}, nil
		}, pyrula.Limit{Key: "tenant", Max: 1}, pyrula.Lease(tenLease))
		k1 := w.work(w.client, pyrula.WorkerConfig{Name: "w1", Concurrency: 1}, wf)
		a := start(w, wf, order{Tenant: "acme", ID: "a"})
		synctest.Wait() // w1 has it
		start(w, wf, order{Tenant: "acme", ID: "b"})
		start(w, wf, order{Tenant: "acme", ID: "c"})
		w.net.setFault(func(call) fault { return fault{lost: true} })
		_, c2 := w.another()
		k2 := w.work(c2, pyrula.WorkerConfig{Name: "w2", Concurrency: 1}, wf)
		pass(13500 * time.Millisecond)
		w.net.setFault(nil) // w1 is back; its body ends at 14 s
		old := w.node.run(0).fence - 1
		pass(time.Minute)

		first, second := <-spans, <-spans
		if first.stopped != tenLease || first.to != 14*time.Second || second.from != 13*time.Second {
			t.Errorf("bodies %+v and %+v, want the first stopped at 10 s and the second started at 13 s", first, second)
		}
		for i, want := range [][]string{
			{"granted to w1", "expired", "granted to w2", "completed"}, {"granted to w2", "completed"}, {"granted to w2", "completed"},
		} {
			got := w.node.run(i).log
			if i > 0 { // either worker may have it
				got[0], want[0] = got[0][:10], want[0][:10]
			}
			if !slices.Equal(got, want) {
				t.Errorf("life of run %d: %q, want %q", i, got, want)
			}
		}
		if got := w.node.most("charge", "acme"); got != 1 {
			t.Errorf("%d slots were taken at once", got)
		}
		_, errs := w.node.Complete(t.Context(), []wire.Completion{{RunID: a.ID, Fence: old}})
		if errs[0] == nil {
			t.Error("a report under the old fence was taken")
		}
		k1.end()
		k2.end()
	})
}

// TestS35BodyIgnoresTheStop: after a terminate the heartbeats of a body that ignores
// it renew nothing, its context says why, the slot is free when the lease as it stood
// is over, and its late result is not kept.
func TestS35BodyIgnoresTheStop(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		causes := make(chan error, 2)
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (receipt, error) {
			if o.ID == "a" {
				<-time.After(time.Minute)
				causes <- context.Cause(r)
			}
			return receipt{Charge: "late"}, nil
		}, pyrula.Limit{Key: "tenant", Max: 1}, pyrula.Lease(tenLease))
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		a := start(w, wf, order{Tenant: "acme", ID: "a"})
		start(w, wf, order{Tenant: "acme", ID: "b"})
		synctest.Wait()
		if err := a.Terminate(t.Context(), "enough"); err != nil {
			t.Fatal(err)
		}
		pass(12 * time.Second)
		if got := w.node.run(1).status.String(); got != "queued" {
			t.Errorf("the second run is %s while the first body may still be at work", got)
		}
		pass(1200 * time.Millisecond)
		if got := w.node.run(1).status.String(); got != "completed" {
			t.Errorf("the second run is %s after the lease of the terminated one", got)
		}
		if err := <-causes; !errors.Is(err, pyrula.ErrCancelRequested) {
			t.Errorf("cause %v, want the request to stop", err)
		}
		synctest.Wait()
		if _, err := a.Result(t.Context()); !errors.Is(err, pyrula.ErrRunTerminated) {
			t.Errorf("result %v, want a terminated run", err)
		}
		if got := w.node.run(0).log; !slices.Equal(got[1:], []string{"terminated", "hold freed"}) {
			t.Errorf("life %q", got)
		}
		k.end()
	})
}

// TestTerminateIsAcknowledged: a body that stops when it is told frees the slot with
// its last word, long before the lease is over.
func TestTerminateIsAcknowledged(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (receipt, error) {
			if o.ID == "a" {
				<-r.Done()
				return receipt{}, r.Err()
			}
			return receipt{}, nil
		}, pyrula.Limit{Key: "tenant", Max: 1}, pyrula.Lease(tenLease))
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		a := start(w, wf, order{Tenant: "acme", ID: "a"})
		start(w, wf, order{Tenant: "acme", ID: "b"})
		synctest.Wait()
		if err := a.Terminate(t.Context(), "enough"); err != nil {
			t.Fatal(err)
		}
		pass(4 * time.Second) // a heartbeat is due within a third of the lease
		if got := w.node.run(1).status.String(); got != "completed" {
			t.Errorf("the second run is %s, want the slot that the terminated body gave back", got)
		}
		k.end()
	})
}
