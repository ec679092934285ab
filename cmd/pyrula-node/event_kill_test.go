package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// What the kill loop puts on the node as events.
const (
	eventSenders = 4
	foldMax      = 5 // events of a batch, by the declaration below
	slowMax      = 7
	eventsALife  = 600 // at most, so that a life that goes on for long doesn't fill the disk
	linesAtMost  = 12  // events of a request
	oneAgain     = 4   // of so many requests, one was answered before
	recently     = 40  // requests of a sender that may be sent again; their ids are known for 10 minutes
)

// eventful are the workflows that are made of events, and how many keys each has. A batch of
// fold is full or its window passes, one of quiet goes by time alone, and one of slow never does.
var eventful = []struct {
	name, declaration string
	keys, max         int
}{
	{"fold", `{"trigger":{"collect":{"key":"k","max_events":5,"window_seconds":0.3}},"limit":{"key":"key","max":1},` + oneDeclaration, 20, foldMax},
	{"quiet", `{"trigger":{"debounce":{"key":"k","window_seconds":0.1,"max_wait_seconds":0.6}},` + oneDeclaration, 20, 0},
	{"slow", `{"trigger":{"collect":{"key":"k","max_events":7,"window_seconds":3600}},` + oneDeclaration, 10, slowMax},
}

// sentEvent is an event in the log of its sender.
type sentEvent struct {
	workflow, key  string
	sender, number int // the sender's events are numbered in the order in which it sends them
	acked          bool
	run            string // that its answer named
	// loose says that the node took only some of its request, or may take it later than what
	// was sent after it: then its place in the order is not known.
	loose bool
}

// eventRequest is some events in one request.
type eventRequest struct {
	workflow string
	id       string // of the request; without one it is sent once
	many     bool   // one event a line
	tags     []string
	lines    []string
}

// eventCrew sends events and works on what is made of them. Its fields below the client are
// guarded by the ledger.
type eventCrew struct {
	*crew
	client *http.Client

	allowed int                   // events that may be sent so far
	sent    map[string]*sentEvent // by tag
	params  map[string]string     // run -> what every attempt of it was granted with
	grants  int
	repeats int // requests that were answered again, and alike
}

// TestKill9P33P34P37P67P71S71S76S79S80Events kills a node again and again while events are sent,
// with and without ids, one by one and as lines, to workflows with a Collect and a Debounce, and
// workers complete, fail and lose the runs. It fails when an event that was acknowledged isn't in
// exactly one run or buffer, one that wasn't is in two, events of a sender have changed their
// order within a key, a repeat is answered otherwise or counts, an attempt sees other
// events than the one before, or a batch has not the size that it says.
func TestKill9P33P34P37P67P71S71S76S79S80Events(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience+eventKills*5*time.Second)
	defer cancel()
	c := &eventCrew{
		crew: newCrew(ctx.Done()), client: &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
		sent: map[string]*sentEvent{}, params: map[string]string{},
	}
	k := &killing{t: t, dir: t.TempDir(), crew: c.crew, rng: rand.New(rand.NewPCG(eventKills, 4))}
	n := k.serve()
	for _, w := range eventful {
		if !c.declare(w.name, w.declaration) {
			t.Fatalf("declare %s", w.name)
		}
	}
	var senders sync.WaitGroup
	for i := range eventSenders {
		senders.Go(func() { c.sendAs(i) })
		c.wg.Go(func() { c.workAs(i) })
	}
	for turn := 0; k.killed < eventKills && !k.faulty(); turn++ {
		c.load(k)
		k.end(n, turn+2) // so that few kills also have a start from snapshots among them
		n = k.serve()
	}
	c.ledger.note(func() { c.ledger.enough = true })
	senders.Wait()
	var have map[string]gjson.Result
	if !k.faulty() {
		have = c.rest(t)
	}
	cancel()
	c.wg.Wait()
	if !k.faulty() {
		c.judge(t, have)
	}
	for _, fault := range c.ledger.faults[:min(len(c.ledger.faults), 8)] { // the rest is like them
		t.Error(fault)
	}
	t.Logf("%d kills in %d lives; %d events, %d requests answered again; %d runs, %d grants; %v",
		k.killed, k.born, len(c.sent), c.repeats, len(c.params), c.grants, c.ledger.verbs)
}

