package inline_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/pyrula"
)

func shardID(i int) engine.ShardID { return engine.ShardID(i) }

// begun is one start of a body.
type begun struct {
	run   string
	key   string
	fence uint64
	at    time.Time
}

// crew is a workflow whose bodies are in the test's hands: each notes its start, and
// works until it is told to end.
type crew struct {
	name string
	wf   *pyrula.Workflow[item, string]
	auto atomic.Bool // bodies end at once
	// first is what a body does before it waits for a word, if that is set.
	first func(r *pyrula.Run, in item) error

	mu   sync.Mutex // guards what follows
	log  []begun
	held map[string]chan error
}

func newCrew(name string, policies ...pyrula.Policy) *crew {
	c := &crew{name: name, held: map[string]chan error{}}
	c.wf = pyrula.Define(name, func(r *pyrula.Run, in item) (string, error) {
		word := make(chan error, 1)
		c.mu.Lock()
		c.log = append(c.log, begun{run: r.ID, key: in.Key, fence: r.Fence, at: time.Now()})
		c.held[r.ID] = word
		c.mu.Unlock()
		if c.first != nil {
			if err := c.first(r, in); err != nil {
				return "", err
			}
		}
		if c.auto.Load() {
			return "done", nil
		}
		select {
		case err := <-word:
			return "done", err
		case <-r.Done():
			return "", context.Cause(r)
		}
	}, policies...)
	return c
}

// quick is a crew whose bodies end at once.
func quick(name string, policies ...pyrula.Policy) *crew {
	c := newCrew(name, policies...)
	c.auto.Store(true)
	return c
}

// begun are the starts since the last call, in order: of those in one instant the one
// that was admitted first, which its fence tells within a key.
func (s *stage) begun(c *crew) []begun {
	s.settle()
	c.mu.Lock()
	defer c.mu.Unlock()
	log := c.log
	c.log = nil
	slices.SortStableFunc(log, func(a, b begun) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.fence, b.fence)) })
	return log
}

// started fails unless exactly these runs have started since the last look, in this
// order.
func (s *stage) started(c *crew, want ...string) {
	s.Helper()
	if got := ids(s.begun(c)); !slices.Equal(got, want) {
		s.Errorf("%q have started by %v, want %q", got, s.at(), want)
	}
}

func ids(log []begun) []string {
	all := make([]string, len(log))
	for i := range log {
		all[i] = log[i].run
	}
	return all
}

// submit makes a run with a key.
func (s *stage) submit(c *crew, key string) string { return s.submitItem(c, item{Key: key}) }

func (s *stage) submitItem(c *crew, in item) string {
	s.Helper()
	h, err := c.wf.Start(context.Background(), s.client, in)
	s.must(err)
	return h.ID
}

// submitAll makes n runs with a key, in order.
func (s *stage) submitAll(c *crew, n int, key string) (runs []string) {
	s.Helper()
	for len(runs) < n {
		batch := make([]pyrula.Submission, min(n-len(runs), wire.MaxBatch))
		for i := range batch {
			var err error
			batch[i], err = c.wf.Submission(item{Key: key, N: len(runs) + i})
			s.must(err)
		}
		done, err := s.client.SubmitBatch(context.Background(), batch)
		s.must(err)
		for _, one := range done {
			s.must(one.Err)
			runs = append(runs, one.RunID)
		}
	}
	return runs
}

// end lets a run's body return.
func (s *stage) end(c *crew, run string) { s.fail(c, run, nil) }

// fail lets a run's body return with an error.
func (s *stage) fail(c *crew, run string, err error) {
	s.Helper()
	s.settle()
	c.mu.Lock()
	word := c.held[run]
	delete(c.held, run)
	c.mu.Unlock()
	if word == nil {
		s.Fatalf("no body of run %s is at work: %+v", run, s.status(run).Wait)
	}
	word <- err
	s.settle()
}

// What follows speaks the API by hand: a worker that may be silent, late or mad.

// declare declares a workflow from its JSON.
func (s *stage) declare(name, declaration string) {
	s.Helper()
	var d wire.Declaration
	s.must(json.Unmarshal([]byte(declaration), &d))
	_, err := s.client.DeclareWire(context.Background(), name, d)
	s.must(err)
}

// send submits a run by name with params as JSON.
func (s *stage) send(workflow, params string) string {
	s.Helper()
	done, err := s.client.Submit(context.Background(), workflow, json.RawMessage(params))
	s.must(err)
	return done.RunID
}

