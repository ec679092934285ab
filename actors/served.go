package actors

import "github.com/pyrula/pyrula-node/flow"

// Bounds of what the dispatcher knows of declarations that are served.
const (
	maxServed = 4096 // declarations, and workers of each
	// announceEvery is how often shards hear that a declaration is still served: by so much
	// they may take it for over too early.
	announceEvery = 1 * flow.Second
	// maxCandidates bounds the runs that wait for a worker to compute their key; the
	// oldest goes when there are more, and its shard offers it again.
	maxCandidates = 1024
	// maxBrought bounds the candidates in one answer.
	maxBrought = 16
)

// servedDef names a declaration.
type servedDef struct{ workflow, version, gates string }

func servedDefOf(def *flow.Definition) servedDef {
	return servedDef{def.Workflow, def.Version, def.GatesHash}
}

// servedBy is a declaration with the workers that serve it: a worker counts as alive
// until aliveFor after its last claim or heartbeat (R16).
type servedBy struct {
	def     *flow.Definition
	seen    flow.Span // when any of its workers was last heard of
	told    flow.Span // when the shards last heard of it
	workers map[string]struct{}
	waiting []Candidate
}

// serve notes that a worker claims under a declaration, and tells the shards.
func (d *dispatcher) serve(def *flow.Definition, worker string) {
	now := d.node.cfg.Clock.Mono()
	key := servedDefOf(def)
	v := d.serves[key]
	if v == nil {
		if len(d.serves) >= maxServed {
			d.forgetServed(now)
		}
		v = &servedBy{workers: make(map[string]struct{})}
		d.serves[key] = v
	}
	if _, serves := v.workers[worker]; !serves {
		d.leaveOthers(key, worker, now)
	}
	fresh := v.def != def || now-v.seen > aliveFor
	v.def, v.seen = def, now
	if len(v.workers) < maxServed {
		v.workers[worker] = struct{}{}
	}
	if fresh || now-v.told >= announceEvery {
		v.told = now
		for _, s := range d.node.shards {
			s.box.tell(announceMsg{def: def, until: now + aliveFor})
		}
	}
}

// leaveOthers takes a worker out of the other declarations of its workflow: it serves one at
// a time. One that nobody serves any more is over at once.
func (d *dispatcher) leaveOthers(key servedDef, worker string, now flow.Span) {
	for other, v := range d.serves { //tidy:ordered each declaration by itself
		if other == key || other.workflow != key.workflow {
			continue
		}
		if _, served := v.workers[worker]; !served {
			continue
		}
		if delete(v.workers, worker); len(v.workers) > 0 || now-v.seen > aliveFor {
			continue
		}
		v.seen = now - aliveFor - 1
		for _, s := range d.node.shards {
			s.box.tell(announceMsg{def: v.def, until: now - 1})
		}
	}
}

// serveAgain renews the declarations that a worker serves.
func (d *dispatcher) serveAgain(worker string, now flow.Span) {
	for _, v := range d.serves { //tidy:ordered each declaration by itself
		if _, serves := v.workers[worker]; serves && now-v.seen <= aliveFor {
			d.serve(v.def, worker)
		}
	}
}

// forgetServed lets go of declarations that nobody serves any more.
func (d *dispatcher) forgetServed(now flow.Span) {
	for key, v := range d.serves { //tidy:ordered all that are over go
		if now-v.seen > aliveFor {
			delete(d.serves, key)
		}
	}
}

// tellServed tells a shard that has a new owner what is served.
func (d *dispatcher) tellServed(to int) {
	now := d.node.cfg.Clock.Mono()
	for _, v := range d.serves { //tidy:ordered the shard takes the newest
		if until := v.seen + aliveFor; until >= now {
			d.node.shards[to].box.tell(announceMsg{def: v.def, until: until})
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
