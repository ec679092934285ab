package actors

import (
	"container/list"
	"math"
	"slices"

	"github.com/pyrula/pyrula-node/flow"
)

// Bounds of what the dispatcher knows of workers.
const (
	// aliveFor is how long a worker counts as alive after its last claim or heartbeat (R16).
	// A claim lasts as long as it waits.
	aliveFor = 30 * flow.Second
	// maxServed bounds the workers that are remembered of one declaration: who was silent
	// for longest is forgotten for the next one. Of the declarations that nobody serves any
	// more it bounds those that are remembered; those that are served are in the registry,
	// which has bounds of its own.
	maxServed = 4096
	// forgetAfter is when a silent worker is forgotten. Until then its next heartbeat counts
	// for all that it has served.
	forgetAfter = 10 * flow.Minute
	// announceEvery is how often shards are told of one declaration at most, unless it has
	// just come to be served, or is over.
	announceEvery = 1 * flow.Second
	// announceAhead is how long before the end of what shards know they hear that a
	// declaration is served for longer. A shard may be busy for a while.
	announceAhead = 10 * flow.Second
	// maxCandidates bounds the runs that wait for a worker to compute their key; the
	// oldest goes when there are more, and its shard offers it again.
	maxCandidates = 1024
	// maxBrought bounds the candidates in one answer.
	maxBrought = 16
)

// renewedMsg says that a worker has renewed runs that were granted under declarations: it
// serves those, for all that a node knows that has never seen a claim of it.
type renewedMsg struct {
	worker string
	serves []*flow.Definition
}

// heldUnder is the value of an answer to a heartbeat: what the holder of the run serves.
type heldUnder struct{ workflow, version string }

// servesToo adds the declaration that a renewed run is held under.
func (n *Node) servesToo(list []*flow.Definition, value any) []*flow.Definition {
	h, ok := value.(heldUnder)
	if !ok || slices.ContainsFunc(list, func(d *flow.Definition) bool { return d.Workflow == h.workflow }) {
		return list
	}
	if def := lastOf(n.registry.list(h.workflow), h.version); def != nil {
		list = append(list, def)
	}
	return list
}

// servedDef names a declaration.
type servedDef struct{ workflow, version, gates string }

func servedDefOf(def *flow.Definition) servedDef {
	return servedDef{def.Workflow, def.Version, def.GatesHash}
}

// serving is a worker in the book of the one declaration of a workflow that it serves.
type serving struct {
	worker string
	of     *servedBy     // nil when it has left
	seen   flow.Span     // when it was last heard of
	polls  int           // claims of it that wait: as long as there are some it is alive
	place  *list.Element // in of.silent; nil while claims of it wait
}

// servedBy is a declaration with the workers that serve it: the one book of who is alive.
type servedBy struct {
	def    *flow.Definition
	silent *list.List // of *serving without a claim that waits, last heard of last
	polled int        // workers with one
	// until is when the declaration is over, as the shards were told at the moment told.
	until, told flow.Span
	waiting     []Candidate
}

// over is the last moment at which a worker of the declaration is alive if none is heard of
// again; one that has passed when there is none.
func (v *servedBy) over(now flow.Span) flow.Span {
	if v.polled > 0 {
		return math.MaxInt64
	}
	if last := v.silent.Back(); last != nil {
		return last.Value.(*serving).seen + aliveFor
	}
	return now - 1
}

// due is when shards have to hear of a declaration; ok is false when what they know stays
// true. Shards decide by that alone: they must hear before it ends.
func (v *servedBy) due(now flow.Span) (at flow.Span, ok bool) {
	over := v.over(now)
	switch served := over >= now; {
	case served != (v.until >= now):
		return now, true
	case !served || over == v.until:
		return 0, false
	case over > v.until:
		return v.until - announceAhead, true
	default:
		return v.told + announceEvery, true
	}
}

