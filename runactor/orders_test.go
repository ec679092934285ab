package runactor

import (
	"slices"
	"testing"

	"github.com/pyrula/pyrula-node/flow"
)

// The test's runs in scenarios of several.
const (
	parent  = 5
	child   = 6
	sibling = 7
	grown   = 8 // started by the parent, and on its own
)

// waiting is a town in which the parent is about to wait for the child, which executes.
func waiting(p *picker) *town {
	c := newTown(p)
	c.run(parent).hold(1)
	c.run(child).hold(1)
	return c
}

func (c *town) suspendsOn(name string, runs ...byte) event {
	return event{name: name, do: func() { c.do(parent, func(w *world) { w.waitRuns(1, runs...) }) }}
}

func (c *town) ends(name string, n byte, fence uint64, result string) event {
	return event{name: name, do: func() {
		c.do(n, func(w *world) { w.step(flow.InComplete, flow.Fields{Fence: fence, Payload: []byte(result)}) })
	}}
}

// wrote counts the records of a kind in a run's log.
func (w *world) wrote(k flow.RecordKind) int {
	n := 0
	for i := range w.log {
		if w.log[i].record(w.t).Kind == k {
			n++
		}
	}
	return n
}

// wantWoken holds that the parent was woken once and has these outcomes.
func (c *town) wantWoken(want ...Outcome) {
	c.t.Helper()
	w := c.of(parent)
	if w.run.Status() != flow.StatusQueued || w.wrote(flow.RecWoken) != 1 {
		c.t.Fatalf("the parent is %v and woke %d times", w.run.Status(), w.wrote(flow.RecWoken))
	}
	items, _ := w.run.History(0, flow.MaxHistoryBytes)
	it := items[len(items)-1]
	if it.Kind != ItemRuns || !slices.EqualFunc(it.Outcomes, want, sameOutcome) {
		c.t.Fatalf("the parent has %+v, want %+v", it, want)
	}
	for id, w := range c.runs {
		if due, ok := w.run.Due(); ok && !w.run.Held() {
			c.t.Fatalf("run %d has something due at %d", id[15], due.At)
		}
		if w.run.Status().Ended() && !w.run.Over() {
			c.t.Fatalf("run %d is %v and not over", id[15], w.run.Status())
		}
	}
}

// Fails when a parent isn't woken once with its child's end, in whatever order the end, the
// wait, the letters between them and a crash come; however the child ends (S96).
func TestS96R15EveryOrderWakesTheParent(t *testing.T) {
	for name, c := range map[string]struct {
		end  flow.InputKind
		f    flow.Fields
		want Outcome
	}{
		"completed":  {flow.InComplete, flow.Fields{Fence: 1, Payload: []byte("r")}, Outcome{Status: flow.StatusCompleted, Payload: []byte("r")}},
		"failed":     {flow.InFail, flow.Fields{Fence: 1, ErrType: "E", ErrText: "boom"}, Outcome{Status: flow.StatusFailed, ErrType: "E", ErrText: "boom"}},
		"terminated": {flow.InTerminate, flow.Fields{Reason: "enough"}, Outcome{Status: flow.StatusTerminated}},
	} {
		t.Run(name, func(t *testing.T) {
			everyOrder(t, func(p *picker) {
				town := waiting(p)
				town.play(p,
					town.suspendsOn("suspend", child),
					event{name: "end", do: func() { town.do(child, func(w *world) { w.step(c.end, c.f) }) }},
					event{name: "crash", do: town.crash},
				)
				if w := town.of(child); w.run.Held() { // terminated: its holder has still to go
					town.do(child, func(w *world) { ended(w, flow.InComplete, 1) })
				}
				town.wantWoken(c.want)
			})
		})
	}
}

