package pyrula_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

// plan is a body at random: its operations in order, as the parameters of its run.
type plan struct {
	Key string `json:"key"`
	Ops []act  `json:"ops"`
}

// act is one thing that a body does. What is no operation, it does to the body itself.
type act struct {
	Kind  string `json:"kind"` // step, sleep, signal, child, children, error, panic, fail
	Name  string `json:"name,omitempty"`
	Visit int    `json:"visit,omitempty"` // of a step
	MS    int    `json:"ms,omitempty"`    // how long a step works, a sleep lasts, a wait is patient
	Fails int    `json:"fails,omitempty"` // how often a step or the body fails first
	Pad   int    `json:"pad,omitempty"`   // a step's result is that much longer, so that a grant can't carry all of a history
	Runs  []plan `json:"runs,omitempty"`
}

// place is an operation of a run: its name and visit, or its number in the body.
type place struct {
	run  string
	what string
}

// ledger is what a witness outside of the node and the workers has seen.
type ledger struct {
	*ground

	mu       sync.Mutex
	recorded map[place]bool   // steps that the node has acknowledged
	calls    map[place]int    // of functions and of accidents
	seen     map[place]string // outcomes that can't change any more
	working  map[string]*line // who works on a key
	bodies   int
}

func newLedger(g *ground) *ledger {
	l := &ledger{ground: g, recorded: map[place]bool{}, calls: map[place]int{}, seen: map[place]string{}, working: map[string]*line{}}
	g.observe = l.answered
	return l
}

