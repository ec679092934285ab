package runactor

import (
	"errors"
	"fmt"
	"testing"

	"github.com/pyrula/pyrula-node/flow"
)

// suspensions are all the ways in which a run can be suspended, for a minute where they
// have an end in time. Fence 1 holds the run.
var suspensions = map[string]func(*world){
	"handed back until a date": func(w *world) {
		w.step(flow.InSuspend, flow.Fields{Fence: 1, Until: epoch + 60*second, Flags: flow.FlagAbsolute})
	},
	"a moment": func(w *world) {
		w.step(flow.InSuspend, flow.Fields{Fence: 1, Until: epoch + 60*second, Flags: flow.FlagRecorded, Name: "nap"})
	},
	"a date": func(w *world) {
		w.step(flow.InSuspend, flow.Fields{Fence: 1, Until: epoch + 60*second, Flags: flow.FlagRecorded | flow.FlagAbsolute, Name: "nap"})
	},
	"a signal":              func(w *world) { w.waitSignal(1, "x", 0) },
	"a signal with an end":  func(w *world) { w.waitSignal(1, "x", flow.Minute) },
	"a child":               func(w *world) { w.waitRuns(1, child) },
	"a back-off":            func(w *world) { w.step(flow.InFail, flow.Fields{Fence: 1, Flags: flow.FlagRetryable}) },
	"a child that is known": func(w *world) { w.waitRuns(1, sibling, child) },
}

// Fails when a cancel or terminate that races a suspension of any kind leaves a timer, a
// wait or a hold behind, or anything that comes later has an effect (S65, S86).
func TestS65S86EveryOrderLeavesNothing(t *testing.T) {
	for name, suspend := range suspensions {
		for _, stop := range []flow.InputKind{flow.InCancel, flow.InTerminate} {
			t.Run(name+", "+stop.String(), func(t *testing.T) {
				everyOrder(t, func(p *picker) { stopped(p, suspend, stop) })
			})
		}
	}
}

func stopped(p *picker, suspend func(*world), stop flow.InputKind) {
	c := newTown(p)
	c.run(parent).hold(1)
	c.do(parent, func(w *world) { w.start(1, "kids", flow.FlagChild, child) })
	c.run(sibling)
	c.do(sibling, func(w *world) { w.step(flow.InCancel, flow.Fields{}) })
	c.settle()
	c.play(p,
		event{name: "suspend", do: func() { c.do(parent, suspend) }},
		event{name: "stop", do: func() { c.do(parent, func(w *world) { w.step(stop, flow.Fields{Reason: "r"}) }) }},
		event{name: "crash", do: c.crash},
	)
	w := c.of(parent)
	if due, ok := w.run.Due(); ok || !w.run.Status().Ended() || w.run.Held() {
		p.Fatalf("it is %v, held %t, due %v %t", w.run.Status(), w.run.Held(), due, ok)
	}
	n := len(w.log)
	w.now = epoch + 60*second
	w.tick()
	w.step(flow.InOutcome, flow.Fields{Root: testID(child), Number: 2, Status: flow.StatusCompleted})
	w.step(flow.InOutcome, flow.Fields{Root: testID(child), Number: 1, Status: flow.StatusCompleted})
	if w.signal("x", ""); !errors.Is(w.out.Err, flow.ErrRunEnded) || len(w.log) != n {
		p.Fatalf("a minute later it writes %d records; a signal gets %v", len(w.log)-n, w.out.Err)
	}
}

// Fails when a child that is awaited goes on though its parent was stopped, in whatever
// order the stop, the wait and the child's start come, or a run that is no child is
// stopped with it (P63, S64).
func TestP63S64EveryOrderStopsTheAwaitedChild(t *testing.T) {
	for _, stop := range []flow.InputKind{flow.InCancel, flow.InTerminate} {
		everyOrder(t, func(p *picker) {
			c := newTown(p)
			c.run(parent).hold(1)
			c.run(sibling) // awaited, and nobody's child
			c.do(parent, func(w *world) { w.start(1, "kids", flow.FlagChild, child) })
			c.do(parent, func(w *world) { w.start(1, "others", 0, grown) })
			may := func() bool { return stop == flow.InCancel || c.of(parent).run.Status() == flow.StatusSuspended }
			c.play(p,
				event{name: "suspend", do: func() { c.do(parent, func(w *world) { w.waitRuns(1, child, sibling, grown) }) }},
				event{"stop", may, func() { c.ask(parent, stop, flow.Fields{Reason: "r"}) }},
			)
			if kid := c.of(child).run.Status(); kid != flow.StatusCancelled {
				p.Fatalf("the child is %v", kid)
			}
			for _, n := range []byte{sibling, grown} {
				if other := c.of(n).run.Status(); other != flow.StatusQueued {
					p.Fatalf("run %d, which is no child, is %v", n, other)
				}
			}
		})
	}
}

