package actors_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// lease is that of every workflow of the model.
const lease = time.Second

// model is clients and workers that know nothing but answers, and what they know is
// checked against each other. Owners of shards come and go meanwhile.
type model struct {
	w   *world
	max map[string]int // of each workflow with a Limit

	mu       sync.Mutex // guards the fields below
	rng      *rand.Rand
	inside   map[string]int      // bodies at work, by workflow and key
	working  map[string]uint64   // run -> fence of the body at work
	acked    map[string]string   // run -> status that was acknowledged as its end
	known    map[string]struct{} // runs whose submit was acknowledged
	names    map[string]string   // idempotency key -> run
	problems []string
	starts   int
	taken    int // snapshots
}

func (m *model) intN(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rng.IntN(n)
}

// wrongf notes a broken promise.
func (m *model) wrongf(format string, args ...any) {
	m.problems = append(m.problems, m.w.now().String()+" "+fmt.Sprintf(format, args...))
}

// passes says whether an error is one to try again after.
func passes(err error) bool {
	return errors.Is(err, flow.ErrNotReady) || errors.Is(err, flow.ErrOutcomeUnknown)
}

// pause waits; it says whether the time for new work is not over.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// insist calls f until it is answered for sure, or the time is over.
func insist(ctx context.Context, f func() error) error {
	for {
		err := f()
		if !passes(err) || !pause(ctx, 3*time.Millisecond) {
			return err
		}
	}
}

// client submits runs one after the other, and cancels one now and then.
func (m *model) client(ctx context.Context, n int) {
	for i := 0; pause(ctx, time.Duration(m.intN(30))*time.Millisecond); i++ {
		s := wire.Submit{
			Workflow: []string{"lim", "rate", "both", "pair", "free"}[m.intN(5)],
			Params:   json.RawMessage(fmt.Sprintf(`{"l":"l%d","r":"r%d"}`, m.intN(3), m.intN(2))),
		}
		if m.intN(3) == 0 {
			s.IdempotencyKey = new(fmt.Sprint("order", m.intN(40)))
		} else {
			s.RequestID = fmt.Sprint("c", n, "-", i)
		}
		var out wire.Submitted
		err := insist(ctx, func() error {
			all, errs := m.w.Submit(ctx, []wire.Submit{s})
			out = all[0]
			return errs[0]
		})
		if err != nil {
			if !passes(err) {
				m.mu.Lock()
				m.wrongf("a submit was refused: %v", err)
				m.mu.Unlock()
			}
			continue
		}
		m.submitted(s, out)
		if m.intN(8) == 0 {
			m.cancel(ctx, out.RunID)
		}
	}
}

// submitted notes an acknowledged submit.
func (m *model) submitted(s wire.Submit, out wire.Submitted) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known[out.RunID] = struct{}{}
	if s.IdempotencyKey == nil {
		return
	}
	if first, ok := m.names[*s.IdempotencyKey]; ok && first != out.RunID {
		m.wrongf("key %s named %s, and now %s", *s.IdempotencyKey, first, out.RunID)
	}
	m.names[*s.IdempotencyKey] = out.RunID
}

func (m *model) cancel(ctx context.Context, run string) {
	id := m.w.id(run)
	var out wire.Stopped
	err := insist(ctx, func() (err error) {
		if m.intN(2) == 0 {
			out, err = m.w.Cancel(ctx, id, "enough")
		} else {
			out, err = m.w.Terminate(ctx, id, "enough")
		}
		return err
	})
	if err == nil {
		m.ended(run, out.Status)
	}
}

// ended notes an acknowledged end.
func (m *model) ended(run, status string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, _ := flow.ParseStatus(status)
	if !s.Ended() {
		return
	}
	if was := m.acked[run]; was != "" && was != status {
		m.wrongf("run %s was %s, and now %s", run, was, status)
	}
	m.acked[run] = status
}

