package actors_test

import (
	"testing"
	"time"
)

func TestOneRunFromSubmitToEnd(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", `{"version":"1","limit":{"key":"tenant","max":1},"rate":{"key":"tenant","per_second":5,"burst":10}}`)
		a := w.submit("sync", `{"tenant":"acme"}`)
		b := w.submit("sync", `{"tenant":"acme"}`)
		if got := w.status(a); got.Status != "queued" || got.Wait == nil || got.Wait.Reason != "no_worker" {
			t.Fatalf("a waits: %+v %+v", got, got.Wait)
		}
		g := w.claim("sync", "1", 10)
		if len(g) != 1 || g[0].RunID != a.String() {
			t.Fatalf("granted %+v", g)
		}
		if got := w.status(b); got.Wait == nil || got.Wait.Reason != "limit" || *got.Wait.Position != 1 {
			t.Fatalf("b waits: %+v", got.Wait)
		}
		if s := w.complete(g[0]); s != "completed" {
			t.Fatal(s)
		}
		g = w.claimFor("sync", "1", 1, time.Second)
		if len(g) != 1 || g[0].RunID != b.String() {
			t.Fatalf("granted %+v", g)
		}
		w.complete(g[0])
		if got := w.status(b); got.Status != "completed" || string(got.Result) != `"done"` {
			t.Fatalf("%+v", got)
		}
	})
}
