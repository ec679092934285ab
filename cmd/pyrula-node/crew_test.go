package main

import (
	"fmt"
	"io"
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
	tenants    = 6
	regions    = 2
	crewSize   = 4
	credit     = 4
	backlog    = 64 // runs that wait or execute at most
	leaseSpan  = time.Second
	claimWait  = leaseSpan / 4
	retryPause = 10 * time.Millisecond
	oneStopped = 7  // of so many submits, one is cancelled or terminated
	oneExtra   = 16 // of so many submits, one has a declaration beside it
	inOneBatch = 4  // runs of a batch
)

// gated are the workflows of the load. In near both gates are of one key; in far
// the Rate's key lives elsewhere, so starts are agreed between two shards.
var gated = []string{"near", "far", "slot", "pace", "free"}

const oneDeclaration = `"lease_seconds":1,"max_attempts":3,"retry_backoff_seconds":0.05}`

var declarations = map[string]string{
	"near": `{"limit":{"key":"tenant","max":2},"rate":{"key":"tenant","per_second":30,"burst":8},` + oneDeclaration,
	"far":  `{"limit":{"key":"tenant","max":2},"rate":{"key":"region","per_second":60,"burst":16},` + oneDeclaration,
	"slot": `{"limit":{"key":"tenant","max":2},` + oneDeclaration,
	"pace": `{"rate":{"key":"tenant","per_second":30,"burst":8},` + oneDeclaration,
	"free": `{` + oneDeclaration,
}

func isLimited(workflow string) bool { return strings.Contains(declarations[workflow], `"limit"`) }

// crew is who works on a node from the outside, over HTTP alone. The node may go and
// come back at another address.
type crew struct {
	over   <-chan struct{} // closed when everyone is to stop
	ledger *ledger
	client *http.Client
	base   atomic.Pointer[string]
	next   atomic.Int64 // number of the next submit
	wg     sync.WaitGroup
}

func newCrew(over <-chan struct{}) *crew {
	return &crew{
		over: over, ledger: newLedger(),
		client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
	}
}