// load waits for some events to be acknowledged, and for runs that end.
func (c *eventCrew) load(k *killing) {
	k.t.Helper()
	l := c.ledger
	var acks, ends int
	l.note(func() { c.allowed = len(c.sent) + eventsALife })
	l.look(func() { acks, ends = l.acks+100+k.rng.IntN(300), len(l.ended)+1+k.rng.IntN(4) })
	ready := func() bool { return l.acks >= acks && len(l.ended) >= ends || len(l.faults) > 0 }
	if !l.until(c.over, ready) {
		k.t.Fatalf("after %d kills the work doesn't go on\n%s", k.killed, c.stuck(k.t))
	}
}

// sendAs is a sender. It sends an event when the one before it was acknowledged, or given up.
func (c *eventCrew) sendAs(sender int) {
	rng := rand.New(rand.NewPCG(eventKills, uint64(sender)))
	var recent []*eventRequest
	for number := 0; ; {
		enough := false
		room := func() bool {
			enough = c.ledger.enough
			return enough || len(c.sent) < c.allowed
		}
		if !c.ledger.until(c.over, room) || enough {
			return
		}
		if len(recent) > 0 && rng.IntN(oneAgain) == 0 {
			c.sendAgain(recent[rng.IntN(len(recent))])
			continue
		}
		r := c.newRequest(rng, sender, &number)
		if !c.deliver(r) {
			return
		}
		if r.id != "" {
			recent = append(recent, r)
			recent = recent[max(0, len(recent)-recently):]
		}
		if !c.pause(time.Duration(rng.IntN(6)) * time.Millisecond) {
			return
		}
	}
}

// newRequest draws events and writes them down before they are sent.
func (c *eventCrew) newRequest(rng *rand.Rand, sender int, number *int) *eventRequest {
	w := eventful[rng.IntN(len(eventful))]
	r := &eventRequest{workflow: w.name, many: rng.IntN(2) == 0}
	if rng.IntN(3) > 0 {
		r.id = fmt.Sprintf("request %d of sender %d", *number, sender)
	}
	count, spread := 1, w.keys
	if r.many {
		count, spread = 1+rng.IntN(linesAtMost), 1+rng.IntN(w.keys)
	}
	c.ledger.note(func() {
		for range count {
			key, tag := fmt.Sprintf("k%d", rng.IntN(spread)), fmt.Sprintf("%d-%d", sender, *number)
			c.sent[tag] = &sentEvent{workflow: w.name, key: key, sender: sender, number: *number}
			r.tags = append(r.tags, tag)
			r.lines = append(r.lines, fmt.Sprintf(`{"k":%q,"tag":%q}`, key, tag))
			*number++
		}
	})
	return r
}

// deliver sends a request until all of it is acknowledged, or once if it has no id.
func (c *eventCrew) deliver(r *eventRequest) bool {
	for {
		status, text := c.post(r)
		switch status {
		case http.StatusAccepted:
			if c.answered(r, text) || r.id == "" {
				return true
			}
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			c.loosen(r)
		case 0: // no answer: the node is gone, and takes nothing later
		default:
			c.ledger.faultf("events %v to %s: %d %s", r.tags, r.workflow, status, text)
			return false
		}
		if !c.pause(retryPause) {
			return false
		}
		if r.id == "" {
			return true
		}
	}
}

func (c *eventCrew) loosen(r *eventRequest) {
	c.ledger.note(func() {
		for _, tag := range r.tags {
			c.sent[tag].loose = true
		}
	})
}