// answered notes the steps that the node has just acknowledged.
func (l *ledger) answered(c call, status int) {
	id, isSteps := strings.CutSuffix(strings.TrimPrefix(c.path, wire.PathRuns+"/"), "/steps")
	if !isSteps || c.method != "POST" || status != 200 {
		return
	}
	var body wire.Steps
	if err := json.Unmarshal(c.body, &body); err != nil {
		l.brokenf("steps: %v", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range body.Steps {
		l.recorded[place{id, fmt.Sprint(s.Name, "/", s.Visit)}] = true
	}
}

// call counts a call of a step's function, which must not come when the step is recorded.
func (l *ledger) call(p place) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[p]++
	if l.recorded[p] {
		l.brokenf("%v is recorded, and its function is called again", p)
	}
	return l.calls[p]
}

// accident says whether the n-th time of something is to go wrong.
func (l *ledger) accident(p place, times int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[p]++
	return l.calls[p] <= times
}

// settle notes an outcome that stands; a later run of the body must see the same.
func (l *ledger) settle(p place, outcome string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, known := l.seen[p]; known && before != outcome {
		l.brokenf("%v was %q and is %q now", p, before, outcome)
	}
	l.seen[p] = outcome
}

// begin notes that a worker's body works on a key, which no other may do.
func (l *ledger) begin(key string, w *line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bodies++
	if other := l.working[key]; other != nil && !other.isDead() {
		l.brokenf("two bodies of key %s at once", key)
	}
	l.working[key] = w
}

func (l *ledger) end(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.working[key] = nil
}

// player plays plans.
type player struct {
	*ledger
	wf *pyrula.Workflow[plan, []string]
}

func newPlayer(l *ledger) *player {
	p := &player{ledger: l}
	p.wf = pyrula.Define("player", p.play, pyrula.Limit{Key: "key", Max: 1}, pyrula.Lease(5*time.Second),
		pyrula.MaxAttempts(1000), pyrula.RetryBackoff(300*time.Millisecond))
	return p
}

// play is the body. A process that has died does nothing more: its goroutine ends.
func (p *player) play(r *pyrula.Run, in plan) ([]string, error) {
	w := r.Value(lineKey{}).(*line)
	if w.isDead() {
		runtime.Goexit()
	}
	p.begin(in.Key, w)
	defer func() {
		if !w.isDead() {
			p.end(in.Key)
		}
	}()
	var outcomes []string
	open := func() {} // settles a failure, which stands when the body has gone on to another operation
	for i, a := range in.Ops {
		here := place{r.ID, fmt.Sprint("act ", i)}
		outcome, failed, err := p.act(r, w, here, a)
		if w.isDead() {
			runtime.Goexit()
		}
		if err != nil {
			return nil, err
		}
		if a.Kind != "error" && a.Kind != "panic" {
			open()
			open = func() {}
		}
		if failed {
			open = func() { p.settle(here, outcome) }
		} else {
			p.settle(here, outcome)
		}
		outcomes = append(outcomes, outcome)
	}
	return outcomes, nil
}

// act does one thing. A failure that the body passes over is an outcome; an error ends
// the body.
func (p *player) act(r *pyrula.Run, w *line, here place, a act) (outcome string, failed bool, err error) {
	if r.Err() != nil {
		return "", false, context.Cause(r)
	}
	switch a.Kind {
	case "step":
		got, err := pyrula.Step(r, a.Name, func(ctx context.Context) (string, error) { return p.work(ctx, w, r.ID, a) })
		if err != nil && r.Err() == nil {
			if !strings.Contains(err.Error(), "fails in call") {
				p.brokenf("%v: %v", here, err)
			}
			return "failed: " + err.Error(), true, nil
		}
		return strings.TrimRight(got, "."), false, err
	case "sleep":
		return "slept", false, r.Sleep(time.Duration(a.MS) * time.Millisecond)
	case "signal":
		s, err := r.WaitSignal(a.Name, time.Duration(a.MS)*time.Millisecond)
		if errors.Is(err, pyrula.ErrSignalTimeout) {
			return "no signal", false, nil
		}
		return string(s.Payload), false, err
	case "child":
		got, err := p.wf.RunChild(r, a.Runs[0])
		return childOutcome(r, got, err)
	case "children":
		return p.family(r, a)
	case "error":
		if p.accident(here, a.Fails) {
			return "", false, errors.New("an accident")
		}
	case "panic":
		if p.accident(here, a.Fails) {
			panic("an accident")
		}
	case "fail":
		return "", false, pyrula.Permanent(errors.New("as planned"))
	}
	return "nothing", false, nil
}

// work is the function of a step.
func (p *player) work(ctx context.Context, w *line, run string, a act) (string, error) {
	if w.isDead() {
		runtime.Goexit()
	}
	n := p.call(place{run, fmt.Sprint(a.Name, "/", a.Visit)})
	select {
	case <-time.After(time.Duration(a.MS) * time.Millisecond):
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if w.isDead() {
		runtime.Goexit()
	}
	if n <= a.Fails {
		return "", fmt.Errorf("%s fails in call %d", a.Name, n)
	}
	return fmt.Sprintf("%s of call %d", a.Name, n) + strings.Repeat(".", a.Pad), nil
}

func childOutcome(r *pyrula.Run, got []string, err error) (string, bool, error) {
	if failed, ok := errors.AsType[*pyrula.RunFailed](err); ok {
		return "child failed: " + failed.Type + " " + failed.Message, false, nil
	}
	return strings.Join(got, ","), false, err
}

func (p *player) family(r *pyrula.Run, a act) (string, bool, error) {
	var ids, outcomes []string
	var children []*pyrula.Child[[]string]
	for _, in := range a.Runs {
		c, err := p.wf.StartChild(r, in)
		if err != nil {
			return "", false, err
		}
		ids, children = append(ids, c.ID), append(children, c)
	}
	if _, err := r.WaitRuns(ids...); err != nil {
		return "", false, err
	}
	for _, c := range children {
		got, err := c.Result(r)
		outcome, _, err := childOutcome(r, got, err)
		if err != nil {
			return "", false, err
		}
		outcomes = append(outcomes, outcome)
	}
	return strings.Join(outcomes, ";"), false, nil
}

// message is a signal that is sent some time after the submit.
type message struct {
	after time.Duration
	name  string
}

// tale is one case: what runs do, what is sent to them, and what goes wrong.
type tale struct {
	roots    []plan
	messages []message // to each root
	fates    []map[int]fate
	drains   []time.Duration
}

func drawPlan(rt *rapid.T, depth int) plan {
	kinds := []string{"step", "step", "step", "sleep", "signal", "error", "panic"}
	if depth > 0 {
		kinds = append(kinds, "child", "children")
	} else {
		kinds = append(kinds, "fail")
	}
	in := plan{Key: rapid.SampledFrom([]string{"k", "l"}).Draw(rt, "key")}
	visits := map[string]int{}
	for range rapid.IntRange(1, 5).Draw(rt, "ops") {
		a := act{Kind: rapid.SampledFrom(kinds).Draw(rt, "kind")}
		switch a.Kind {
		case "step":
			a.Name = rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "name")
			a.MS = rapid.SampledFrom([]int{0, 10, 3000}).Draw(rt, "ms")
			a.Fails = rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(rt, "fails")
			a.Pad = rapid.SampledFrom([]int{0, 0, 0, 300_000}).Draw(rt, "pad")
			visits[a.Name]++
			a.Visit = visits[a.Name]
		case "sleep":
			a.MS = rapid.SampledFrom([]int{-5, 0, 1, 20_000}).Draw(rt, "ms")
		case "signal":
			a.Name = rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "name")
			a.MS = rapid.SampledFrom([]int{-1, 1, 5_000}).Draw(rt, "ms")
		case "error", "panic":
			a.Fails = rapid.IntRange(1, 2).Draw(rt, "fails")
		case "child":
			a.Runs = []plan{drawPlan(rt, depth-1)}
		case "children":
			for range rapid.IntRange(1, 3).Draw(rt, "runs") {
				a.Runs = append(a.Runs, drawPlan(rt, depth-1))
			}
		}
		in.Ops = append(in.Ops, a)
	}
	return in
}