// worker claims and works until the time is over.
func (m *model) worker(ctx context.Context, name string, bodies *sync.WaitGroup) {
	for ctx.Err() == nil {
		out, err := m.w.Claim(ctx, wire.Claim{
			Worker: name, Workflows: serves(flowNames...), Credit: 1 + m.intN(4), WaitMS: int64(m.intN(100)),
		})
		if err != nil && !passes(err) && ctx.Err() == nil {
			m.mu.Lock()
			m.wrongf("a claim was refused: %v", err)
			m.mu.Unlock()
		}
		for _, g := range out.Runs {
			bodies.Go(func() { m.body(ctx, name, g) })
		}
		if len(out.Runs) == 0 {
			pause(ctx, 5*time.Millisecond)
		}
	}
}

// body works on a run as the rules for workers say: it starts with a confirmed
// heartbeat, and stops when none was confirmed for the time of the lease, counted from
// its sending.
func (m *model) body(ctx context.Context, name string, g wire.Grant) {
	until, ok := m.beat(ctx, name, g)
	if !ok || !m.enter(g) {
		return
	}
	end := m.w.now() + time.Duration(m.intN(1500))*time.Millisecond
	for m.w.now() < end {
		<-time.After(min(end-m.w.now(), lease/4))
		if next, ok := m.beat(ctx, name, g); ok {
			until = next
		}
		if m.w.now() >= until {
			m.leave(g)
			return
		}
	}
	m.leave(g)
	m.report(ctx, g)
}

// beat renews a lease; until when, it says.
func (m *model) beat(ctx context.Context, name string, g wire.Grant) (until time.Duration, ok bool) {
	sent := m.w.now()
	out, err := m.w.Heartbeat(ctx, wire.Heartbeat{Worker: name, Runs: []wire.Beat{{RunID: g.RunID, Fence: g.Fence}}})
	return sent + lease, err == nil && out.Runs[0].OK
}

// place names the key whose slots a run of a workflow takes.
func (m *model) place(g wire.Grant) (string, int) { return g.Workflow + "/" + g.Key, m.max[g.Workflow] }

func (m *model) enter(g wire.Grant) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.starts++
	if other := m.working[g.RunID]; other != 0 {
		m.wrongf("two bodies of run %s, with fences %d and %d", g.RunID, other, g.Fence)
	}
	// A terminated run keeps its hold: its holder may not have heard of it yet.
	if s := m.acked[g.RunID]; s != "" && s != "terminated" {
		m.wrongf("a body of run %s starts after it was acknowledged %s", g.RunID, s)
	}
	place, most := m.place(g)
	if m.inside[place]++; most > 0 && m.inside[place] > most {
		m.wrongf("%d bodies of %s at work, the limit is %d", m.inside[place], place, most)
	}
	m.working[g.RunID] = g.Fence
	return true
}

func (m *model) leave(g wire.Grant) {
	m.mu.Lock()
	defer m.mu.Unlock()
	place, _ := m.place(g)
	m.inside[place]--
	delete(m.working, g.RunID)
}

// report ends a run in one of the ways there are, or not at all.
func (m *model) report(ctx context.Context, g wire.Grant) {
	id := m.w.id(g.RunID)
	var status string
	err := insist(ctx, func() error {
		switch m.intN(8) {
		case 0:
			return nil // the worker dies
		case 1:
			out, err := m.w.Fail(ctx, id, wire.Fail{Fence: g.Fence, Error: wire.RunError{Type: "boom"}, Retryable: true})
			status = out.Status
			return err
		case 2:
			at := m.w.clock.Wall().Add(200 * flow.Millisecond).Millis()
			out, err := m.w.Suspend(ctx, id, wire.Suspend{Fence: g.Fence, Until: wire.Until{AtMS: &at}})
			status = out.Status
			return err
		default:
			out, errs := m.w.Complete(ctx, []wire.Completion{{RunID: g.RunID, Fence: g.Fence}})
			status = out[0].Status
			return errs[0]
		}
	})
	if err == nil {
		m.ended(g.RunID, status)
	}
}