// sendAgain repeats a request that was acknowledged. It must be answered alike, if at all.
func (c *eventCrew) sendAgain(r *eventRequest) {
	if status, text := c.post(r); status == http.StatusAccepted && c.answered(r, text) {
		c.ledger.note(func() { c.repeats++ })
	}
}

// post sends a request. Status 0 means that there is no answer.
func (c *eventCrew) post(r *eventRequest) (status int, text string) {
	req, err := http.NewRequest(http.MethodPost, *c.base.Load()+"/v1/workflows/"+r.workflow+"/events", strings.NewReader(strings.Join(r.lines, "\n")))
	if err != nil {
		return 0, ""
	}
	req.Header.Set("Content-Type", "application/json")
	if r.many {
		req.Header.Set("Content-Type", "application/x-ndjson")
	}
	if r.id != "" {
		req.Header.Set("Idempotency-Key", r.id)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, ""
	}
	return resp.StatusCode, string(body)
}

// answered writes down what an answer acknowledges. It is false when that isn't all.
func (c *eventCrew) answered(r *eventRequest, text string) bool {
	var results []gjson.Result
	gjson.ForEachLine(text, func(line gjson.Result) bool {
		results = append(results, line)
		return true
	})
	if len(results) != len(r.tags) {
		c.ledger.faultf("%d events of %s have the results %s", len(r.tags), r.workflow, text)
		return true
	}
	refused := false
	c.ledger.note(func() {
		for i, result := range results {
			e, run := c.sent[r.tags[i]], result.Get("run_id").String()
			switch {
			case result.Get("problem").Exists():
				refused = true
			case e.acked && e.run != run:
				c.ledger.wrongf("event %s was answered with run %q, and again with %q", r.tags[i], e.run, run)
			case !e.acked:
				e.acked, e.run = true, run
				c.ledger.ack("event")
			}
		}
	})
	if refused {
		c.loosen(r)
	}
	return !refused
}

// workAs is a worker: it claims, executes what it is granted, and claims again.
func (c *eventCrew) workAs(number int) {
	rng := rand.New(rand.NewPCG(uint64(number), 4))
	var names []string
	for _, w := range eventful {
		names = append(names, w.name)
	}
	claim := claimOf(credit, claimWait.Milliseconds(), names...)
	for c.pause(0) {
		asked := time.Now()
		status, answer := c.send(http.MethodPost, "/v1/claims", claim)
		if status != http.StatusOK {
			if status != 0 && status != http.StatusServiceUnavailable {
				c.ledger.faultf("claim: %d %s", status, answer)
			}
			c.pause(retryPause)
			continue
		}
		var bodies sync.WaitGroup
		for _, grant := range answer.Get("runs").Array() {
			bodies.Go(c.bodyOf(rng, grant, asked.Add(leaseSpan)).execute)
		}
		bodies.Wait()
	}
}

// bodyOf takes a grant, looks at what it brings, and decides what its body does.
func (c *eventCrew) bodyOf(rng *rand.Rand, grant gjson.Result, lease time.Time) *body {
	b := &body{
		crew: c.crew, id: grant.Get("run_id").String(), fence: grant.Get("fence").Uint(), workflow: grant.Get("workflow").String(),
		lease: lease, took: time.Duration(rng.IntN(10)) * time.Millisecond,
	}
	params := grant.Get("params")
	c.ledger.granted(b.id, b.fence)
	c.ledger.note(func() {
		c.grants++
		if first, known := c.params[b.id]; known && first != params.Raw {
			c.ledger.wrongf("run %s was granted with %s, and later with %s", b.id, first, params.Raw)
		}
		c.params[b.id] = params.Raw
	})
	switch n := rng.IntN(100); {
	case n < 2: // its worker dies
	case n < 12:
		b.verb, b.more = "fail", `,"error":{"type":"Again","message":"no luck"},"retryable":true`
	case n < 16:
		b.verb, b.more = "fail", `,"error":{"type":"Never","message":"no hope"}`
	default:
		b.verb, b.more = "complete", `,"result":`+params.Get("events.#.tag").Raw
	}
	return b
}
