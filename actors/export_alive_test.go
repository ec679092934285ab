package actors

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing/synctest"
)

// resting runs f on the dispatcher while nothing moves, inside a synctest bubble. The message
// orders it before whatever the dispatcher does next.
func resting[T any](n *Node, f func(*dispatcher) T) T {
	synctest.Wait()
	v := f(n.dispatcher)
	n.dispatcher.box.tell(seenMsg{})
	synctest.Wait()
	return v
}

// Served are the versions of a workflow that live workers serve: by the dispatcher's book,
// and by what every shard was told.
func Served(ctx context.Context, n *Node, workflow string) (book []string, shards [][]string, err error) {
	book = resting(n, func(d *dispatcher) (versions []string) {
		now := n.cfg.Clock.Mono()
		if f := d.flows[workflow]; f != nil {
			for _, v := range f.serves {
				if v.over(now) >= now {
					versions = append(versions, v.def.Version)
				}
			}
		}
		slices.Sort(versions)
		return versions
	})
	for _, s := range n.shards {
		v, err := n.read(ctx, s.id, func(s *shard) (any, error) {
			var told []string
			for _, m := range s.announced[workflow] {
				if m.until >= s.time.mono {
					told = append(told, m.def.Version)
				}
			}
			slices.Sort(told)
			return told, nil
		})
		if err != nil {
			return nil, nil, err
		}
		shards = append(shards, v.([]string))
	}
	return book, shards, nil
}

// CheckBook is the first contradiction in the dispatcher's book of who is alive, or nil.
func CheckBook(n *Node) error { return resting(n, (*dispatcher).checkBook) }

func (d *dispatcher) checkBook() error {
	listed, polled, polls := 0, 0, 0
	for def, v := range d.serves {
		if v.silent.Len()+v.polled > maxServed {
			return fmt.Errorf("%d workers of %v", v.silent.Len()+v.polled, def)
		}
		if !slices.Contains(d.flows[def.workflow].serves, v) {
			return fmt.Errorf("%v isn't in the list of its workflow", def)
		}
		listed, polled = listed+v.silent.Len()+v.polled, polled+v.polled
		last := -forgetAfter
		for e := v.silent.Front(); e != nil; e = e.Next() {
			s := e.Value.(*serving)
			if s.of != v || s.place != e || s.polls != 0 || s.seen < last || d.workers[s.worker][def.workflow] != s {
				return fmt.Errorf("worker %s of %v: %+v after one that was heard of at %d", s.worker, def, s, last)
			}
			last = s.seen
		}
	}
	for worker, all := range d.workers {
		if len(all) == 0 {
			return fmt.Errorf("worker %s serves nothing", worker)
		}
		listed -= len(all)
		for _, s := range all {
			if polls += s.polls; s.polls > 0 {
				polled--
			}
		}
	}
	for _, c := range d.claims {
		for _, s := range c.alive {
			if s.of != nil {
				polls--
			}
		}
	}
	if listed != 0 || polled != 0 || polls != 0 {
		return fmt.Errorf("lists and index differ by %d workers, %d that wait, %d claims", listed, polled, polls)
	}
	for workflow, f := range d.flows {
		for _, v := range f.serves {
			if v.def.Workflow != workflow || d.serves[servedDefOf(v.def)] != v {
				return fmt.Errorf("workflow %s lists a declaration that is forgotten", workflow)
			}
		}
	}
	return nil
}

// BookSize is how many declarations and workers the dispatcher remembers.
func BookSize(n *Node) (declarations, workers int) {
	size := resting(n, func(d *dispatcher) [2]int { return [2]int{len(d.serves), len(d.workers)} })
	return size[0], size[1]
}

// TimerRuns says whether the dispatcher waits for a moment.
func TimerRuns(n *Node) bool {
	return resting(n, func(d *dispatcher) bool { return d.stopTimer != nil })
}

// countAnnouncements is a shard's handler that counts what it is told of who is alive.
type countAnnouncements struct {
	handler
	count *atomic.Int64
}

func (c countAnnouncements) receive(msgs []any) {
	for _, m := range msgs {
		if _, ok := m.(announceMsg); ok {
			c.count.Add(1)
		}
	}
	c.handler.receive(msgs)
}

// CountAnnouncements counts from now on what the first shard is told of who is alive.
func CountAnnouncements(n *Node) *atomic.Int64 {
	synctest.Wait()
	box := n.shards[0].box
	c := countAnnouncements{box.handler, new(atomic.Int64)}
	box.handler = c
	box.tell(unwatchMsg{})
	synctest.Wait()
	return c.count
}