func drawTale(rt *rapid.T) tale {
	var s tale
	for range rapid.IntRange(1, 3).Draw(rt, "roots") {
		s.roots = append(s.roots, drawPlan(rt, 1))
	}
	for range rapid.IntRange(0, 6).Draw(rt, "messages") {
		s.messages = append(s.messages, message{
			after: time.Duration(rapid.IntRange(0, 8000).Draw(rt, "after")) * time.Millisecond,
			name:  rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "name"),
		})
	}
	for range 6 {
		fates := map[int]fate{}
		for range rapid.IntRange(0, 6).Draw(rt, "fates") {
			fates[rapid.IntRange(2, 50).Draw(rt, "request")] = fate(rapid.IntRange(1, int(fateCount)-1).Draw(rt, "fate"))
		}
		s.fates = append(s.fates, fates)
	}
	for range rapid.IntRange(0, 2).Draw(rt, "drains") {
		s.drains = append(s.drains, time.Duration(rapid.IntRange(1, 20_000).Draw(rt, "drain"))*time.Millisecond)
	}
	return s
}

// play runs a tale in a bubble of virtual time, and gives back what was broken.
func (s *tale) play(t *testing.T) (problems []string, bodies int) {
	synctest.Test(t, func(t *testing.T) {
		g := newGround(t)
		l := newLedger(g)
		p := newPlayer(l)
		crew := newCrew(g, s.fates, p.wf)
		crew.start()
		crew.start()
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		client, err := (&line{g: g}).dial(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var runs sync.WaitGroup
		for _, in := range s.roots {
			runs.Go(func() { s.follow(ctx, client, p, in) })
		}
		runs.Go(func() {
			for _, after := range s.drains {
				<-time.After(after)
				if w := crew.any(); w != nil {
					crew.replace(w)
				}
			}
		})
		runs.Wait()
		crew.end()
		cancel()
		problems = g.end()
		l.mu.Lock()
		bodies = l.bodies
		l.mu.Unlock()
	})
	return problems, bodies
}

// follow submits a run, sends it its messages, and looks at its end.
func (s *tale) follow(ctx context.Context, c *pyrula.Client, p *player, in plan) {
	h, err := p.wf.Start(ctx, c, in)
	if err != nil {
		p.brokenf("start: %v", err)
		return
	}
	var sent sync.WaitGroup
	for i, m := range s.messages {
		sent.Go(func() {
			<-time.After(m.after)
			if _, err := h.Signal(ctx, m.name, i); err != nil && !errors.Is(err, pyrula.ErrRunEnded) {
				p.brokenf("signal: %v", err)
			}
		})
	}
	got, err := h.Result(ctx)
	if err != nil {
		p.brokenf("run %s: %v", h.ID, err)
	}
	p.compare(h.ID, in, got)
	sent.Wait()
}

// compare wants the result of a run to be what its bodies have seen, and each wait for a
// signal to have got another one.
func (p *player) compare(run string, in plan, got []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	signals := map[string]bool{}
	for i, outcome := range got {
		if seen, settled := p.seen[place{run, fmt.Sprint("act ", i)}]; settled && seen != outcome {
			p.brokenf("act %d of run %s was %q and the result has %q", i, run, seen, outcome)
		}
		if in.Ops[i].Kind != "signal" || outcome == "no signal" {
			continue
		}
		one := in.Ops[i].Name + " " + outcome
		if signals[one] {
			p.brokenf("signal %s was delivered twice to run %s", one, run)
		}
		signals[one] = true
	}
}

// TestP54_P51_R15BodiesSurvive plays random bodies against a real node, over lines that lose
// requests and answers, with workers that die and drain between any two requests, and with
// a node that dies and comes back. Every run ends; a step that the node has acknowledged is
// never run again; every run of a body sees what the ones before have seen; no signal comes
// twice; and no two bodies of a key with a Limit of 1, parents and children among them,
// work at once.
func TestP54_P51_R15BodiesSurvive(t *testing.T) {
	total := 0
	rapid.Check(t, func(rt *rapid.T) {
		s := drawTale(rt)
		problems, bodies := s.play(t)
		total += bodies
		if len(problems) > 0 {
			rt.Fatalf("%s", strings.Join(problems[:min(len(problems), 10)], "\n"))
		}
	})
	if total == 0 {
		t.Error("no body was run")
	}
}
