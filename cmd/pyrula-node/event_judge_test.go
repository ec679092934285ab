package main

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// rest waits until nothing is left but the batches of slow, reads their sizes, fills them up,
// and waits for the ends of all runs. The events that fill a batch have the key's name as tag.
func (c *eventCrew) rest(t *testing.T) (have map[string]gjson.Result) {
	t.Helper()
	c.atRest(t, func(w string) bool { return w != "slow" })
	for _, w := range eventful {
		if w.name != "slow" {
			continue
		}
		for i := range w.keys {
			key := fmt.Sprintf("k%d", i)
			c.fill(t, key, w.max)
		}
	}
	return c.atRest(t, func(string) bool { return true })
}

// fill sends events of one key of slow until its batch is a run, which must then have as many
// others as the key said.
func (c *eventCrew) fill(t *testing.T, key string, size int) {
	t.Helper()
	_, text := get(t, *c.base.Load()+"/v1/keys/slow/"+key)
	buffered := int(gjson.Get(text, "buffered_events").Int())
	if batch := gjson.Get(text, "batch"); int(batch.Get("events").Int()) != buffered || buffered >= size || (buffered > 0) != batch.IsObject() {
		t.Errorf("key %s of slow is %s", key, text)
		return
	}
	if buffered == 0 {
		return
	}
	will := gjson.Get(text, "batch.run_id").String()
	for i := buffered; i < size; i++ {
		tag := fmt.Sprintf("fill-%s-%d", key, i)
		c.ledger.note(func() { c.sent[tag] = &sentEvent{workflow: "slow", key: key, sender: eventSenders, number: i} })
		r := &eventRequest{workflow: "slow", id: tag, tags: []string{tag}, lines: []string{fmt.Sprintf(`{"k":%q,"tag":%q}`, key, tag)}}
		if !c.deliver(r) {
			t.Fatalf("key %s of slow isn't filled", key)
		}
		if got := c.sent[tag].run; (got != "") != (i == size-1) || got != "" && got != will {
			t.Errorf("event %d of key %s is answered with run %q; the batch will be %s", i+1, key, got, will)
		}
	}
}

// atRest waits until every run has ended and no batch of some workflows is open.
func (c *eventCrew) atRest(t *testing.T, counts func(workflow string) bool) (have map[string]gjson.Result) {
	t.Helper()
	again := time.NewTicker(10 * retryPause)
	defer again.Stop()
	for {
		open := ""
		for _, w := range eventful {
			for i := range w.keys {
				at := fmt.Sprintf("%s/k%d", w.name, i)
				if !counts(w.name) || open != "" {
					continue
				}
				if status, text := get(t, *c.base.Load()+"/v1/keys/"+at); status != http.StatusOK || gjson.Get(text, "buffered_events").Int() != 0 {
					open = at + ": " + text
				}
			}
		}
		have = c.all(t)
		for id, run := range have {
			if open == "" && !isFinal(run.Get("status").String()) {
				open = id + ": " + run.Raw
			}
		}
		if open == "" {
			return have
		}
		select {
		case <-again.C:
		case <-c.over:
			t.Fatalf("it doesn't come to rest: %s", open)
		}
	}
}

// stretch is the events of one sender in one run.
type stretch struct {
	at      int64 // when the batch was cut, in milliseconds
	numbers []int
}

// lane is one sender's events of one key.
type lane struct {
	workflow, key string
	sender        int
}