// serve notes that a worker claims under a declaration, and so under no other of its
// workflow. Result: its place in the book, nil when there is no room.
func (d *dispatcher) serve(def *flow.Definition, worker string, now flow.Span) *serving {
	v := d.serves[servedDefOf(def)]
	if v == nil {
		v = d.newServed(def, now)
	}
	s := d.workers[worker][def.Workflow]
	if s != nil && s.of != v {
		d.leave(s, now)
		s = nil
	}
	if s == nil {
		if s = d.join(v, def.Workflow, worker); s == nil {
			return nil
		}
	}
	if v.def == def {
		d.hear(s, now)
		return s
	}
	// It was declared again, or read again from the log: to shards that is another one.
	old := announceMsg{def: v.def, until: now - 1}
	v.def, v.until = def, now-1
	d.hear(s, now)
	d.tellAll(old)
	return s
}

// newServed begins the book of a declaration.
func (d *dispatcher) newServed(def *flow.Definition, now flow.Span) *servedBy {
	if len(d.serves) >= maxServed && now-d.looked >= announceEvery {
		d.lookAtServed(now)
	}
	v := &servedBy{def: def, silent: list.New(), until: now - 1}
	d.serves[servedDefOf(def)] = v
	f := d.flow(def.Workflow)
	f.serves = append(f.serves, v)
	return v
}

// join gives a worker a place in the book of a declaration, that of the one who was silent
// for longest when there is no room.
func (d *dispatcher) join(v *servedBy, workflow, worker string) *serving {
	if v.silent.Len()+v.polled >= maxServed {
		first := v.silent.Front()
		if first == nil {
			return nil // so many wait that one more makes no difference
		}
		d.strike(first.Value.(*serving))
	}
	s := &serving{worker: worker, of: v}
	s.place = v.silent.PushBack(s)
	if d.workers[worker] == nil {
		d.workers[worker] = make(map[string]*serving)
	}
	d.workers[worker][workflow] = s
	return s
}

// strike takes a worker out of the book of a declaration.
func (d *dispatcher) strike(s *serving) {
	v := s.of
	s.of = nil
	if s.place != nil {
		v.silent.Remove(s.place)
		s.place = nil
	} else {
		v.polled--
	}
	mine := d.workers[s.worker]
	if delete(mine, v.def.Workflow); len(mine) == 0 {
		delete(d.workers, s.worker)
	}
}

// leave is strike for a worker that is known to serve another declaration. One that nobody
// serves any more is over at once.
func (d *dispatcher) leave(s *serving, now flow.Span) {
	v := s.of
	d.strike(s)
	d.announce(v, now)
}

// hear notes that a worker lives.
func (d *dispatcher) hear(s *serving, now flow.Span) {
	s.seen = now
	if s.place != nil {
		s.of.silent.MoveToBack(s.place)
	}
	d.announce(s.of, now)
}

// polls notes that a claim of a worker waits.
func (d *dispatcher) polls(s *serving, now flow.Span) {
	if s.polls++; s.polls == 1 {
		s.of.silent.Remove(s.place)
		s.place = nil
		s.of.polled++
	}
	d.announce(s.of, now)
}

// polled notes the end of a claim that has waited: until then its worker was there. One that
// serves another declaration by now doesn't come back for that.
func (d *dispatcher) polled(s *serving, now flow.Span) {
	if s.of == nil {
		return
	}
	if s.polls--; s.polls == 0 {
		s.place = s.of.silent.PushBack(s)
		s.of.polled--
	}
	d.hear(s, now)
}

// seeAgain renews what is known of a worker, for all that it serves.
func (d *dispatcher) seeAgain(worker string) {
	now := d.node.cfg.Clock.Mono()
	for _, s := range d.workers[worker] { //tidy:ordered each declaration by itself
		d.hear(s, now)
	}
}