// snapshots takes one now and then, so that shards come back from them and a tail. One
// whose shard is lost meanwhile is nobody's loss.
func (m *model) snapshots(ctx context.Context) {
	for pause(ctx, time.Duration(100+m.intN(400))*time.Millisecond) {
		s := m.intN(m.w.shards)
		err := m.w.spy.logs[s].Snapshot(ctx)
		m.mu.Lock()
		if err == nil {
			m.taken++
		} else if ctx.Err() == nil && !errors.Is(err, engine.ErrNotOwner) {
			m.wrongf("snapshot of shard %d: %v", s, err)
		}
		m.mu.Unlock()
	}
}

// shake commits all the time, steps the wall, and takes a shard away once in a while.
func (m *model) shake(ctx context.Context) {
	next := m.w.now() + time.Second
	for pause(ctx, 4*time.Millisecond) {
		if m.intN(8) != 0 {
			m.w.mem.CommitAll()
		}
		if m.intN(50) == 0 {
			m.w.clock.step(flow.Span(m.intN(600)-300) * flow.Millisecond)
		}
		if m.w.now() < next {
			continue
		}
		must(m.w, m.w.chaos.Demote(ctx, shardID(m.intN(m.w.shards)), m.intN(4)))
		pause(ctx, time.Duration(m.intN(30))*time.Millisecond)
		must(m.w, m.w.chaos.Settle(context.WithoutCancel(ctx)))
		next = m.w.now() + time.Duration(500+m.intN(4000))*time.Millisecond
	}
}

// drain works everything off, when nothing shakes the shards any more.
func (m *model) drain() {
	w := m.w
	for range 2000 {
		grants := await(w, w.claimingAs("last", wire.Claim{Workflows: serves(flowNames...), Credit: 50, WaitMS: 20}))
		for _, g := range grants {
			if m.enter(g) {
				m.leave(g)
			}
			m.ended(g.RunID, w.complete(g))
		}
		if len(grants) == 0 {
			w.pass(100 * time.Millisecond)
			if len(w.list(wire.ListQuery{Status: "queued"}))+len(w.list(wire.ListQuery{Status: "executing"}))+
				len(w.list(wire.ListQuery{Status: "suspended"})) == 0 {
				return
			}
		}
	}
	for _, r := range w.list(wire.ListQuery{Status: "queued"}) {
		w.Errorf("never drained: %s", w.whyText(w.id(r.RunID)))
	}
	w.Fatal("the node doesn't drain")
}

// TestModelOverChangingOwners fails when, while shards lose their ownership and the ends
// of their logs at random, more bodies of a key are at work than its limit, a run has
// two bodies, an acknowledged submit or end is lost, a run starts after its acknowledged
// end, starts exceed a rate, runs of a key start out of order, or the node doesn't drain.
func TestModelOverChangingOwners(t *testing.T) {
	for number := range uint64(modelTrials) {
		// What has ended leaves memory while the owners change, by age or by count.
		how := setup{shards: 3, chaos: &number, recentFor: 1500 * flow.Millisecond}
		if number/2%2 == 1 {
			how.recentFor, how.recentRuns = 0, 3
		}
		how.play(t, func(w *world) {
			m := &model{
				w: w, max: map[string]int{"lim": 2, "both": 1, "pair": 2}, rng: rand.New(rand.NewPCG(number, 5)),
				inside: map[string]int{}, working: map[string]uint64{}, acked: map[string]string{},
				known: map[string]struct{}{}, names: map[string]string{},
			}
			newTraffic(w, number)
			calm := number%2 == 1 // long enough between two losses for leases to expire
			ctx, cancel := context.WithTimeout(w.Context(), map[bool]time.Duration{true: 8 * time.Second, false: 4 * time.Second}[calm])
			defer cancel()
			var all, bodies sync.WaitGroup
			all.Go(func() {
				if calm {
					m.shake(ctx)
				} else {
					must(w, w.chaos.Run(ctx, 4*time.Millisecond))
				}
			})
			all.Go(func() { m.snapshots(ctx) })
			for i := range 3 {
				all.Go(func() { m.client(ctx, i) })
				all.Go(func() { m.worker(ctx, fmt.Sprint("w", i), &bodies) })
			}
			all.Wait()
			bodies.Wait()
			w.commit()
			must(w, w.chaos.Settle(w.Context()))
			expired := w.countAll(flow.RecExpired)
			if calm && expired == 0 {
				w.Error("no lease has expired")
			}
			m.drain()
			for run := range m.known {
				got := w.status(w.id(run)).Status
				if want := m.acked[run]; want != "" && got != want {
					m.wrongf("run %s was acknowledged %s and is %s", run, want, got)
				}
			}
			if m.starts < 50 || len(m.known) < 50 || len(m.acked) < 30 {
				w.Errorf("only %d bodies started, %d submits and %d ends were acknowledged", m.starts, len(m.known), len(m.acked))
			}
			if m.taken == 0 {
				w.Error("no snapshot was taken")
			}
			for _, p := range m.problems {
				w.Errorf("number %d: %s", number, p)
			}
			w.pass(2 * time.Second)
			if n, lent := actors.Undelivered(w.Node), lentUnits(w); n != 0 || lent != 0 {
				w.Errorf("at rest %d letters are on their way and %d units of credit are lent", n, lent)
			}
			for _, key := range []string{"r0", "r1"} {
				if v := w.key("pair", key); v.Queued != 0 {
					w.Errorf("at rest %d wants stand at key %s", v.Queued, key)
				}
			}
			if _, archived := w.whereabouts(); archived < 10 || w.countAll(flow.RecKeyArchived) == 0 {
				w.Errorf("only %d runs are in the archive, and %d keys have left memory", archived, w.countAll(flow.RecKeyArchived))
			}
			w.lawfulLog()
			for key, at := range w.tokens() {
				within(w, at, 20, map[string]float64{"rate": 2, "both": 1, "pair": 2}[key.Workflow])
			}
			w.sameAsReplay(w.moment())
		})
	}
}

