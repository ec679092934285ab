package main

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/tidwall/gjson"
)

// oneSlot is a Limit of 1 under a lease that no test outlives.
const oneSlot = `{"limit":{"key":"k","max":1},"lease_seconds":60}`

// cleanly ends the node by SIGTERM, which takes snapshots, and starts another one.
func (w *witness) cleanly(dir string) {
	w.t.Helper()
	w.node.signal(syscall.SIGTERM)
	if code := w.node.exit(); code != exitOK {
		w.t.Fatalf("SIGTERM ends it with %d:\n%s", code, w.node.said())
	}
	w.serve(dir)
}

// TestS09EveryHolderOutlivesAKill fails when a holder of before a kill isn't a holder
// afterwards, or a waiter starts beside it: from the log, from snapshots and the log,
// and from snapshots alone.
func TestS09EveryHolderOutlivesAKill(t *testing.T) {
	t.Parallel()
	w, dir := newWitness(t), t.TempDir()
	w.serve(dir)
	w.declare("sync", oneSlot)
	held := map[string]gjson.Result{}
	for i, key := range []string{"a", "b", "c"} {
		w.submitMany(2, "sync", `{"k":"`+key+`"}`)
		held[key] = w.one("sync")
		if i == 1 {
			w.cleanly(dir)
		}
	}
	for _, restart := range []func(string){w.again, w.cleanly, w.again} {
		restart(dir)
		for key, grant := range held {
			at := w.key("sync", key)
			holder := at.Get("holders.0")
			if at.Get("used").Int() != 1 || at.Get("queued").Int() != 1 ||
				holder.Get("run_id").String() != grant.Get("run_id").String() || holder.Get("fence").Uint() != grant.Get("fence").Uint() {
				t.Errorf("run %s held key %s under fence %d, and the key is %s", grant.Get("run_id"), key, grant.Get("fence").Uint(), at)
			}
		}
		if got := w.claim(9, 0, "sync"); len(got) != 0 {
			t.Fatalf("granted %s beside its holder", got)
		}
	}
	for _, grant := range held {
		w.complete(grant)
	}
	if got := w.claim(9, 30_000, "sync"); len(got) == 0 {
		t.Error("no waiter starts behind its holder")
	}
	w.remembers()
}

// TestS23P51HolderLivesThroughAKill fails when a worker that outlives the node can't go
// on under its fence, or when the run is given to anybody else.
func TestS23P51HolderLivesThroughAKill(t *testing.T) {
	w, dir := newWitness(t), t.TempDir()
	w.serve(dir)
	w.declare("sync", oneSlot)
	a, b := w.submit("sync", `{"k":"a"}`), w.submit("sync", `{"k":"a"}`)
	grant := w.one("sync")
	for range 3 {
		w.again(dir)
		if !w.beat(grant) {
			t.Fatal("the holder lost its lease with the node")
		}
		if got := w.claim(2, 0, "sync"); len(got) != 0 {
			t.Fatalf("granted %s beside the holder", got)
		}
	}
	w.complete(grant)
	if run := w.run(a); run.Get("attempt").Int() != 1 || w.count(a, "run:claimed") != 1 {
		t.Errorf("the run was begun more than once: %s", run)
	}
	next := w.one("sync")
	if next.Get("run_id").String() != b {
		t.Errorf("granted %s behind %s, want %s", next, a, b)
	}
	w.again(dir)
	// What a former holder says is refused, and what the last one says is answered again.
	if status, _ := w.tryComplete(next, `"done"`); status != 200 {
		t.Errorf("the second holder's completion: %d", status)
	}
	w.again(dir)
	for _, old := range []gjson.Result{grant, next} {
		if status, answer := w.tryComplete(old, `"done"`); status != 200 {
			t.Errorf("a repeated completion: %d %s", status, answer)
		}
	}
	w.remembers()
}

