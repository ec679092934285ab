package actors

import (
	"container/list"
	"fmt"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// Bounds of the dispatcher.
const (
	maxClaims    = 16_384 // long polls that wait
	maxLentBatch = 256    // offers in one message to a shard
)

// dispatcher brings worker credit and admissible runs together: one for the node
// (R11). It knows which keys have work, in rotation, and which claims wait; a unit
// of credit is lent to one shard at a time and comes back as a grant or as "not
// now". It decides nothing about gates, and nothing of it is durable.
type dispatcher struct {
	node   *Node
	box    *mailbox
	shards []shardView
	flows  map[string]*workflowView // by workflow
	claims map[uint64]*claim
	byAsk  map[askID]*claim
	last   uint64 // number of the newest claim
	turn   uint64 // counts the units that were lent

	serves  map[servedDef]*servedBy        // who is alive, by declaration
	workers map[string]map[string]*serving // the same by worker and workflow
	looked  flow.Span                      // when it last looked at all of serves
	lookAt  flow.Span                      // when it is to do so again; zero for never

	offers    map[engine.ShardID][]offer
	deadlines claimHeap
	stopTimer func()
	timerAt   flow.Span
}

// shardView is what the dispatcher knows of a shard.
type shardView struct {
	ready bool // it has told its whole ready set in this epoch
	epoch engine.Epoch
	news  uint64
	keys  map[flow.KeyID]*readyKey
	lent  map[uint64]int64 // units at the shard, by claim
}

// readyKey is a key with work. Its rings are those of its workflow.
type readyKey struct {
	id     flow.KeyID
	shard  engine.ShardID
	open   int64 // units that may be lent to it now
	lent   int64 // offers that the shard hasn't handled yet
	queued bool  // it stands in its workflow's rotation
}

// workflowView is a workflow's rotation of keys, its waiting claims and who serves it.
type workflowView struct {
	rotation []*readyKey
	head     int
	stale    int         // keys in the rotation that were forgotten meanwhile
	waiting  *list.List  // of *claim with credit to spare, oldest first
	served   uint64      // the turn in which a unit was last lent to it
	serves   []*servedBy // its declarations that workers serve, or have served
}

func newDispatcher(n *Node) *dispatcher {
	d := &dispatcher{
		node: n, flows: make(map[string]*workflowView), claims: make(map[uint64]*claim), byAsk: make(map[askID]*claim),
		serves: make(map[servedDef]*servedBy), workers: make(map[string]map[string]*serving), offers: make(map[engine.ShardID][]offer),
		shards: make([]shardView, len(n.shards)),
	}
	for i := range d.shards {
		d.shards[i] = shardView{keys: make(map[flow.KeyID]*readyKey), lent: make(map[uint64]int64)}
	}
	d.box = &mailbox{handler: d, fatal: n.cfg.Fatal}
	return d
}

func (d *dispatcher) position() string { return fmt.Sprintf("%d claims", len(d.claims)) }

// stopped implements handler: whoever still waits learns that the node is closing.
func (d *dispatcher) stopped() {
	for _, c := range d.claims { //tidy:ordered every claim hears the same
		for _, g := range c.grants {
			d.node.handBack(g)
		}
		d.node.asks.answer(answer{ask: c.ask, err: flow.ErrNotReady})
	}
	if d.stopTimer != nil {
		d.stopTimer()
	}
}

// receive implements handler.
func (d *dispatcher) receive(msgs []any) {
	for _, m := range msgs {
		switch m := m.(type) {
		case *claimMsg:
			d.claim(m)
		case unclaimMsg:
			d.unclaim(m.ask)
		case newsMsg:
			d.heard(&m)
		case grantedMsg:
			d.granted(&m)
		case goneMsg:
			d.gone(m.shard)
		case seenMsg:
			d.seeAgain(m.worker)
		case renewedMsg:
			d.renewed(&m)
		case Candidate:
			d.candidate(m)
		case servedMsg:
			d.node.asks.answer(answer{ask: m.ask, value: d.served(m.workflow)})
		case creditMsg:
			d.node.asks.answer(answer{ask: m.ask, item: m.item, value: d.credit()})
		case claimTimeMsg:
			d.stopTimer = nil
		default:
			panic(fmt.Sprintf("message %T is not the dispatcher's", m))
		}
	}
	d.sendOffers()
	d.expire()
}

func (d *dispatcher) flow(key string) *workflowView {
	f := d.flows[key]
	if f == nil {
		f = &workflowView{waiting: list.New()}
		d.flows[key] = f
	}
	return f
}

// heard takes a shard's news. A gap in their numbers, or a new epoch that doesn't
// begin with the whole set, asks for the whole set.
func (d *dispatcher) heard(m *newsMsg) {
	v := &d.shards[m.shard]
	if m.epoch < v.epoch {
		return
	}
	gap := m.epoch != v.epoch || m.number != v.news+1
	v.epoch, v.news = m.epoch, m.number
	if m.whole {
		for _, k := range v.keys { //tidy:ordered every key is closed alike
			k.open = 0
		}
		d.setReady(v, true)
		d.tellServed(int(m.shard))
	}
	for i := range m.ready {
		d.readied(v, m.shard, &m.ready[i])
	}
	for _, number := range m.back {
		d.giveBack(v, number)
	}
	if gap && !m.whole {
		d.setReady(v, false)
		d.node.shards[m.shard].box.tell(fetchMsg{})
	}
	if m.whole {
		d.pumpAll()
	}
}

// readied follows what a key says of itself.
func (d *dispatcher) readied(v *shardView, s engine.ShardID, r *readiness) {
	k := v.keys[r.key]
	if k == nil {
		if r.count == 0 {
			return
		}
		k = &readyKey{id: r.key, shard: s}
		v.keys[r.key] = k
	}
	k.lent = max(k.lent-r.consumed, 0)
	k.open = max(r.count-k.lent, 0)
	f := d.flow(r.key.Workflow)
	if k.open == 0 {
		if k.lent == 0 && r.count == 0 {
			delete(v.keys, r.key)
			f.forget(k)
		}
		return
	}
	f.enqueue(k)
	d.pump(f)
}

// enqueue puts a key at the end of its workflow's rotation, once.
func (f *workflowView) enqueue(k *readyKey) {
	if k.queued || k.open == 0 {
		return
	}
	k.queued = true
	f.rotation = append(f.rotation, k)
}

// nextKey takes the next key that may be lent a unit out of the rotation.
func (f *workflowView) nextKey(d *dispatcher) *readyKey {
	for f.head < len(f.rotation) {
		k := f.rotation[f.head]
		f.rotation[f.head] = nil
		if f.head++; f.head == len(f.rotation) {
			f.rotation, f.head = f.rotation[:0], 0
		}
		k.queued = false
		if k.open > 0 {
			return k
		}
		v := &d.shards[k.shard]
		switch {
		case v.keys[k.id] != k:
			f.stale--
		case k.lent == 0:
			delete(v.keys, k.id)
		}
	}
	return nil
}

// forget accounts for a key without work that may still stand in the rotation, and
// clears those out when they are the greater part of it.
func (f *workflowView) forget(k *readyKey) {
	if !k.queued {
		return
	}
	if f.stale++; 2*f.stale <= len(f.rotation)-f.head {
		return
	}
	kept := f.rotation[:0]
	for _, k := range f.rotation[f.head:] {
		if k.queued = k.open > 0; k.queued {
			kept = append(kept, k)
		}
	}
	clear(f.rotation[len(kept):])
	f.rotation, f.head, f.stale = kept, 0, 0
}

// setReady follows whether a shard's ready set is known.
func (d *dispatcher) setReady(v *shardView, ready bool) {
	if v.ready == ready {
		return
	}
	v.ready = ready
	if ready {
		d.node.heard.Add(1)
		d.node.noteReady()
	} else {
		d.node.heard.Add(-1)
	}
}

// lend offers one unit of a claim to a key.
func (d *dispatcher) lend(f *workflowView, k *readyKey, c *claim) {
	d.turn++
	f.served = d.turn
	k.open--
	k.lent++
	f.enqueue(k)
	c.lent++
	d.shards[k.shard].lent[c.number]++
	d.offers[k.shard] = append(d.offers[k.shard], offer{
		key: k.id, claim: c.number, worker: c.worker, def: c.serves[k.id.Workflow],
	})
	if len(d.offers[k.shard]) >= maxLentBatch {
		d.sendTo(k.shard)
	}
}

func (d *dispatcher) sendOffers() {
	for s := range d.shards {
		if len(d.offers[engine.ShardID(s)]) > 0 {
			d.sendTo(engine.ShardID(s))
		}
	}
}

func (d *dispatcher) sendTo(s engine.ShardID) {
	d.node.shards[s].box.tell(offerMsg{d.shards[s].epoch, d.offers[s]})
	d.offers[s] = nil
}

// serving says whether every shard has reported: no claim is answered before (R11).
func (d *dispatcher) serving() bool { return d.node.allHeard() }

// pump lends the credit of a workflow's waiting claims to its ready keys.
func (d *dispatcher) pump(f *workflowView) {
	if !d.serving() {
		return
	}
	for {
		c := f.firstWaiting()
		if c == nil {
			return
		}
		k := f.nextKey(d)
		if k == nil {
			return
		}
		d.lend(f, k, c)
	}
}

func (d *dispatcher) pumpAll() {
	if !d.serving() {
		return
	}
	for _, f := range d.flows { //tidy:ordered claims wait in each rotation by their own age
		d.pump(f)
	}
}

// firstWaiting is the oldest claim with credit to spare. One whose credit is all
// lent leaves the list and comes back when a unit does.
func (f *workflowView) firstWaiting() *claim {
	for e := f.waiting.Front(); e != nil; e = f.waiting.Front() {
		c := e.Value.(*claim)
		if c.spare() > 0 {
			return c
		}
		f.waiting.Remove(e)
		c.places[f] = nil
	}
	return nil
}

// gone forgets a shard: what was lent to it comes back.
func (d *dispatcher) gone(s engine.ShardID) {
	v := &d.shards[s]
	d.setReady(v, false)
	for _, k := range v.keys { //tidy:ordered every key is closed alike
		k.open, k.lent = 0, 0
		d.flow(k.id.Workflow).forget(k)
	}
	v.keys = make(map[flow.KeyID]*readyKey)
	lent := v.lent
	v.lent = make(map[uint64]int64)
	for number, n := range lent { //tidy:ordered each claim gets its own units back
		if c := d.claims[number]; c != nil {
			c.lent -= n
			d.settle(c)
		}
	}
}
