package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// sampled is how many runs are looked at more closely after each kill.
const sampled = 12

// known is what the ledger had before the node was asked.
type known struct {
	ids      map[string]string
	submits  map[string]submit
	declared map[string]string
	grants   map[string][]uint64
	endings  map[string][]ending
	stopped  map[string]string
}

func (l *ledger) known() (k known) {
	l.look(func() {
		k = known{
			maps.Clone(l.ids), maps.Clone(l.submits), maps.Clone(l.declared), maps.Clone(l.grants),
			maps.Clone(l.endings), maps.Clone(l.stopped),
		}
	})
	return k
}

// ask reads from the node, which must answer 200.
func (c *crew) ask(t *testing.T, path string) gjson.Result {
	t.Helper()
	status, text := get(t, *c.base.Load()+path)
	if status != 200 {
		t.Fatalf("GET %s: %d %s", path, status, text)
	}
	return gjson.Parse(strings.TrimSpace(text))
}

// all reads every run of the node, by id.
func (c *crew) all(t *testing.T) map[string]gjson.Result {
	t.Helper()
	out := map[string]gjson.Result{}
	for cursor := ""; ; {
		page := c.ask(t, "/v1/runs?limit=500&cursor="+url.QueryEscape(cursor))
		for _, run := range page.Get("runs").Array() {
			id := run.Get("run_id").String()
			if out[id].Exists() {
				t.Errorf("run %s is listed twice", id)
			}
			out[id] = run
		}
		if cursor = page.Get("next_cursor").String(); cursor == "" {
			return out
		}
	}
}

// remembers checks the node against all that was acknowledged before, and some runs
// closely, while the crew goes on.
func (c *crew) remembers(t *testing.T, rng *rand.Rand) {
	t.Helper()
	k := c.ledger.known()
	have := c.all(t)
	c.ledger.compare(k, have)
	listed := map[string]string{}
	for _, w := range c.ask(t, "/v1/workflows").Get("workflows").Array() {
		for _, v := range w.Get("versions").Array() {
			listed[v.Get("workflow").String()] = v.Get("gates_hash").String()
		}
	}
	for name, gates := range k.declared {
		if listed[name] != gates {
			c.ledger.faultf("workflow %s was declared with gates %s and has %q", name, gates, listed[name])
		}
	}
	tags := slices.Sorted(maps.Keys(k.ids))
	for range min(sampled, len(tags)) {
		tag := tags[rng.IntN(len(tags))]
		c.closely(t, k, k.ids[tag])
		// A repeated submit is answered with the run of the first.
		if s := k.submits[tag]; s.repeatable() {
			c.submitOne(s)
		}
	}
	c.ledger.note(func() {
		for id, run := range have {
			if isFinal(run.Get("status").String()) {
				c.ledger.ended[id] = true
			}
		}
	})
}

// compare holds the runs of the node against what was acknowledged before they were
// read.
func (l *ledger) compare(k known, have map[string]gjson.Result) {
	l.note(func() {
		for tag, id := range k.ids {
			run, s := have[id], k.submits[tag]
			switch {
			case !run.Exists():
				l.wrongf("run %s of submit %s was acknowledged and is gone", id, tag)
			case run.Get("workflow").String() != s.workflow,
				s.guard == byKey && run.Get("idempotency_key").String() != "key "+tag:
				l.wrongf("submit %s to %s was acknowledged, and the run is %s", tag, s.workflow, run)
			}
		}
		for id, all := range k.endings {
			l.compareEnd(id, all[len(all)-1], have[id])
		}
		for id, verb := range k.stopped {
			status := have[id].Get("status").String()
			// One that executes ends as cancelled when its worker has stopped.
			asked := verb == "cancel" && (status == "cancelled" || have[id].Get("cancel_requested").Bool())
			if status != "terminated" && !asked {
				l.wrongf("the %s of run %s was acknowledged, and it is %s", verb, id, have[id])
			}
		}
		for id, run := range have {
			l.compareSelf(id, run)
		}
	})
}

// compareEnd checks the run of an acknowledged end; mu is held.
func (l *ledger) compareEnd(id string, e ending, run gjson.Result) {
	status := run.Get("status").String()
	switch {
	case isFinal(e.status) && status != e.status:
		l.wrongf("run %s was acknowledged as %s by %s, and it is %s", id, e.status, e.verb, run)
	case e.status == "completed" && run.Get("result.fence").Uint() != e.fence:
		l.wrongf("run %s was completed with fence %d, and its result is %s", id, e.fence, run.Get("result"))
	case e.status == "failed" && run.Get("error.type").String() == "":
		l.wrongf("run %s failed and has no error: %s", id, run)
	}
}

// compareSelf checks a run against what was read of it before; mu is held. What has
// ended stays as it is, byte for byte, wherever it is kept.
func (l *ledger) compareSelf(id string, run gjson.Result) {
	switch status := run.Get("status").String(); {
	case isFinal(status):
		if l.finals[id] == "" {
			l.finals[id] = run.Raw
		}
		if l.finals[id] != run.Raw {
			l.wrongf("ended run %s was %s and is %s", id, l.finals[id], run)
		}
	case l.finals[id] != "":
		l.wrongf("run %s had ended as %s and is %s", id, l.finals[id], run)
	case status != "executing" && run.Get("wait.reason").String() == "":
		l.wrongf("run %s waits for no reason: %s", id, run)
	}
}

