package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// TestKill9 kills a node again and again while clients submit and cancel, and
// workers claim and complete. It fails when something that was acknowledged is gone
// or otherwise after a restart, when a run waits for no reason, when more bodies of
// a tenant execute at once than its Limit says, when a Rate lets more through, or
// when a run never ends.
func TestKill9(t *testing.T) {
	const perKill = 50 // runs for each kill
	ctx, cancel := context.WithTimeout(t.Context(), patience+kills*5*time.Second)
	defer cancel()
	c := newCrew(ctx.Done(), perKill*(kills+1))
	dir := t.TempDir()
	n := c.serve(t, dir)
	for name, text := range declarations {
		if status, answer := c.send(http.MethodPut, "/v1/workflows/"+name, text); status != 200 {
			t.Fatalf("declare %s: %d %s", name, status, answer)
		}
	}
	c.start()
	rng := rand.New(rand.NewPCG(kills, perKill))
	l := c.ledger
	for k := range kills {
		// Each run is acknowledged twice, so there is work under way at every kill.
		target := (2*perKill)*(k+1) - rng.IntN(perKill)
		if !l.until(ctx.Done(), func() bool { return l.acks >= target || len(l.faults) > 0 }) {
			t.Fatalf("kill %d: the work doesn't go on\n%s", k+1, c.stuck(t))
		}
		if k%3 == 2 { // a clean end: the next start is from snapshots
			n.signal(syscall.SIGTERM)
			if code := n.exit(); code != exitOK {
				t.Fatalf("SIGTERM ends it with %d:\n%s", code, n.said())
			}
		}
		n.kill()
		if k%2 == 0 { // and once more while it starts
			n = spawn(t, "serve", "--data", dir, "--addr", "127.0.0.1:0")
			n.says("pyrula-node starts")
			n.kill()
		}
		n = c.serve(t, dir)
		c.remembers(t)
		if t.Failed() {
			return
		}
	}
	c.drained(t)
	cancel()
	c.wg.Wait()
	for _, fault := range l.faults {
		t.Error(fault)
	}
	t.Logf("%d runs, %d acknowledgements, %d completed and %d cancelled by an acknowledged request, at most %d bodies of a tenant at once",
		len(l.ids), l.acks, len(l.completed), len(l.cancelled), l.most)
	if l.most < slots {
		t.Errorf("at most %d bodies of a tenant executed at once: the Limit of %d was never reached, so nothing is shown", l.most, slots)
	}
}

// serve starts a node on the directory and tells the crew where it is.
func (c *crew) serve(t *testing.T, dir string) *child {
	t.Helper()
	n := spawn(t, "serve", "--data", dir, "--addr", "127.0.0.1:0")
	c.base.Store(new(n.url()))
	return n
}

// all reads every run of the node, by id.
func (c *crew) all(t *testing.T) map[string]gjson.Result {
	t.Helper()
	out := map[string]gjson.Result{}
	for cursor := ""; ; {
		status, text := get(t, *c.base.Load()+"/v1/runs?limit=500&cursor="+url.QueryEscape(cursor))
		if status != 200 {
			t.Fatalf("list: %d %s", status, text)
		}
		page := gjson.Parse(text)
		for _, run := range page.Get("runs").Array() {
			out[run.Get("run_id").String()] = run
		}
		if cursor = page.Get("next_cursor").String(); cursor == "" {
			return out
		}
	}
}

