package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
)

// What the kill loop puts on the node.
const (
	slots      = 2 // the Limit of every tenant
	tenants    = 4
	regions    = 2
	crewSize   = 4
	credit     = 4
	backlog    = 48 // runs that wait or execute at most
	leaseSpan  = 2 * time.Second
	claimWait  = leaseSpan / 4
	retryPause = 20 * time.Millisecond
	oneDies    = 50 // of so many bodies, one is of a worker that dies
	oneLong    = 10 // of so many bodies, one outlasts a restart of the node
	oneStopped = 11 // of so many runs, one is cancelled
)

// declarations of the two workflows: in one both gates are of one key, in the other
// the Rate's key lives elsewhere, so starts are agreed between two shards.
var declarations = map[string]string{
	"near": `{"limit":{"key":"tenant","max":2},"rate":{"key":"tenant","per_second":30,"burst":8},"lease_seconds":2}`,
	"far":  `{"limit":{"key":"tenant","max":2},"rate":{"key":"region","per_second":60,"burst":16},"lease_seconds":2}`,
}

// crew is who works on a node from the outside, over HTTP alone. The node may go and
// come back at another address.
type crew struct {
	over   <-chan struct{} // closed when everyone is to stop
	ledger *ledger
	client *http.Client
	base   atomic.Pointer[string]
	total  int          // runs to be submitted
	next   atomic.Int64 // number of the next run
	wg     sync.WaitGroup
}

func newCrew(over <-chan struct{}, total int) *crew {
	return &crew{
		over: over, ledger: newLedger(), total: total,
		client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
	}
}

// start sets everyone to work.
func (c *crew) start() {
	for i := range crewSize {
		c.wg.Go(func() { c.submit() })
		c.wg.Go(func() { c.work(i) })
	}
}

// send makes one request. Status 0 means that there is no answer.
func (c *crew) send(method, path, body string) (int, gjson.Result) {
	req, err := http.NewRequest(method, *c.base.Load()+path, strings.NewReader(body))
	if err != nil {
		return 0, gjson.Result{}
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return 0, gjson.Result{}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, gjson.Result{}
	}
	return resp.StatusCode, gjson.ParseBytes(text)
}

// insist makes a request until it is answered, whatever happens to the node. It is
// false when the test is over.
func (c *crew) insist(path, body string) (int, gjson.Result, bool) {
	for {
		status, answer := c.send(http.MethodPost, path, body)
		if status != 0 && status != 503 && status != 429 {
			return status, answer, true
		}
		if !c.pause(retryPause) {
			return 0, gjson.Result{}, false
		}
	}
}

// pause waits, and is false when everyone is to stop.
func (c *crew) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-c.over:
		return false
	}
}

// runBody is what submits run number n, to the workflow that it gives.
func runBody(n int) (workflow, body string) {
	workflow = "near"
	if n%2 == 1 {
		workflow = "far"
	}
	return workflow, fmt.Sprintf(`{"idempotency_key":"key-%d","params":{"tenant":"t%d","region":"r%d"}}`, n, n/2%tenants, n/3%regions)
}

// submit submits runs until all are acknowledged, and cancels some.
func (c *crew) submit() {
	l := c.ledger
	for {
		n := int(c.next.Add(1)) - 1
		if n >= c.total {
			return
		}
		room := func() bool { return len(l.ids)-len(l.ended) < backlog }
		if !l.until(c.over, room) {
			return
		}
		id, ok := c.submitOne(n)
		if !ok {
			return
		}
		if n%oneStopped != 0 {
			continue
		}
		status, answer, ok := c.insist("/v1/runs/"+id+"/cancel", `{"reason":"not needed"}`)
		switch {
		case !ok:
			return
		case status != 200 && status != 202:
			l.faultf("cancel of run %s: %d %s", id, status, answer)
		case answer.Get("changed").Bool():
			l.cancelling(id, answer.Get("status").String())
		}
	}
}

