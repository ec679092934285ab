package runactor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/flow"
)

// town hosts several runs as shards do, and carries what they send each other: the letters
// of one run to another in order and each once, those of two pairs in any order. A run
// that was handed on passes its letters on; one that is in the archive, or never was, is
// answered for.
type town struct {
	t       failer
	now     flow.Instant
	runs    map[flow.RunID]*world
	archive map[flow.RunID]*world
	mail    []envelope
	sent    int // outcomes that were sent so far
}

// envelope is a letter under way.
type envelope struct {
	from, to flow.RunID
	in       flow.Input
}

func newTown(t failer) *town {
	return &town{t: t, now: epoch, runs: make(map[flow.RunID]*world), archive: make(map[flow.RunID]*world)}
}

// run makes the test's run of that number, queued.
func (c *town) run(n byte) *world {
	c.t.Helper()
	w := c.at(newWorldOf(c.t, testID(n)))
	c.runs[testID(n)] = w
	w.submit()
	return w
}

// at is a world in the town's time.
func (c *town) at(w *world) *world {
	w.now = max(w.now, c.now)
	return w
}

// of is the test's run of that number as it is in memory, or nil.
func (c *town) of(n byte) *world { return c.runs[testID(n)] }

// do is one turn of the test's run of that number, with the letters that it sends.
func (c *town) do(n byte, turn func(*world)) {
	c.t.Helper()
	w := c.at(c.of(n))
	w.out.Reset()
	turn(w)
	c.post(w)
}

func (c *town) post(w *world) {
	for _, in := range w.letters() {
		c.mail = append(c.mail, envelope{w.run.ID(), in.Run, in})
		if in.Kind == flow.InOutcome {
			c.sent++
		}
	}
	w.out.Reset()
}

// last is the end of an id's chain, as far as it is in memory (P32).
func (c *town) last(n byte) *world {
	w := c.of(n)
	for w != nil {
		next := c.runs[w.run.Successor()]
		if next == nil {
			break
		}
		w = next
	}
	return w
}

// ask sends a client's request along an id's chain, as a letter where the chain goes on
// to a run that isn't there yet.
func (c *town) ask(n byte, k flow.InputKind, f flow.Fields) {
	c.t.Helper()
	w := c.at(c.last(n))
	if next := w.run.Successor(); !next.IsZero() {
		f.Run = next
		c.mail = append(c.mail, envelope{w.run.ID(), next, flow.Input{Kind: k, Fields: f}})
		return
	}
	w.step(k, f)
	c.post(w)
}

// ready are the places in the mail of the letters that may be next.
func (c *town) ready() []int {
	var first []int
	for i, e := range c.mail {
		before := slices.ContainsFunc(c.mail[:i], func(b envelope) bool { return b.from == e.from && b.to == e.to })
		if !before {
			first = append(first, i)
		}
	}
	return first
}

// deliver does what the letter at a place of the mail says.
func (c *town) deliver(i int) {
	c.t.Helper()
	e := c.mail[i]
	c.mail = slices.Delete(slices.Clone(c.mail), i, i+1)
	w := c.runs[e.to]
	switch {
	case w == nil && e.in.Kind == flow.InCreate:
		w = newWorldOf(c.t, e.to)
		c.runs[e.to] = c.at(w)
		if e.in.Kind = flow.InSubmit; e.in.Order == 0 {
			e.in.Order = c.now
		}
	case w == nil:
		c.absent(e)
		return
	case !w.run.Successor().IsZero() && e.in.Kind != flow.InChainOver:
		c.pass(e, w.run.Successor())
		return
	}
	c.at(w).send(&e.in)
	if w.out.Err != nil {
		c.t.Fatalf("run %v refused the letter %v: %v", e.to, e.in.Kind, w.out.Err)
	}
	c.post(w)
}