// Fails when a wait that timed out gets a signal that comes later, or the next wait misses
// it; of a signal in the very instant of the timeout, when not just one wait gets it (S91).
func TestS91EveryOrderOfASignalAndATimeout(t *testing.T) {
	for _, at := range []flow.Instant{epoch + second, epoch + 2*second} {
		everyOrder(t, func(p *picker) {
			c := newTown(p)
			c.run(parent).hold(1)
			c.do(parent, func(w *world) { w.waitSignal(1, "x", flow.Second) })
			c.now = epoch + second
			again := event{"wait again", func() bool { return c.of(parent).run.Status() == flow.StatusQueued }, func() {
				c.of(parent).hold(2)
				c.do(parent, func(w *world) { w.waitSignal(2, "x", 0) })
			}}
			events := []event{
				{name: "tick", do: func() { c.do(parent, func(w *world) { w.tick() }) }},
				{name: "signal", do: func() { c.do(parent, func(w *world) { w.signal("x", "") }) }},
				{name: "crash", do: c.crash}, again,
			}
			if at != c.now {
				c.do(parent, func(w *world) { w.tick() })
				c.now = at
			}
			c.play(p, events...)
			run := c.of(parent).run
			first, _, ok := run.Entry(ItemSignal, "x", 1)
			later, _, got := run.Entry(ItemSignal, "x", 2)
			switch {
			case !ok || got == (first.Kind == ItemSignal):
				p.Fatalf("the first wait has %v, the second %v %t", first, later, got)
			case at != epoch+second && first.Kind != ItemTimeout:
				p.Fatalf("a wait that was over has got the signal")
			case !got && run.Status() != flow.StatusSuspended, got && run.Status() != flow.StatusQueued:
				p.Fatalf("the run is %v", run.Status())
			}
		})
	}
}

// Fails when the signal, the timer or the outcome of an older wait ends a newer one (S95).
func TestS95S86EveryOrderOfAnOldWait(t *testing.T) {
	for name, first := range map[string]func(*town){
		"that timed out": func(c *town) {
			c.now += 10 * second
			c.do(parent, func(w *world) { w.tick() })
		},
		"that got its signal": func(c *town) { c.do(parent, func(w *world) { w.signal("w1", "") }) },
	} {
		t.Run(name, func(t *testing.T) {
			everyOrder(t, func(p *picker) {
				c := newTown(p)
				c.run(parent).hold(1)
				c.do(parent, func(w *world) { w.waitSignal(1, "w1", 10*flow.Second) })
				first(c)
				c.of(parent).hold(2)
				c.do(parent, func(w *world) { w.waitSignal(2, "w2", 0) })
				c.now = epoch + 10*second
				c.play(p,
					event{name: "signal w1", do: func() { c.do(parent, func(w *world) { w.signal("w1", "r-1") }) }},
					event{name: "timer of w1", do: func() { c.do(parent, func(w *world) { w.tick() }) }},
					event{name: "crash", do: c.crash},
				)
				w := c.of(parent)
				if kept := w.run.Signals(); w.run.Status() != flow.StatusSuspended || len(kept) != 1 || kept[0].Name != "w1" {
					p.Fatalf("the run is %v and keeps %+v", w.run.Status(), kept)
				}
				if c.do(parent, func(w *world) { w.signal("w2", "") }); w.run.Status() != flow.StatusQueued {
					p.Fatalf("w2 leaves it %v", w.run.Status())
				}
			})
		})
	}
}

// Fails when the notice of an older wait for runs, of the same run even, counts for a newer
// one (S95, S106).
func TestS95S106NoticeOfAnOldWait(t *testing.T) {
	w := started(t)
	w.waitRuns(1, child)
	outcome := flow.Fields{Root: testID(child), Number: 1, Status: flow.StatusCompleted, Payload: []byte("r")}
	w.step(flow.InOutcome, outcome)
	wantKinds(t, w, flow.RecOutcome, flow.RecWoken)
	w.hold(2)
	w.waitRuns(2, child)
	w.step(flow.InOutcome, outcome)
	if wantKinds(t, w); w.run.Status() != flow.StatusSuspended {
		t.Fatalf("the run is %v", w.run.Status())
	}
	if outcome.Number = 2; len(w.letters()) > 0 {
		t.Errorf("it sends %v", w.letters())
	}
	w.step(flow.InOutcome, outcome)
	wantKinds(t, w, flow.RecOutcome, flow.RecWoken)
}