// closely checks one run: its status by itself, its events, and that its last end is
// answered again.
func (c *crew) closely(t *testing.T, k known, id string) {
	t.Helper()
	l := c.ledger
	run, events := c.ask(t, "/v1/runs/"+id), c.ask(t, "/v1/runs/"+id+"/events").Get("events").Array()
	l.note(func() {
		if final := l.finals[id]; final != "" && final != run.Raw {
			l.wrongf("ended run %s was listed as %s and is %s", id, final, run)
		}
		before := l.events[id]
		if len(events) < len(before) {
			l.wrongf("run %s had %d events and has %d", id, len(before), len(events))
			return
		}
		for i := range before {
			if before[i].Raw != events[i].Raw {
				l.wrongf("event %d of run %s was %s and is %s", i, id, before[i], events[i])
			}
		}
		l.events[id] = events
		for _, fault := range faultsOf(events, k.grants[id], k.endings[id]) {
			l.wrongf("run %s: %s: %s", id, fault, events)
		}
	})
	ends := k.endings[id]
	if len(ends) == 0 || ends[len(ends)-1].status != "completed" {
		return
	}
	last := ends[len(ends)-1]
	status, answer, ok := c.insist(http.MethodPost, "/v1/runs/"+id+"/complete", fmt.Sprintf(`{"fence":%d,"result":"another"}`, last.fence))
	if ok && (status != 200 || answer.Get("status").String() != "completed") {
		l.faultf("the completion of run %s with fence %d, once more: %d %s", id, last.fence, status, answer)
	}
}

// follows are the events that may come behind an event.
var follows = map[string][]string{
	"run:init":             {"run:claimed", "run:cancelled", "run:terminated"},
	"run:claimed":          {"run:completed", "run:failed", "run:retrying", "run:suspended", "run:lease_expired", "run:cancel_requested", "run:cancelled", "run:terminated"},
	"run:retrying":         {"run:resumed", "run:cancelled", "run:terminated"},
	"run:suspended":        {"run:resumed", "run:cancelled", "run:terminated"},
	"run:resumed":          {"run:claimed", "run:cancelled", "run:terminated"},
	"run:lease_expired":    {"run:claimed", "run:cancelled", "run:terminated"},
	"run:cancel_requested": {"run:cancelled", "run:terminated", "run:lease_expired"},
	"run:terminated":       {"run:released"},
}

// endedBy are the events that stand for a worker's request.
var endedBy = map[string][]string{
	"complete": {"run:completed", "run:cancelled", "run:released"},
	"fail":     {"run:failed", "run:retrying", "run:cancelled", "run:released"},
	"suspend":  {"run:suspended", "run:cancelled", "run:released"},
}

// faultsOf says what is wrong with the events of a run: a gap, an order that can't
// be, a second end, or something acknowledged that isn't there.
func faultsOf(events []gjson.Result, grants []uint64, ends []ending) (faults []string) {
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	var fence uint64
	claimed := map[uint64]bool{}
	ended := map[uint64][]string{}
	for i, e := range events {
		kind := e.Get("type").String()
		if e.Get("seq").Int() != int64(i+1) {
			wrong("event %d has number %s", i+1, e.Get("seq"))
		}
		switch {
		case i == 0 && kind != "run:init":
			wrong("the first event is %s", kind)
		case i > 0 && !slices.Contains(follows[events[i-1].Get("type").String()], kind):
			wrong("%s stands behind %s", kind, events[i-1].Get("type"))
		case i > 0 && e.Get("at").Int() < events[i-1].Get("at").Int():
			wrong("event %d is older than the one before it", i+1)
		}
		f := e.Get("fence").Uint()
		if kind == "run:claimed" {
			if f <= fence {
				wrong("fence %d comes behind fence %d", f, fence)
			}
			fence, claimed[f] = f, true
			continue
		}
		ended[f] = append(ended[f], kind)
	}
	for _, f := range grants {
		if !claimed[f] {
			wrong("the grant with fence %d was acknowledged and has no event", f)
		}
	}
	for _, e := range ends {
		if !slices.ContainsFunc(ended[e.fence], func(kind string) bool { return slices.Contains(endedBy[e.verb], kind) }) {
			wrong("its %s with fence %d was acknowledged and has no event", e.verb, e.fence)
		}
	}
	return faults
}

// stuck tells what the runs that haven't ended wait for.
func (c *crew) stuck(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	c.ledger.look(func() {
		fmt.Fprintf(&text, "faults: %q\nacks: %d, submitted: %d\n", c.ledger.faults, c.ledger.acks, len(c.ledger.ids))
	})
	for id, run := range c.all(t) {
		if !isFinal(run.Get("status").String()) {
			_, why := get(t, *c.base.Load()+"/v1/runs/"+id+"/why")
			fmt.Fprintf(&text, "%s %s\n", run.Get("workflow"), why)
		}
	}
	return text.String()
}
