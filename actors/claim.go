package actors

import (
	"container/heap"
	"container/list"
	"fmt"
	"maps"
	"slices"

	"github.com/pyrula/pyrula-node/flow"
)

// claim is a worker's offer of credit while it waits.
type claim struct {
	number uint64
	ask    askID
	worker string
	serves map[string]*flow.Definition
	credit int64
	lent   int64    // units at shards
	grants []*Grant // durable
	plain  bool     // its answer has no room for candidates
	// candidates are runs whose keys its worker is to compute.
	candidates []Candidate
	until      flow.Span
	at         int  // in the heap of deadlines; -1 when it isn't there
	closed     bool // it lends no more: time is over, or its asker has gone
	gone       bool // its asker has gone
	again      int  // how often a claim that doesn't wait may be lent anew: a run may have been handed on under its eyes
	// places are its workflows, with its place among their waiting claims; nil while
	// it has no credit to spare.
	places map[*workflowView]*list.Element
	alive  []*serving // its worker's places in the book of who is alive, while it waits
}

// maxAgain bounds how often a claim that doesn't wait is lent anew.
const maxAgain = 4

// spare is the credit that may be lent. A claim that has a grant lends no more, so
// that its answer isn't put off by further work.
func (c *claim) spare() int64 {
	if c.closed || len(c.grants)+len(c.candidates) > 0 {
		return 0
	}
	return c.credit - c.lent
}

// claim takes a worker's claim: it is lent out at once as far as there is work.
func (d *dispatcher) claim(m *claimMsg) {
	if len(d.claims) >= maxClaims {
		d.node.asks.answer(answer{ask: m.ask, err: fmt.Errorf("%d claims wait: %w", maxClaims, flow.ErrOverloaded)})
		return
	}
	d.last++
	now := d.node.cfg.Clock.Mono()
	c := &claim{
		number: d.last, at: -1, ask: m.ask, worker: m.worker, credit: int64(m.credit), plain: m.plain,
		serves: make(map[string]*flow.Definition, len(m.serves)), until: now + m.wait,
	}
	c.places = make(map[*workflowView]*list.Element, len(m.serves))
	d.claims[c.number], d.byAsk[c.ask] = c, c
	var flows []*workflowView
	for _, def := range m.serves {
		c.serves[def.Workflow] = def
		flows = append(flows, d.flow(def.Workflow))
		if s := d.serve(def, m.worker, now); s != nil && m.wait > 0 {
			d.polls(s, now)
			c.alive = append(c.alive, s)
		}
		d.bring(c, def)
	}
	d.spread(c, flows)
	if m.wait == 0 {
		c.closed, c.again = true, maxAgain
		for _, f := range flows {
			c.places[f] = nil
		}
	} else {
		heap.Push(&d.deadlines, c)
		for _, f := range flows {
			if c.places[f] == nil { // a claim may name a workflow twice
				c.places[f] = f.waiting.PushBack(c)
			}
		}
	}
	d.settle(c)
}

// spread lends a new claim's credit in rotation over its workflows, the one that
// was served longest ago first, then over their keys (P61). Claims that waited
// before it have taken what they could.
func (d *dispatcher) spread(c *claim, flows []*workflowView) {
	if !d.serving() {
		return
	}
	open := slices.Clone(flows)
	for c.spare() > 0 && len(open) > 0 {
		next := 0
		for i, f := range open {
			if f.served < open[next].served {
				next = i
			}
		}
		f := open[next]
		k := f.nextKey(d)
		if k == nil {
			open = slices.Delete(open, next, next+1)
			continue
		}
		d.lend(f, k, c)
	}
}

// giveBack takes a unit that a shard had no use for.
func (d *dispatcher) giveBack(v *shardView, number uint64) {
	if !v.take(number) {
		return
	}
	c := d.claims[number]
	if c == nil {
		return
	}
	c.lent--
	if c.again > 0 && len(c.grants) == 0 && !c.gone {
		c.again--
		c.closed = false
		d.spread(c, slices.Collect(maps.Keys(c.places)))
		c.closed = true
	}
	d.settle(c)
}

// take accounts for a unit that left a shard.
func (v *shardView) take(number uint64) bool {
	n := v.lent[number]
	if n == 0 {
		return false // lent in an epoch that is over
	}
	if n == 1 {
		delete(v.lent, number)
	} else {
		v.lent[number] = n - 1
	}
	return true
}