// renewed has a worker serve the declarations of what it holds, unless it is known to serve
// one of the same workflow: what a worker claims says more than what it has begun.
func (d *dispatcher) renewed(m *renewedMsg) {
	now := d.node.cfg.Clock.Mono()
	for _, def := range m.serves {
		if s := d.workers[m.worker][def.Workflow]; s != nil {
			d.hear(s, now)
		} else {
			d.serve(def, m.worker, now)
		}
	}
}

// served says whether a worker of the workflow is alive.
func (d *dispatcher) served(workflow string) bool {
	f := d.flows[workflow]
	if f == nil {
		return false
	}
	now := d.node.cfg.Clock.Mono()
	return slices.ContainsFunc(f.serves, func(v *servedBy) bool { return v.over(now) >= now })
}

// announce tells the shards of a declaration if they have to hear of it now, and otherwise
// has it looked at again in time.
func (d *dispatcher) announce(v *servedBy, now flow.Span) {
	at, ok := v.due(now)
	if ok && at <= now {
		v.until, v.told = min(v.over(now), now+aliveFor), now
		d.tellAll(announceMsg{def: v.def, until: v.until})
		at, ok = v.due(now)
	}
	if at = max(at, d.looked+announceEvery); ok && (d.lookAt == 0 || at < d.lookAt) {
		d.lookAt = at
	}
}

func (d *dispatcher) tellAll(m announceMsg) {
	for _, s := range d.node.shards {
		s.box.tell(m)
	}
}

// lookAtServed announces what is due, once a second at most, and forgets whom nobody has
// heard of for long. It is called as long as there is more to announce: not when nobody
// lives.
func (d *dispatcher) lookAtServed(now flow.Span) {
	d.looked, d.lookAt = now, 0
	crowded := len(d.serves) >= maxServed
	for key, v := range d.serves { //tidy:ordered each declaration by itself
		d.announce(v, now)
		for e := v.silent.Front(); e != nil; e = v.silent.Front() {
			s := e.Value.(*serving)
			if alive := v.over(now) >= now; now-s.seen <= forgetAfter && (alive || !crowded) {
				break
			}
			d.strike(s)
		}
		if v.silent.Len()+v.polled == 0 {
			delete(d.serves, key)
			f := d.flow(key.workflow)
			f.serves = slices.DeleteFunc(f.serves, func(other *servedBy) bool { return other == v })
		}
	}
}

// tellServed tells a shard that has a new owner what is served.
func (d *dispatcher) tellServed(to int) {
	now := d.node.cfg.Clock.Mono()
	for _, v := range d.serves { //tidy:ordered the shard takes the newest
		if v.until >= now {
			d.node.shards[to].box.tell(announceMsg{def: v.def, until: v.until})
		}
	}
}

// candidate takes a run whose key a worker is to compute: it goes to a claim that waits,
// else to the next that comes.
func (d *dispatcher) candidate(c Candidate) {
	v := d.serves[servedDefOf(c.Def)]
	if v == nil {
		return // nobody serves it any more; the shard offers the run again if that changes
	}
	if len(v.waiting) >= maxCandidates {
		v.waiting = v.waiting[1:]
	}
	v.waiting = append(v.waiting, c)
	for e := d.flow(c.Def.Workflow).waiting.Front(); e != nil; e = e.Next() {
		if cl := e.Value.(*claim); cl.serves[c.Def.Workflow] == c.Def && !cl.closed {
			if d.bring(cl, c.Def); len(cl.candidates) > 0 {
				d.settle(cl)
				return
			}
		}
	}
}

// bring gives a claim the candidates of a declaration that it serves.
func (d *dispatcher) bring(c *claim, def *flow.Definition) {
	v := d.serves[servedDefOf(def)]
	if v == nil || c.plain {
		return
	}
	n := min(len(v.waiting), maxBrought-len(c.candidates))
	c.candidates = append(c.candidates, v.waiting[:n]...)
	if v.waiting = v.waiting[n:]; len(v.waiting) == 0 {
		v.waiting = nil
	}
}