// submitOne submits run number n until it is acknowledged.
func (c *crew) submitOne(n int) (id string, ok bool) {
	workflow, body := runBody(n)
	status, answer, ok := c.insist("/v1/workflows/"+workflow+"/runs", body)
	if ok && status != 202 {
		c.ledger.faultf("submit of run %d: %d %s", n, status, answer)
		return "", false
	}
	id = answer.Get("run_id").String()
	if ok {
		c.ledger.submitted(fmt.Sprintf("key-%d", n), id)
	}
	return id, ok
}

// work is a worker: it claims, executes what it is granted, and claims again.
func (c *crew) work(number int) {
	rng := rand.New(rand.NewPCG(uint64(number), 1))
	claim := fmt.Sprintf(`{"worker":"w%d","workflows":[{"name":"near","version":""},{"name":"far","version":""}],"credit":%d,"wait_ms":%d}`,
		number, credit, claimWait.Milliseconds())
	for c.pause(0) {
		sent := time.Now()
		status, answer := c.send(http.MethodPost, "/v1/claims", claim)
		if status != 200 {
			if status != 0 && status != 503 {
				c.ledger.faultf("claim: %d %s", status, answer)
			}
			c.pause(retryPause)
			continue
		}
		var bodies sync.WaitGroup
		for _, grant := range answer.Get("runs").Array() {
			b := body{
				crew: c, worker: number, id: grant.Get("run_id").String(), fence: grant.Get("fence").Uint(),
				key:   grant.Get("workflow").String() + "/" + grant.Get("params.tenant").String(),
				lease: sent.Add(leaseSpan), took: time.Duration(5+rng.IntN(25)) * time.Millisecond, dies: rng.IntN(oneDies) == 0,
			}
			if rng.IntN(oneLong) == 0 {
				b.took = leaseSpan/5 + time.Duration(rng.Int64N(int64(leaseSpan/5)))
			}
			bodies.Go(b.execute)
		}
		bodies.Wait()
	}
}

// body is one execution of a run.
type body struct {
	crew   *crew
	worker int
	id     string
	fence  uint64
	key    string
	lease  time.Time // until when the run may be worked on
	took   time.Duration
	dies   bool // its worker dies with it: nothing more is heard of it
}

// execute obeys the lease: it begins with most of it left, and ends before it does
// (R1).
func (b *body) execute() {
	if time.Until(b.lease) < leaseSpan*2/3 && !b.renew() {
		return
	}
	left := time.Until(b.lease)
	if left <= 0 {
		return
	}
	b.crew.ledger.enter(b.key, b.id)
	over := time.After(min(b.took, left))
	select {
	case <-over:
	case <-b.crew.over:
	}
	b.crew.ledger.leave(b.key)
	if !b.dies && b.took < left {
		b.complete()
	}
}

func (b *body) renew() bool {
	sent := time.Now()
	status, answer := b.crew.send(http.MethodPost, "/v1/heartbeats",
		fmt.Sprintf(`{"worker":"w%d","runs":[{"run_id":%q,"fence":%d}]}`, b.worker, b.id, b.fence))
	b.lease = sent.Add(leaseSpan)
	return status == 200 && answer.Get("runs.0.ok").Bool()
}

// complete tells the end until it is taken or refused. The result names the fence,
// so that it can be told whose completion counted.
func (b *body) complete() {
	text, err := json.Marshal(map[string]any{"fence": b.fence, "result": map[string]uint64{"fence": b.fence}})
	if err != nil {
		panic(err) // integers always encode
	}
	status, answer, ok := b.crew.insist("/v1/runs/"+b.id+"/complete", string(text))
	switch {
	case !ok, status == 409: // somebody else has the run by now, or it was ended
	case status == 200:
		b.crew.ledger.ending(b.id, answer.Get("status").String(), b.fence)
	default:
		b.crew.ledger.faultf("completion of run %s with fence %d: %d %s", b.id, b.fence, status, answer)
	}
}