// TestS24BacklogOutlivesAKill fails when a large backlog loses a key or a run with the
// process, or when more of a key execute than its Limit says.
func TestS24BacklogOutlivesAKill(t *testing.T) {
	const limit, all, others = 100, 500, 10
	w, dir := newWitness(t), t.TempDir()
	w.serve(dir)
	w.declare("sync", fmt.Sprintf(`{"limit":{"key":"k","max":%d},"lease_seconds":60}`, limit))
	w.submitMany(all, "sync", `{"k":"k"}`)
	held := w.claim(limit, 30_000, "sync")
	w.submitMany(others, "sync", `{"k":"j"}`)
	w.again(dir)
	got := w.claim(256, 30_000, "sync")
	if len(held) != limit || len(got) != others || got[0].Get("key").String() != "j" {
		t.Fatalf("%d held %d of their slots, and then %d start, the first of key %s", len(held), limit, len(got), got[0].Get("key"))
	}
	ended, killed := 0, false
	for held = append(held, got...); len(held) > 0; held = w.claim(256, 0, "sync") {
		if used := w.key("sync", "k").Get("used").Int(); used > limit {
			t.Fatalf("%d of %d slots are used", used, limit)
		}
		var list []string
		for _, g := range held {
			list = append(list, fmt.Sprintf(`{"run_id":%q,"fence":%d}`, g.Get("run_id").String(), g.Get("fence").Uint()))
		}
		w.must(200, http.MethodPost, "/v1/runs:complete", `{"runs":[`+strings.Join(list, ",")+`]}`)
		ended += len(held)
		if ended > all/2 && !killed {
			w.again(dir)
			killed = true
		}
	}
	if ended != all+others {
		t.Errorf("%d of %d runs have ended", ended, all+others)
	}
	if empty := w.key("sync", ""); empty.Get("used").Int() != 0 || empty.Get("queued").Int() != 0 {
		t.Errorf("a key that nobody named: %s", empty)
	}
	for _, id := range w.runs {
		w.is(id, "completed")
	}
}

// TestS29CancelAfterAKill fails when a cancelled run whose worker and node were killed
// is started again, or keeps its slot.
func TestS29CancelAfterAKill(t *testing.T) {
	t.Parallel()
	w, dir := newWitness(t), t.TempDir()
	w.serve(dir)
	w.declare("sync", `{"limit":{"key":"k","max":1},"lease_seconds":2}`)
	a, b := w.submit("sync", `{"k":"a"}`), w.submit("sync", `{"k":"a"}`)
	w.one("sync") // and nothing more is heard of this worker
	w.again(dir)
	if answer := w.must(202, http.MethodPost, "/v1/runs/"+a+"/cancel", ""); answer.Get("status").String() != "executing" {
		t.Errorf("the cancel of an executing run: %s", answer)
	}
	w.again(dir)
	if run := w.run(a); run.Get("status").String() != "executing" || !run.Get("cancel_requested").Bool() {
		t.Errorf("the cancel was acknowledged, and the run is %s", run)
	}
	if got := w.one("sync"); got.Get("run_id").String() != b {
		t.Errorf("granted %s, want %s", got, b)
	}
	w.is(a, "cancelled")
	if n := w.count(a, "run:claimed"); n != 1 {
		t.Errorf("the cancelled run was claimed %d times", n)
	}
}

// TestS105S107OnePlaceOverKills fails when a waiter has two places or none after kills
// and snapshots in between.
func TestS105S107OnePlaceOverKills(t *testing.T) {
	t.Parallel()
	w, dir := newWitness(t), t.TempDir()
	w.serve(dir)
	// The Rate's key lives elsewhere, so the messages are between shards.
	w.declare("both", `{"limit":{"key":"k","max":1},"rate":{"key":"r","per_second":1000},"lease_seconds":30}`)
	ids := w.submitMany(3, "both", `{"k":"a","r":"b"}`)
	grant := w.one("both")
	for i, id := range ids {
		for _, restart := range []func(string){w.again, w.cleanly} {
			restart(dir)
			if at := w.key("both", "a"); at.Get("used").Int() != 1 || at.Get("queued").Int() != int64(len(ids)-i-1) {
				t.Fatalf("%d runs wait behind run %d of %d: %s", at.Get("queued").Int(), i, len(ids), at)
			}
		}
		if grant.Get("run_id").String() != id || w.count(id, "run:claimed") != 1 {
			t.Fatalf("start %d is of %s, want %s, once", i, grant, id)
		}
		w.complete(grant)
		if i < len(ids)-1 {
			grant = w.one("both")
		}
	}
	if got := w.claim(3, 0, "both"); len(got) != 0 {
		t.Errorf("%s starts twice", got)
	}
	w.remembers()
}