// Fails when a parent hangs on a child that was cancelled in the queue, has ended long ago,
// is in the archive by the time, or never was (S96, R15).
func TestS96R15EveryOrderOfAnEndLongAgo(t *testing.T) {
	done := Outcome{Status: flow.StatusCompleted, Payload: []byte("r")}
	everyOrder(t, func(p *picker) {
		c := waiting(p)
		c.do(child, func(w *world) { ended(w, flow.InComplete, 1) })
		c.play(p, c.suspendsOn("suspend", child), event{name: "archive", do: func() {
			c.archive[testID(child)] = c.of(child)
			delete(c.runs, testID(child))
		}}, event{name: "crash", do: c.crash})
		c.wantWoken(done)
	})
	everyOrder(t, func(p *picker) {
		c := waiting(p)
		c.play(p, c.suspendsOn("suspend", 99))
		c.wantWoken(Outcome{})
	})
	everyOrder(t, func(p *picker) {
		c := newTown(p)
		c.run(parent).hold(1)
		c.run(child)
		c.play(p, c.suspendsOn("suspend", child), event{name: "cancel", do: func() { c.ask(child, flow.InCancel, flow.Fields{}) }})
		c.wantWoken(Outcome{Status: flow.StatusCancelled})
	})
}

// Fails when a parent that waits for two runs is woken by the first, twice, or never, or
// their outcomes change places (S96).
func TestS96EveryOrderOfTwoChildren(t *testing.T) {
	everyOrder(t, func(p *picker) {
		c := waiting(p)
		c.run(sibling).hold(1)
		c.play(p, c.suspendsOn("suspend", child, sibling), c.ends("end 6", child, 1, "six"), c.ends("end 7", sibling, 1, "seven"))
		c.wantWoken(Outcome{Status: flow.StatusCompleted, Payload: []byte("six")}, Outcome{Status: flow.StatusCompleted, Payload: []byte("seven")})
	})
}

// Fails when a parent isn't woken once by the end of the last successor of its child,
// whenever the child is handed on (S96, P76, P79), or the chain doesn't hear of its end (R14).
func TestS96P76R14R15EveryOrderOfAHandOn(t *testing.T) {
	everyOrder(t, func(p *picker) {
		c := newTown(p)
		c.run(parent).hold(1)
		c.run(child)
		queued := func(n byte) func() bool {
			return func() bool { return c.of(n) != nil && c.of(n).run.Status() == flow.StatusQueued }
		}
		c.play(p,
			c.suspendsOn("suspend", child),
			event{"hand on to 10", queued(child), func() { c.do(child, func(w *world) { w.handOn(10) }) }},
			event{"hand on to 11", queued(10), func() { c.do(10, func(w *world) { w.handOn(11) }) }},
			event{"11 ends", queued(11), func() {
				c.of(11).hold(1)
				c.do(11, func(w *world) { w.step(flow.InComplete, flow.Fields{Fence: 1, Payload: []byte("r")}) })
			}},
		)
		c.wantWoken(Outcome{Status: flow.StatusCompleted, Payload: []byte("r")})
		for n, root := range map[byte]byte{10: child, 11: child} {
			if v := c.of(n).run.View(); v.GatedRoot != testID(root) || v.Submitted != c.of(child).run.Order() {
				p.Fatalf("run %d has the root %v and the place %d", n, v.GatedRoot, v.Submitted)
			}
		}
	})
}

// Fails when one end wakes a parent twice, or makes two events or two notices, though the
// completion is sent twice, a former holder sends his, and the notice comes twice (S106).
func TestS106P51R15EveryOrderOfOneEnd(t *testing.T) {
	everyOrder(t, func(p *picker) {
		c := newTown(p)
		c.run(parent).hold(1)
		c.run(child).hold(1)
		c.now += 13 * second
		c.do(child, func(w *world) { w.tick() })
		c.of(child).now = c.now
		c.of(child).hold(2)
		told := func() bool { return c.sent > 0 }
		c.play(p,
			c.suspendsOn("suspend", child),
			c.ends("end", child, 2, "r"),
			c.ends("the same again", child, 2, "r"),
			c.ends("a former holder", child, 1, "late"),
			event{"the notice again", told, func() {
				in := flow.Input{Kind: flow.InOutcome, Fields: flow.Fields{
					Run: testID(parent), Root: testID(child), Number: 1, Status: flow.StatusCompleted, Payload: []byte("r"),
				}}
				c.mail = append(c.mail, envelope{testID(99), testID(parent), in}) // by a way of its own
			}},
		)
		c.wantWoken(Outcome{Status: flow.StatusCompleted, Payload: []byte("r")})
		ends := 0
		for _, e := range c.of(child).run.Events() {
			if e.Type == flow.EventCompleted {
				ends++
			}
		}
		if ends != 1 || c.sent != 1 {
			p.Fatalf("%d events of the end, %d notices", ends, c.sent)
		}
	})
}