// lawfulLog fails when a run was admitted before an older one of its key that waited, or
// more runs of a key held slots than its limit. What the log says is what happened.
func (w *world) lawfulLog() {
	w.Helper()
	type line struct {
		waiting map[flow.RunID]flow.Instant
		holding map[flow.RunID]bool
	}
	for s := range w.shards {
		all, _ := w.entries(shardID(s))
		runs, lines := map[flow.RunID]*flow.Record{}, map[flow.KeyID]*line{}
		for i := range all {
			for j := range all[i].records {
				r := &all[i].records[j]
				if r.Kind == flow.RecSubmitted {
					runs[r.Run] = r
				}
				first := runs[r.Run]
				if first == nil || r.Kind >= flow.RecAsked {
					continue
				}
				home := first.Stamp.Home(first.Workflow)
				l := lines[home]
				if l == nil {
					l = &line{map[flow.RunID]flow.Instant{}, map[flow.RunID]bool{}}
					lines[home] = l
				}
				switch r.Kind {
				case flow.RecSubmitted, flow.RecWoken, flow.RecExpired:
					l.waiting[r.Run] = first.Order
					delete(l.holding, r.Run)
				case flow.RecAdmitted:
					for other, order := range l.waiting {
						// Who waits for a token of another key may be passed (P62).
						_, one := first.Stamp.Remote(first.Workflow)
						_, two := runs[other].Stamp.Remote(first.Workflow)
						if order < first.Order && !one && !two {
							w.Errorf("run %s was admitted before %s of the same key", r.Run, other)
						}
					}
					delete(l.waiting, r.Run)
					l.holding[r.Run] = first.Stamp.Limit() != nil
					if g := first.Stamp.Limit(); g != nil && slots(l.holding) > g.Max {
						w.Errorf("entry %d: %d runs of %s hold slots, the limit is %d", all[i].Pos, slots(l.holding), home, g.Max)
					}
				case flow.RecTerminated:
					delete(l.waiting, r.Run)
					if r.Fence == 0 {
						delete(l.holding, r.Run)
					}
				case flow.RecCancelAsked:
				default:
					delete(l.waiting, r.Run)
					delete(l.holding, r.Run)
				}
			}
		}
	}
}

// slots is how many of the holders have a limit.
func slots(holding map[flow.RunID]bool) (n int64) {
	for _, limited := range holding {
		if limited {
			n++
		}
	}
	return n
}