// sendAll is send, n times.
func (s *stage) sendAll(n int, workflow, params string) (runs []string) {
	s.Helper()
	for range n {
		runs = append(runs, s.send(workflow, params))
	}
	return runs
}

// asks is a claim of one workflow's version.
type asks struct {
	worker   string
	workflow string
	version  string
	credit   int
	wait     time.Duration
}

// claiming sends a claim and doesn't wait for its answer.
func (s *stage) claiming(a asks) *answer[wire.Claimed] {
	body := wire.Claim{
		Worker: cmp.Or(a.worker, "w1"), Credit: a.credit, WaitMS: a.wait.Milliseconds(),
		Workflows: []wire.ClaimWorkflow{{Name: cmp.Or(a.workflow, "sync"), Version: cmp.Or(a.version, "1")}},
	}
	return ask(func() (out wire.Claimed, err error) { return out, s.post(wire.PathClaims, body, &out) })
}

// claim claims without waiting.
func (s *stage) claim(a asks) []wire.Grant {
	s.Helper()
	return s.claiming(a).get(s).Runs
}

// grant claims one run and fails unless it is this one.
func (s *stage) grant(run string) wire.Grant {
	s.Helper()
	got := s.claim(asks{credit: 1})
	s.granted(got, run)
	return got[0]
}

// granted fails unless these are the runs, in this order.
func (s *stage) granted(got []wire.Grant, want ...string) {
	s.Helper()
	if names := namesOf(got); !slices.Equal(names, want) {
		s.Fatalf("granted %q at %v, want %q", names, s.at(), want)
	}
}

func namesOf(grants []wire.Grant) []string {
	all := make([]string, len(grants))
	for i := range grants {
		all[i] = grants[i].RunID
	}
	return all
}

// completing, failing, beating and suspending send a holder's messages.
func (s *stage) completing(g wire.Grant) *answer[wire.Ended] {
	return s.ending(g, "complete", wire.Complete{Fence: g.Fence, Result: json.RawMessage(`"done"`)})
}

func (s *stage) failing(g wire.Grant) *answer[wire.Ended] {
	return s.ending(g, "fail", wire.Fail{Fence: g.Fence, Error: wire.RunError{Type: "boom"}, Retryable: true})
}

func (s *stage) suspending(g wire.Grant) *answer[wire.Ended] {
	return s.ending(g, "suspend", wire.Suspend{Fence: g.Fence, Until: wire.Until{AtMS: new(int64(0))}})
}

func (s *stage) ending(g wire.Grant, verb string, body any) *answer[wire.Ended] {
	return ask(func() (out wire.Ended, err error) { return out, s.post(wire.PathRuns+"/"+g.RunID+"/"+verb, body, &out) })
}

func (s *stage) beating(g wire.Grant) *answer[wire.BeatResult] {
	body := wire.Heartbeat{Worker: "w1", Runs: []wire.Beat{{RunID: g.RunID, Fence: g.Fence}}}
	return ask(func() (wire.BeatResult, error) {
		var out wire.HeartbeatResult
		err := s.post(wire.PathHeartbeats, body, &out)
		if err != nil || len(out.Runs) != 1 {
			return wire.BeatResult{}, err
		}
		return out.Runs[0], nil
	})
}

// complete ends a grant.
func (s *stage) complete(g wire.Grant) {
	s.Helper()
	if got := s.completing(g).get(s); got.Status != "completed" {
		s.Errorf("run %s is %s after its completion", g.RunID, got.Status)
	}
}

// beat renews a lease.
func (s *stage) beat(g wire.Grant) wire.BeatResult {
	s.Helper()
	return s.beating(g).get(s)
}

// answer is what a request in the background is answered with.
type answer[T any] struct {
	done  chan struct{}
	value T
	err   error
}

func ask[T any](f func() (T, error)) *answer[T] {
	a := &answer[T]{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.value, a.err = f()
	}()
	return a
}

// get waits for the answer and fails for an error.
func (a *answer[T]) get(s *stage) T {
	s.Helper()
	<-a.done
	s.must(a.err)
	return a.value
}

// refused waits and fails unless the request was refused with the code.
func (a *answer[T]) refused(s *stage, code string) {
	s.Helper()
	<-a.done
	if p := problemOf(a.err); p == nil || p.Code != code {
		s.Errorf("answered %+v, %v; want %s", a.value, a.err, code)
	}
}

func problemOf(err error) *wire.Problem {
	p, _ := errors.AsType[*wire.Problem](err)
	return p
}
