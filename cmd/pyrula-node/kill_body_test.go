package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
)

// work is a worker: it claims, executes what it is granted, and claims again.
func (c *crew) work(number int) {
	rng := rand.New(rand.NewPCG(uint64(number), 1))
	var names []string
	for _, name := range gated {
		names = append(names, fmt.Sprintf(`{"name":%q,"version":""}`, name))
	}
	claim := fmt.Sprintf(`{"worker":"w%d","workflows":[%s],"credit":%d,"wait_ms":%d}`,
		number, strings.Join(names, ","), credit, claimWait.Milliseconds())
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
			b := c.newBody(rng, grant)
			b.worker, b.lease = number, sent.Add(leaseSpan)
			bodies.Go(b.execute)
		}
		bodies.Wait()
	}
}

// body is one execution of a run.
type body struct {
	crew     *crew
	worker   int
	id       string
	workflow string
	fence    uint64
	key      string    // of its Limit, or empty
	lease    time.Time // until when the run may be worked on
	took     time.Duration
	verb     string // how it ends; empty: its worker dies, and nothing more is heard of it
	more     string // in the request of the end, beside the fence
	halfway  string // a stop that somebody asks for while it executes, or empty
}

// newBody takes a grant and decides what its body does.
func (c *crew) newBody(rng *rand.Rand, grant gjson.Result) *body {
	b := &body{
		crew: c, id: grant.Get("run_id").String(), fence: grant.Get("fence").Uint(), workflow: grant.Get("workflow").String(),
		took: time.Duration(2+rng.IntN(20)) * time.Millisecond,
	}
	c.ledger.granted(b.id, b.fence)
	c.whole(grant)
	if isLimited(b.workflow) {
		b.key = b.workflow + "/" + grant.Get("params.tenant").String()
	}
	if rng.IntN(20) == 0 { // outlasts a restart, and lives on heartbeats
		b.took = leaseSpan/4 + time.Duration(rng.Int64N(int64(leaseSpan)))
	}
	switch n := rng.IntN(100); {
	case n < 2: // dies
	case n < 10:
		b.verb, b.more = "fail", `,"error":{"type":"Again","message":"no luck"},"retryable":true`
	case n < 14:
		b.verb, b.more = "fail", `,"error":{"type":"Never","message":"no hope"}`
	case n < 24:
		at := time.Now().Add(time.Duration(rng.IntN(300)) * time.Millisecond).UnixMilli()
		b.verb, b.more = "suspend", fmt.Sprintf(`,"until":{"at_ms":%d}`, at)
	default:
		// The result names the fence, so that it can be told whose completion counted.
		b.verb, b.more = "complete", fmt.Sprintf(`,"result":{"fence":%d}`, b.fence)
	}
	switch rng.IntN(40) {
	case 0:
		b.halfway = "cancel"
	case 1:
		b.halfway = "terminate"
	}
	return b
}

// whole checks that a grant brings what was submitted.
func (c *crew) whole(grant gjson.Result) {
	l, id := c.ledger, grant.Get("run_id").String()
	l.look(func() {
		tag, known := l.tags[id] // an answer may be lost, or still under way
		if s := l.submits[tag]; known && (grant.Get("params").Raw != s.params() || grant.Get("workflow").String() != s.workflow) {
			l.wrongf("run %s was submitted to %s with %s and is granted as %s", id, s.workflow, s.params(), grant)
		}
	})
}

// execute obeys the lease: it begins with most of it left, renews it, and ends
// before it does (R1).
func (b *body) execute() {
	if time.Until(b.lease) < leaseSpan*2/3 && !b.renew() {
		return
	}
	l := b.crew.ledger
	l.enter(b.key, b.id, b.lease)
	held := b.stay()
	l.leave(b.key, b.id)
	if held && b.verb != "" {
		b.end()
	}
}

// stay is the body's work. It is false when the lease was lost on the way.
func (b *body) stay() bool {
	done := time.Now().Add(b.took)
	if b.halfway != "" {
		b.crew.wg.Go(func() { b.crew.stop(b.id, b.halfway) })
	}
	for {
		left, rest := time.Until(b.lease), time.Until(done)
		switch {
		case left <= 0:
			return false
		case rest <= 0:
			return true
		}
		if !b.crew.pause(min(rest, leaseSpan/4, left)) {
			return false
		}
		if time.Until(b.lease) < leaseSpan/2 && time.Until(done) > 0 && !b.renew() && time.Until(b.lease) <= 0 {
			return false
		}
	}
}

// renew heartbeats. It is false when the lease wasn't renewed, for whatever reason;
// a refusal is the end of it.
func (b *body) renew() bool {
	sent := time.Now()
	status, answer := b.crew.send(http.MethodPost, "/v1/heartbeats",
		fmt.Sprintf(`{"worker":"w%d","runs":[{"run_id":%q,"fence":%d}]}`, b.worker, b.id, b.fence))
	switch {
	case status != 200:
		return false
	case !answer.Get("runs.0.ok").Bool():
		b.lease = time.Time{}
		return false
	}
	b.lease = sent.Add(leaseSpan)
	b.crew.ledger.renewed(b.key, b.id, b.lease)
	return true
}

// end tells the end until it is taken or refused.
func (b *body) end() {
	status, answer, ok := b.crew.insist(http.MethodPost, "/v1/runs/"+b.id+"/"+b.verb, fmt.Sprintf(`{"fence":%d%s}`, b.fence, b.more))
	switch {
	case !ok, status == 409: // somebody else has the run by now, or it was ended
	case status == 200:
		b.crew.ledger.ending(b.id, b.key != "", ending{b.verb, b.fence, answer.Get("status").String()})
	default:
		b.crew.ledger.faultf("%s of run %s with fence %d: %d %s", b.verb, b.id, b.fence, status, answer)
	}
}