// granted takes a unit that became a grant. A grant whose claim has been answered,
// or whose asker has gone, is handed back: no attempt is used.
func (d *dispatcher) granted(m *grantedMsg) {
	held := d.shards[m.shard].take(m.claim)
	c := d.claims[m.claim]
	if c == nil || !held {
		d.node.handBack(m.grant)
		return
	}
	c.lent--
	c.grants = append(c.grants, m.grant)
	d.settle(c)
}

// settle answers a claim that has what it can get, and otherwise has it wait where
// it has credit to spare.
func (d *dispatcher) settle(c *claim) {
	if c.lent == 0 && (len(c.grants)+len(c.candidates) > 0 || c.closed) {
		d.finish(c)
		return
	}
	if c.spare() == 0 {
		return
	}
	for f, place := range c.places { //tidy:ordered each workflow has a queue of its own
		if place == nil && !c.closed {
			c.places[f] = f.wait(c)
			d.pump(f)
		}
	}
}

// wait puts a claim back among the waiting, in the order in which they came. Those
// that come back are old, so their place is near the front.
func (f *workflowView) wait(c *claim) *list.Element {
	for e := f.waiting.Front(); e != nil; e = e.Next() {
		if e.Value.(*claim).number > c.number {
			return f.waiting.InsertBefore(c, e)
		}
	}
	return f.waiting.PushBack(c)
}

// finish answers a claim and forgets it.
func (d *dispatcher) finish(c *claim) {
	c.closed = true
	if c.at >= 0 {
		heap.Remove(&d.deadlines, c.at)
	}
	for f, place := range c.places { //tidy:ordered it leaves every queue
		if place != nil {
			f.waiting.Remove(place)
		}
	}
	delete(d.claims, c.number)
	delete(d.byAsk, c.ask)
	now := d.node.cfg.Clock.Mono()
	for _, s := range c.alive {
		d.polled(s, now)
	}
	if c.gone {
		for _, g := range c.grants {
			d.node.handBack(g)
		}
		c.grants = nil
	}
	d.node.asks.answer(answer{ask: c.ask, value: claimed{c.grants, c.candidates}})
}

// claimed is the answer to a claim.
type claimed struct {
	grants     []*Grant
	candidates []Candidate
}

// unclaim ends a claim whose asker has gone. What is lent for it is handed back
// when it becomes a grant.
func (d *dispatcher) unclaim(ask askID) {
	c := d.byAsk[ask]
	if c == nil {
		return
	}
	c.closed, c.gone = true, true
	d.settle(c)
}

// expire ends the claims whose time is over, announces what is due, and sets the timer for
// whichever comes next.
func (d *dispatcher) expire() {
	now := d.node.cfg.Clock.Mono()
	for len(d.deadlines) > 0 && d.deadlines[0].until <= now {
		c := heap.Pop(&d.deadlines).(*claim)
		c.closed = true
		d.settle(c)
	}
	if d.lookAt != 0 && d.lookAt <= now {
		d.lookAtServed(now)
	}
	next := d.lookAt
	if len(d.deadlines) > 0 && (next == 0 || d.deadlines[0].until < next) {
		next = d.deadlines[0].until
	}
	if d.stopTimer != nil && d.timerAt == next {
		return
	}
	if d.stopTimer != nil {
		d.stopTimer()
		d.stopTimer = nil
	}
	if next != 0 {
		d.timerAt = next
		d.stopTimer = d.node.cfg.Clock.After(max(next-now, minTimer), func() { d.box.tell(claimTimeMsg{}) })
	}
}

// claimHeap orders claims by the end of their wait.
type claimHeap []*claim

func (h claimHeap) Len() int           { return len(h) }
func (h claimHeap) Less(i, j int) bool { return h[i].until < h[j].until }
func (h claimHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

// Push and Pop are container/heap's.
func (h *claimHeap) Push(x any) {
	c := x.(*claim)
	c.at = len(*h)
	*h = append(*h, c)
}

func (h *claimHeap) Pop() any {
	old := *h
	n := len(old) - 1
	c := old[n]
	old[n] = nil
	*h = old[:n]
	c.at = -1
	return c
}