// start sets everyone to work.
func (c *crew) start() {
	for i := range crewSize {
		c.wg.Go(c.submit)
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
func (c *crew) insist(method, path, body string) (int, gjson.Result, bool) {
	for {
		status, answer := c.send(method, path, body)
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

// guard is what makes the repeat of a submit safe.
type guard int

const (
	byKey     guard = iota // an idempotency key
	byRequest              // a request id
	byNothing              // a submit without an answer is not repeated
)

func (g guard) String() string { return [...]string{"key", "request id", "nothing"}[g] }

// submit is one run that is submitted. Its parameters name its tag.
type submit struct {
	tag      string
	workflow string
	guard    guard
	number   int
	acked    time.Time // when it was first acknowledged
}

// repeatable says whether a repeat must be answered with the same run: by a key for
// ever, by a request id for 10 minutes (R10).
func (s submit) repeatable() bool {
	return s.guard == byKey || s.guard == byRequest && time.Since(s.acked) < 5*time.Minute
}

func newSubmit(number, i int, g guard) submit {
	return submit{tag: fmt.Sprintf("%d-%d", number, i), workflow: gated[(number+i)%len(gated)], guard: g, number: number}
}

// params are the parameters of the run.
func (s submit) params() string {
	return fmt.Sprintf(`{"tag":%q,"tenant":"t%d","region":"r%d"}`, s.tag, s.number/2%tenants, s.number/3%regions)
}

// body is the request, or an entry of a batch.
func (s submit) body() string {
	var more string
	switch s.guard {
	case byKey:
		more = fmt.Sprintf(`,"idempotency_key":"key %s"`, s.tag)
	case byRequest:
		more = fmt.Sprintf(`,"request_id":"request-%s"`, s.tag)
	case byNothing:
	}
	return `{"params":` + s.params() + more + `}`
}

// submit submits runs in every way until it is enough, stops some, and declares.
func (c *crew) submit() {
	for {
		l, n, enough := c.ledger, int(c.next.Add(1))-1, false
		room := func() bool {
			enough = l.enough
			return enough || n < l.allowed && len(l.ids)-len(l.ended) < backlog
		}
		if !l.until(c.over, room) || enough {
			return
		}
		var id string
		var ok bool
		switch n % 4 {
		case 0, 1:
			id, ok = c.submitOne(newSubmit(n, 0, guard(n%4)))
		case 2:
			ok = c.submitBatch(n)
		default:
			id, ok = c.submitOnce(newSubmit(n, 0, byNothing))
		}
		if ok && id != "" && n%oneStopped == 0 {
			ok = c.stop(id, []string{"cancel", "terminate"}[n%2])
		}
		if ok && n%oneExtra == 0 {
			ok = c.declare(fmt.Sprintf("extra-%d", n), fmt.Sprintf(`{"version":"%d","limit":{"key":"k","max":%d}}`, n, n+1))
		}
		if !ok {
			return
		}
	}
}

// submitOne submits a run until it is acknowledged.
func (c *crew) submitOne(s submit) (id string, ok bool) {
	status, answer, ok := c.insist(http.MethodPost, "/v1/workflows/"+s.workflow+"/runs", s.body())
	if ok && status != 202 {
		c.ledger.faultf("submit %s: %d %s", s.tag, status, answer)
		return "", false
	}
	id = answer.Get("run_id").String()
	if ok {
		c.ledger.submitted(s, id)
	}
	return id, ok
}

// submitOnce sends a submit that nothing protects, so that it isn't repeated. When
// there is no answer, nobody knows whether it made a run.
func (c *crew) submitOnce(s submit) (id string, ok bool) {
	status, answer := c.send(http.MethodPost, "/v1/workflows/"+s.workflow+"/runs", s.body())
	switch status {
	case 202:
		id = answer.Get("run_id").String()
		c.ledger.submitted(s, id)
		return id, true
	case 0, 503, 429:
		c.ledger.note(func() { c.ledger.unknown++ })
		return "", c.pause(retryPause)
	default:
		c.ledger.faultf("submit %s: %d %s", s.tag, status, answer)
		return "", false
	}
}

// submitBatch sends runs in one request until each is acknowledged. Those that were
// refused are sent again with all the others.
func (c *crew) submitBatch(n int) bool {
	var all []submit
	var entries []string
	for i := range inOneBatch {
		s := newSubmit(n, i, guard(i%2))
		all = append(all, s)
		entries = append(entries, fmt.Sprintf(`{"workflow":%q,%s`, s.workflow, s.body()[1:]))
	}
	for {
		status, answer, ok := c.insist(http.MethodPost, "/v1/runs:batch", `{"runs":[`+strings.Join(entries, ",")+`]}`)
		if !ok {
			return false
		}
		got := answer.Get("runs").Array()
		if status != 200 && status != 202 || len(got) != len(all) {
			c.ledger.faultf("batch %d: %d %s", n, status, answer)
			return false
		}
		left := 0
		for i, one := range got {
			switch id := one.Get("run_id").String(); {
			case id != "":
				c.ledger.submitted(all[i], id)
			case one.Get("problem.retryable").Bool():
				left++
			default:
				c.ledger.faultf("entry %d of batch %d: %s", i, n, one)
				return false
			}
		}
		if left == 0 {
			return true
		}
		if !c.pause(retryPause) {
			return false
		}
	}
}

// stop cancels or terminates a run.
func (c *crew) stop(id, verb string) bool {
	status, answer, ok := c.insist(http.MethodPost, "/v1/runs/"+id+"/"+verb, `{"reason":"not needed"}`)
	switch {
	case !ok:
		return false
	case status != 200 && status != 202:
		c.ledger.faultf("%s of run %s: %d %s", verb, id, status, answer)
	case answer.Get("changed").Bool():
		c.ledger.stopping(id, verb, answer.Get("status").String())
	}
	return true
}

// declare declares a workflow until it is acknowledged.
func (c *crew) declare(name, text string) bool {
	status, answer, ok := c.insist(http.MethodPut, "/v1/workflows/"+name, text)
	if ok && status != 200 {
		c.ledger.faultf("declare %s: %d %s", name, status, answer)
	}
	if ok {
		c.ledger.declaring(name, answer.Get("gates_hash").String())
	}
	return ok
}