// Fails when a signal that comes before the claim, between claim and wait, or during the
// wait doesn't end the wait, at once where it was kept (S92).
func TestS92EveryOrderOfASignalAndItsWait(t *testing.T) {
	everyOrder(t, func(p *picker) {
		c := newTown(p)
		c.run(parent)
		c.play(p,
			event{name: "signal", do: func() { c.do(parent, func(w *world) { w.signal("x", "") }) }},
			event{name: "crash", do: c.crash},
			event{"claim and wait", nil, func() {
				c.of(parent).hold(1)
				c.do(parent, func(w *world) { w.waitSignal(1, "x", 0) })
			}},
		)
		it, _, ok := c.of(parent).run.Entry(ItemSignal, "x", 1)
		if c.of(parent).run.Status() != flow.StatusQueued || !ok || string(it.Payload) != "x!" {
			p.Fatalf("the run is %v, its wait has %+v", c.of(parent).run.Status(), it)
		}
	})
	everyOrder(t, func(p *picker) { // a body that looks before it suspends
		c := newTown(p)
		c.run(parent).hold(1)
		c.play(p,
			event{name: "signal", do: func() { c.do(parent, func(w *world) { w.signal("x", "") }) }},
			event{"look and wait", nil, func() {
				c.do(parent, func(w *world) { w.steps(1, take("x", 1)) })
				if _, _, ok := c.of(parent).run.Entry(ItemSignal, "x", 1); !ok {
					c.do(parent, func(w *world) { w.waitSignal(1, "x", 0) })
				}
			}},
		)
		if _, _, ok := c.of(parent).run.Entry(ItemSignal, "x", 1); !ok {
			p.Fatalf("the wait is open and %v is kept", c.of(parent).run.Signals())
		}
	})
}

// Fails when a cancel or terminate is lost in a hand-on, or makes two ends of one chain: it
// comes first and there is no successor, or it reaches the successor (P80, P32).
func TestP80P32EveryOrderOfCancelAndHandOn(t *testing.T) {
	for stop, want := range map[flow.InputKind]flow.Status{flow.InCancel: flow.StatusCancelled, flow.InTerminate: flow.StatusTerminated} {
		everyOrder(t, func(p *picker) {
			c := newTown(p)
			c.run(child)
			handOn := func(from, to byte) event {
				ready := func() bool { return c.of(from) != nil || c.of(child).run.Status().Ended() }
				return event{fmt.Sprint("hand on to ", to), ready, func() {
					if c.of(from) != nil {
						c.do(from, func(w *world) { w.handOn(to) })
					}
				}}
			}
			c.play(p, handOn(child, 10), handOn(10, 11), event{name: "stop", do: func() { c.ask(child, stop, flow.Fields{Reason: "r"}) }})
			alive := 0
			for id, w := range c.runs {
				if s := w.run.Status(); s != want && s != flow.StatusContinued || !w.run.Over() {
					p.Fatalf("run %d is %v, over %t", id[15], s, w.run.Over())
				} else if s == want {
					alive++
				}
			}
			if v := c.last(child).run.View(); alive != 1 || v.Status != want || v.Reason != "r" {
				p.Fatalf("%d ends; the chain's is %v for %q", alive, v.Status, v.Reason)
			}
		})
	}
}

// Fails when a signal that was acknowledged is lost, doubled or overtaken on its way along
// a chain, or a hand-on waits for signals (S88, P76).
func TestS88P76EveryOrderOfSignalsAndHandOns(t *testing.T) {
	everyOrder(t, func(p *picker) {
		c := newTown(p)
		c.run(child)
		acked := func(n int) bool { return c.last(child).run.peek().last >= uint64(n) }
		signal := func(n int) event {
			return event{fmt.Sprint("signal ", n), func() bool { return acked(n - 1) }, func() {
				c.ask(child, flow.InSignal, flow.Fields{Name: "x", Payload: []byte{byte(n)}, RequestID: fmt.Sprint("r-", n)})
			}}
		}
		handOn := func(from, to byte) event {
			return event{fmt.Sprint("hand on to ", to), func() bool { return c.of(from) != nil }, func() {
				if c.do(from, func(w *world) { w.handOn(to) }); c.of(from).run.Status() != flow.StatusContinued {
					p.Fatalf("run %d is %v", from, c.of(from).run.Status())
				}
			}}
		}
		c.play(p, signal(1), signal(2), signal(3), handOn(child, 10), handOn(10, 11))
		kept := c.of(11).run.Signals()
		for i, s := range kept {
			if len(kept) != 3 || s.Number != uint64(i)+1 || s.Payload[0] != byte(i)+1 {
				p.Fatalf("the last successor keeps %+v", kept)
			}
		}
		if len(kept) != 3 {
			p.Fatalf("the last successor keeps %+v", kept)
		}
	})
}