// place finds every event in the runs: where has the run of each.
func (c *eventCrew) place(have map[string]gjson.Result) (where map[string]string, lanes map[lane][]stretch) {
	where, lanes = map[string]string{}, map[lane][]stretch{}
	for id, run := range have {
		params, known := c.params[id]
		if !known {
			c.ledger.faultf("run %s has ended and was never granted: %s", id, run.Raw)
			continue
		}
		c.judgeRun(run, gjson.Parse(params))
		here := map[lane]*stretch{}
		for _, tag := range gjson.Get(params, "events.#.tag").Array() {
			e, other := c.sent[tag.String()], where[tag.String()]
			switch {
			case e == nil:
				c.ledger.faultf("run %s has the event %s, which nobody sent", id, tag)
				continue
			case other != "":
				c.ledger.faultf("event %s is in the runs %s and %s", tag, other, id)
			}
			where[tag.String()] = id
			if e.loose {
				continue
			}
			at := lane{e.workflow, e.key, e.sender}
			if here[at] == nil {
				here[at] = &stretch{at: run.Get("submitted_at").Int()}
			}
			here[at].numbers = append(here[at].numbers, e.number)
		}
		for at, s := range here {
			lanes[at] = append(lanes[at], *s)
		}
	}
	return where, lanes
}

// judge holds the runs against the log of the senders.
func (c *eventCrew) judge(t *testing.T, have map[string]gjson.Result) {
	where, lanes := c.place(have)
	unknown, kept, loose := 0, 0, 0
	for tag, e := range c.sent {
		if e.acked && where[tag] == "" {
			c.ledger.faultf("event %s of key %s of %s was acknowledged and is in no run", tag, e.key, e.workflow)
		}
		if !e.acked {
			unknown++
			if where[tag] != "" {
				kept++
			}
		}
		if e.loose {
			loose++
		}
	}
	for at, stretches := range lanes {
		c.inOrder(at, stretches)
	}
	t.Logf("%d events were not acknowledged, of which %d are in runs; %d have no place in the order", unknown, kept, loose)
	if loose > len(c.sent)/2 || c.repeats == 0 || c.grants == len(c.params) {
		t.Errorf("%d of %d events have no place in the order, %d requests were answered again, %d of %d grants were repeated: nothing is shown",
			loose, len(c.sent), c.repeats, c.grants-len(c.params), c.grants)
	}
}

// inOrder fails when a sender's events of a key aren't in the order in which it sent them. Of
// batches that were cut within one millisecond the one with the earlier event is the first.
func (c *eventCrew) inOrder(at lane, all []stretch) {
	slices.SortFunc(all, func(a, b stretch) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.numbers[0], b.numbers[0]))
	})
	last := -1
	for _, s := range all {
		for _, n := range s.numbers {
			if n <= last {
				c.ledger.faultf("events %d and %d of sender %d to key %s of %s are out of order", last, n, at.sender, at.key, at.workflow)
			}
			last = n
		}
	}
}

// judgeRun holds one run against what it is declared to be, and against the answers to its events.
func (c *eventCrew) judgeRun(run, params gjson.Result) {
	id, name, events := run.Get("run_id").String(), run.Get("workflow").String(), params.Get("events").Array()
	tags := params.Get("events.#.tag")
	if int(params.Get("count").Int()) != len(events) || len(events) == 0 {
		c.ledger.faultf("run %s says that it has %s events and has %d", id, params.Get("count"), len(events))
	}
	if run.Get("status").String() == "completed" && run.Get("result").Raw != tags.Raw {
		c.ledger.faultf("run %s has the result %s and the events %s", id, run.Get("result").Raw, tags.Raw)
	}
	size := 0
	for _, w := range eventful {
		if w.name == name {
			size = w.max
		}
	}
	if size > 0 && len(events) > size || name == "slow" && len(events) != size {
		c.ledger.faultf("run %s of %s has %d events", id, name, len(events))
	}
	for i, tag := range tags.Array() {
		e := c.sent[tag.String()]
		if e == nil {
			continue
		}
		if e.workflow != name || e.key != params.Get("key").String() || events[i].Get("k").String() != e.key {
			c.ledger.faultf("event %s of key %s of %s is in run %s of key %s of %s", tag, e.key, e.workflow, id, params.Get("key"), name)
		}
		want := ""
		if size > 0 && i == size-1 {
			want = id
		}
		if e.acked && e.run != want {
			c.ledger.faultf("event %s is number %d in run %s and was answered with run %q", tag, i+1, id, e.run)
		}
	}
}
