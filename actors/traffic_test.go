package actors_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// traffic is clients and workers that do something at random, one thing at a time.
type traffic struct {
	w       *world
	rng     *rand.Rand
	held    []wire.Grant
	runs    []flow.RunID
	request int
}

// flows are the workflows of traffic, with short leases so that they end.
var flows = map[string]string{
	"lim":  `{"version":"1","limit":{"key":"l","max":2},"lease_seconds":1,"max_attempts":3,"retry_backoff_seconds":0.05}`,
	"rate": `{"version":"1","rate":{"key":"r","per_second":20,"burst":2},"lease_seconds":1}`,
	"both": `{"version":"1","limit":{"key":"l","max":1},"rate":{"key":"l","per_second":20,"burst":1},"lease_seconds":1,"max_attempts":2}`,
	"pair": `{"version":"1","limit":{"key":"l","max":2},"rate":{"key":"r","per_second":20,"burst":2},"lease_seconds":1}`,
	"free": `{"version":"1","lease_seconds":1}`,
}

// flowNames are the names of flows, in order.
var flowNames = []string{"lim", "rate", "both", "pair", "free"}

func newTraffic(w *world, number uint64) *traffic {
	w.Helper()
	for _, name := range flowNames {
		w.declare(name, flows[name])
	}
	return &traffic{w: w, rng: rand.New(rand.NewPCG(number, 77))}
}

// params names keys out of few, so that runs meet.
func (f *traffic) params() json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"l":"l%d","r":"r%d","n":%d}`, f.rng.IntN(4), f.rng.IntN(3), f.rng.IntN(1000)))
}

// workflow names one of the workflows.
func (f *traffic) workflow() string { return flowNames[f.rng.IntN(len(flowNames))] }

// legal fails for an error that no well-behaved client or worker should meet.
func (f *traffic) legal(err error) {
	f.w.Helper()
	for _, fine := range []error{flow.ErrStaleFence, flow.ErrRunEnded, flow.ErrNotReady, flow.ErrOutcomeUnknown} {
		if errors.Is(err, fine) {
			return
		}
	}
	if err != nil {
		f.w.Errorf("refused: %v", err)
	}
}

// step does one thing.
func (f *traffic) step() {
	switch n := f.rng.IntN(20); {
	case n < 6:
		f.submit()
	case n < 10:
		f.claim()
	case n < 14:
		f.end()
	case n < 16:
		f.beat()
	case n < 17:
		f.stop()
	default:
		f.w.pass(time.Duration(f.rng.IntN(120)) * time.Millisecond)
	}
}

func (f *traffic) submit() {
	all := make([]wire.Submit, 1+f.rng.IntN(3))
	for i := range all {
		all[i] = wire.Submit{Workflow: f.workflow(), Params: f.params()}
		switch f.rng.IntN(5) {
		case 0:
			all[i].IdempotencyKey = new(fmt.Sprint("order", f.rng.IntN(20)))
		case 1:
			f.request++
			all[i].RequestID = fmt.Sprint("r", f.request-f.rng.IntN(2))
		}
	}
	c := begin(func() ([]wire.Submitted, error) {
		out, errs := f.w.Submit(f.w.life, all)
		return out, errors.Join(errs...)
	})
	f.finish(func() bool { return c.over() })
	f.legal(c.err)
	for _, out := range c.value {
		if out.Created {
			f.runs = append(f.runs, f.w.id(out.RunID))
		}
	}
}

// finish commits and lets time pass until it is so.
func (f *traffic) finish(over func() bool) {
	for f.w.commit(); !over(); f.w.commit() {
		<-time.After(5 * time.Millisecond)
	}
}

func (f *traffic) claim() {
	c := f.w.claimingAs(fmt.Sprint("w", f.rng.IntN(3)), wire.Claim{
		Workflows: serves(flowNames...), Credit: 1 + f.rng.IntN(5), WaitMS: int64(f.rng.IntN(2) * 40),
	})
	f.finish(c.over)
	f.legal(c.err)
	f.held = append(f.held, c.value...)
}

// take takes a grant out of those that are held.
func (f *traffic) take() (g wire.Grant, ok bool) {
	if len(f.held) == 0 {
		return g, false
	}
	i := f.rng.IntN(len(f.held))
	g = f.held[i]
	f.held = append(f.held[:i], f.held[i+1:]...)
	return g, true
}

func (f *traffic) end() {
	g, ok := f.take()
	if !ok {
		return
	}
	var c *call[string]
	switch f.rng.IntN(6) {
	case 0:
		c = f.w.failing(g, f.rng.IntN(2) == 0)
	case 1:
		c = f.w.suspending(g, f.w.clock.Wall().Add(flow.Span(f.rng.IntN(300))*flow.Millisecond))
	case 2:
		return // its worker dies
	default:
		c = f.w.completing(g)
	}
	f.finish(c.over)
	f.legal(c.err)
}

func (f *traffic) beat() {
	if len(f.held) == 0 {
		return
	}
	c := f.w.beating(f.held...)
	f.finish(c.over)
	f.legal(c.err)
	if c.err != nil {
		return
	}
	alive := f.held[:0]
	for i, b := range c.value {
		if b.OK {
			alive = append(alive, f.held[i])
		}
	}
	f.held = alive
}

func (f *traffic) stop() {
	if len(f.runs) == 0 {
		return
	}
	id := f.runs[f.rng.IntN(len(f.runs))]
	c := f.w.cancelling(id)
	if f.rng.IntN(3) == 0 {
		c = f.w.terminating(id)
	}
	f.finish(c.over)
	f.legal(c.err)
}