// remembers checks the node against what was acknowledged before.
func (c *crew) remembers(t *testing.T) {
	t.Helper()
	l := c.ledger
	l.mu.Lock()
	known, completed, cancelled := len(l.ids), maps.Clone(l.completed), maps.Clone(l.cancelled)
	ids := maps.Clone(l.ids)
	l.mu.Unlock()
	have := c.all(t)
	for key, id := range ids {
		if !have[id].Exists() {
			t.Errorf("run %s of %s was acknowledged and is gone", id, key)
		}
	}
	for id, fence := range completed {
		if run := have[id]; run.Get("status").String() != "completed" || run.Get("result.fence").Uint() != fence {
			t.Errorf("the completion of run %s with fence %d was acknowledged, and it is %s with %s",
				id, fence, run.Get("status"), run.Get("result"))
		}
	}
	for id := range cancelled {
		// One that executes ends as cancelled when its worker has stopped.
		if run := have[id]; run.Get("status").String() != "cancelled" && !run.Get("cancel_requested").Bool() {
			t.Errorf("the cancel of run %s was acknowledged, and it is %s", id, run.Get("status"))
		}
	}
	for id, run := range have {
		waits := slices.Contains([]string{"queued", "suspended"}, run.Get("status").String())
		if waits && run.Get("wait.reason").String() == "" {
			t.Errorf("run %s waits for no reason: %s", id, run)
		}
	}
	// A repeated submit is answered with the run of the first.
	for n := range min(known, crewSize) {
		if id, acked := ids[fmt.Sprintf("key-%d", n)]; acked {
			if again, ok := c.submitOne(n); ok && again != id {
				t.Errorf("submit %d made run %s before the kill and %s after it", n, id, again)
			}
		}
	}
	// Some endings are never acknowledged, as of a cancelled run whose worker died.
	l.note(func() {
		for id, run := range have {
			if isOver(run) {
				l.ended[id] = true
			}
		}
	})
}

func isOver(run gjson.Result) bool {
	return slices.Contains([]string{"completed", "cancelled"}, run.Get("status").String())
}

// drained waits for the end of every run, and then looks at all that is left.
func (c *crew) drained(t *testing.T) {
	t.Helper()
	l := c.ledger
	again := time.NewTicker(10 * retryPause)
	defer again.Stop()
	for {
		have := c.all(t)
		over := 0
		for _, run := range have {
			if isOver(run) {
				over++
			}
		}
		if over >= c.total {
			break
		}
		select {
		case <-again.C:
		case <-c.over:
			t.Fatalf("%d of %d runs have ended\n%s", over, c.total, c.stuck(t))
		}
	}
	c.remembers(t)
	have := c.all(t)
	if len(have) != c.total || len(l.ids) != c.total {
		t.Errorf("%d runs are there, %d were acknowledged, %d were submitted", len(have), len(l.ids), c.total)
	}
	for id, run := range have {
		if run.Get("status").String() == "completed" && l.bodies[id] == 0 {
			t.Errorf("run %s is completed and never had a body", id)
		}
	}
	for i := range tenants {
		for name := range declarations {
			_, text := get(t, fmt.Sprintf("%s/v1/keys/%s/t%d", *c.base.Load(), name, i))
			if key := gjson.Parse(text); key.Get("used").Int() != 0 || key.Get("queued").Int() != 0 {
				t.Errorf("key t%d of %s isn't free: %s", i, name, key)
			}
		}
		rateHolds(t, have, fmt.Sprintf("t%d", i))
	}
}

// rateHolds checks the Rate of a tenant of workflow near over all lives of the node:
// in any interval no more than burst + rate × interval start (P4).
func rateHolds(t *testing.T, have map[string]gjson.Result, tenant string) {
	t.Helper()
	const perSecond, burst = 30, 8
	var starts []int64 // milliseconds, cut off
	for _, run := range have {
		if run.Get("workflow").String() == "near" && run.Get("gates.0.key").String() == tenant && run.Get("started_at").Int() > 0 {
			starts = append(starts, run.Get("started_at").Int())
		}
	}
	slices.Sort(starts)
	for i := range starts {
		for j := i; j < len(starts); j++ {
			span := starts[j] - starts[i] + 1
			if n := int64(j - i + 1); n*1000 > burst*1000+perSecond*span {
				t.Errorf("%d starts of tenant %s within %d ms", n, tenant, span)
				return
			}
		}
	}
}

// stuck tells what the runs that haven't ended wait for.
func (c *crew) stuck(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	c.ledger.mu.Lock()
	fmt.Fprintf(&text, "faults: %q\nacks: %d, submitted: %d\n", c.ledger.faults, c.ledger.acks, len(c.ledger.ids))
	c.ledger.mu.Unlock()
	for id, run := range c.all(t) {
		if !isOver(run) {
			_, why := get(t, *c.base.Load()+"/v1/runs/"+id+"/why")
			fmt.Fprintf(&text, "%s %s\n", run.Get("workflow"), why)
		}
	}
	return text.String()
}