func (c *town) pass(e envelope, to flow.RunID) {
	e.in.Run = to
	c.mail = append(c.mail, envelope{e.to, to, e.in})
}

// absent answers a letter to a run that isn't in memory.
func (c *town) absent(e envelope) {
	c.t.Helper()
	if e.in.Kind != flow.InWatch {
		return
	}
	w := c.archive[e.to]
	switch {
	case w == nil:
		f := flow.Fields{Run: e.in.Other, Root: e.in.Root, Number: e.in.Number}
		c.mail = append(c.mail, envelope{e.to, f.Run, flow.Input{Kind: flow.InOutcome, Fields: f}})
	case !w.run.Successor().IsZero():
		c.pass(e, w.run.Successor())
	default:
		c.at(w).send(&e.in)
		if len(w.out.Records) > 0 {
			c.t.Fatalf("a run in the archive writes %v", w.kinds())
		}
		c.post(w)
	}
}

// settle delivers everything that is under way, in the order in which it was sent.
func (c *town) settle() {
	c.t.Helper()
	for len(c.mail) > 0 {
		c.deliver(0)
	}
}

// crash makes every run anew out of its log; the letters are in the outbox.
func (c *town) crash() {
	for _, w := range c.runs {
		c.at(w).restart()
	}
}

// event is something that happens once in a scenario, as soon as it may.
type event struct {
	name  string
	ready func() bool // nil: at any time
	do    func()
}

// play lets the events and the letters happen in the order that p picks.
func (c *town) play(p *picker, events ...event) {
	c.t.Helper()
	left := slices.Clone(events)
	for {
		var names []string
		var steps []func()
		for i, e := range left {
			if e.ready == nil || e.ready() {
				names = append(names, e.name)
				steps = append(steps, func() {
					left = slices.Delete(slices.Clone(left), i, i+1)
					e.do()
				})
			}
		}
		for _, i := range c.ready() {
			names = append(names, fmt.Sprintf("%v to %d", c.mail[i].in.Kind, c.mail[i].to[15]))
			steps = append(steps, func() { c.deliver(i) })
		}
		if len(steps) == 0 {
			break
		}
		steps[p.pick(names)]()
	}
	if len(left) > 0 {
		c.t.Fatalf("%d events couldn't happen, the first: %s", len(left), left[0].name)
	}
}

// picker walks through all the ways that a scenario can go.
type picker struct {
	*testing.T
	choices []choice
	depth   int
}

type choice struct {
	names []string
	taken int
}

// everyOrder plays a scenario in every order, each from the start.
func everyOrder(t *testing.T, scenario func(p *picker)) {
	t.Helper()
	p := &picker{T: t}
	for orders := 1; ; orders++ {
		p.depth = 0
		scenario(p)
		p.choices = p.choices[:p.depth]
		for len(p.choices) > 0 && p.choices[len(p.choices)-1].taken == len(p.choices[len(p.choices)-1].names)-1 {
			p.choices = p.choices[:len(p.choices)-1]
		}
		if len(p.choices) == 0 {
			t.Logf("%d orders", orders)
			return
		}
		p.choices[len(p.choices)-1].taken++
	}
}

// pick is one of the things that may happen next, by its place.
func (p *picker) pick(names []string) int {
	if p.depth == len(p.choices) {
		p.choices = append(p.choices, choice{names: names})
	}
	c := p.choices[p.depth]
	if !slices.Equal(c.names, names) {
		p.T.Fatalf("the scenario isn't deterministic: %v, then %v", c.names, names)
	}
	p.depth++
	return c.taken
}

// Fatalf ends the test and says in which order it all happened.
func (p *picker) Fatalf(format string, args ...any) {
	p.Helper()
	var order []string
	for _, c := range p.choices[:p.depth] {
		order = append(order, c.names[c.taken])
	}
	p.T.Fatalf("%s\nin the order: %s", fmt.Sprintf(format, args...), strings.Join(order, "; "))
}
