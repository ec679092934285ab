package runactor

import (
	"slices"

	"github.com/pyrula/pyrula-node/flow"
)

// ItemKind says what an entry of a run's history is.
type ItemKind uint8

// The entries of a history. Their numbers stand in snapshots.
const (
	ItemStep      ItemKind = 1 // a step's result
	ItemStepError ItemKind = 2 // a step that failed, and the body went on
	ItemMoment    ItemKind = 3 // a wait for a moment that is over
	ItemSignal    ItemKind = 4 // a wait that got its signal
	ItemTimeout   ItemKind = 5 // a wait for a signal that none came for in time
	ItemRuns      ItemKind = 6 // a wait for runs that have all ended
	ItemChildren  ItemKind = 7 // children that were started
	ItemWorkflows ItemKind = 8 // runs that were started and are on their own
	lastItem               = ItemWorkflows
)

// Item is one entry of a run's history: what the Visit-th call of Name in the body came
// to. It is shared and never changed.
type Item struct {
	Kind     ItemKind
	Name     string
	Visit    int64
	Payload  []byte // of ItemStep and ItemSignal
	ErrType  string // of ItemStepError
	ErrText  string
	Cost     int64        // of a step
	Signal   uint64       // number of the signal, of ItemSignal
	Request  string       // of the signal's sender
	Runs     []flow.RunID // that were started, or waited for
	Outcomes []Outcome    // of ItemRuns, in the order of Runs
}

// Outcome is how an awaited run ended. Status zero says that no run has the id.
type Outcome struct {
	Status  flow.Status
	Payload []byte
	ErrType string
	ErrText string
}

// itemOverhead is what an entry counts for beside its texts.
const itemOverhead = 64

// Size is what the entry counts for, in bytes.
func (it *Item) Size() int {
	n := itemOverhead + len(it.Name) + len(it.Payload) + len(it.ErrType) + len(it.ErrText) + len(it.Request)
	n += len(it.Runs) * len(flow.RunID{})
	for i := range it.Outcomes {
		n += it.Outcomes[i].size()
	}
	return n
}

func (o *Outcome) size() int {
	return itemOverhead + len(o.Payload) + len(o.ErrType) + len(o.ErrText)
}

func signalSize(s *flow.Signal) int {
	return itemOverhead + len(s.Name) + len(s.Payload) + len(s.RequestID)
}

// sort groups the kinds that share one count of visits: a wait for a signal is the n-th
// whether its signal came or not.
func (k ItemKind) sort() ItemKind {
	switch k {
	case ItemStepError:
		return ItemStep
	case ItemTimeout:
		return ItemSignal
	case ItemWorkflows:
		return ItemChildren
	default:
		return k
	}
}

// book is what a run has recorded and keeps. A run that has recorded nothing has none.
type book struct {
	items   []Item        // append-only
	signals []flow.Signal // that no wait has got, oldest first
	last    uint64        // number of the last signal that came
	fresh   int           // items[fresh-1] got a signal, and the body has not gone on since; 0 for none
	state   []byte
	bytes   int // of all above
	waiters []flow.Waiter

	wait      wait         // what a suspension waits for
	successor flow.RunID   // of a run that was handed on
	chain     flow.Instant // when the chain behind it ended (R14)

	// places finds an entry by its call, and counts the calls of a name under visit zero,
	// in a book of more than a few entries. It is derived from items.
	places map[call]int
}

// call is what a body calls, and how often it has.
type call struct {
	kind  ItemKind
	name  string
	visit int64
}

func (it *Item) call() call { return call{it.Kind.sort(), it.Name, it.Visit} }

// fewItems is how many entries are looked at one by one.
const fewItems = 32

// filed is the index, made when it is worth it; nil in a small book.
func (b *book) filed() map[call]int {
	if b.places == nil && len(b.items) > fewItems {
		b.places = make(map[call]int, len(b.items))
		for i := range b.items {
			b.file(i)
		}
	}
	return b.places
}

func (b *book) file(i int) {
	c := b.items[i].call()
	if _, known := b.places[c]; !known {
		b.places[c] = i
	}
	c.visit = 0
	b.places[c]++
}

// noted is the run's book, made when there is none yet.
func (r *Run) noted() *book {
	p := r.touched()
	if p.book == nil {
		p.book = new(book)
	}
	return p.book
}

// peek is the run's book for reading: an empty one when there is none.
func (r *Run) peek() *book {
	if r.past == nil || r.past.book == nil {
		return &emptyBook
	}
	return r.past.book
}

var emptyBook book // never written

func (b *book) empty() bool {
	return len(b.items)+len(b.signals)+len(b.waiters)+len(b.state) == 0 && b.last == 0
}

func (b *book) add(it Item) {
	b.items = append(b.items, it)
	b.bytes += it.Size()
	if b.places != nil {
		b.file(len(b.items) - 1)
	}
}

// told forgets a waiter. The list is copied, since luggage may share it.
func (b *book) told(w flow.Waiter) {
	i := slices.Index(b.waiters, w)
	if i < 0 {
		return
	}
	b.waiters = slices.Concat(b.waiters[:i], b.waiters[i+1:])
	if len(b.waiters) == 0 {
		b.waiters = nil
	}
}

// find is the entry of a call, or nil.
func (b *book) find(k ItemKind, name string, visit int64) *Item {
	if places := b.filed(); places != nil {
		if i, ok := places[call{k.sort(), name, visit}]; ok && visit != 0 {
			return &b.items[i]
		}
		return nil
	}
	for i := range b.items {
		if it := &b.items[i]; it.Visit == visit && it.Kind.sort() == k.sort() && it.Name == name {
			return it
		}
	}
	return nil
}

// visits counts the calls of a name that stand in the book.
func (b *book) visits(k ItemKind, name string) int64 {
	if places := b.filed(); places != nil {
		return int64(places[call{k.sort(), name, 0}])
	}
	n := int64(0)
	for i := range b.items {
		if it := &b.items[i]; it.Kind.sort() == k.sort() && it.Name == name {
			n++
		}
	}
	return n
}

// kept is the oldest kept signal of a name that isn't among taken, or nil.
func (b *book) kept(name string, taken []uint64) *flow.Signal {
	for i := range b.signals {
		if s := &b.signals[i]; s.Name == name && !slices.Contains(taken, s.Number) {
			return s
		}
	}
	return nil
}

// repeated is the number of the signal that an earlier sending of the same request
// left, or zero.
func (b *book) repeated(request string) uint64 {
	if request == "" {
		return 0
	}
	for i := range b.signals {
		if b.signals[i].RequestID == request {
			return b.signals[i].Number
		}
	}
	for i := range b.items {
		if b.items[i].Request == request {
			return b.items[i].Signal
		}
	}
	return 0
}

// keep adds a signal.
func (b *book) keep(s flow.Signal) {
	b.signals = append(b.signals, s)
	b.last = s.Number
	b.bytes += signalSize(&s)
}

// keeps says whether the run keeps a signal of that number.
func (r *Run) keeps(number uint64) bool {
	return slices.ContainsFunc(r.peek().signals, func(s flow.Signal) bool { return s.Number == number })
}

// hand gives a kept signal to a wait: the list is copied, since readers share it.
func (b *book) hand(number uint64, name string, visit int64) {
	i := slices.IndexFunc(b.signals, func(s flow.Signal) bool { return s.Number == number })
	s := b.signals[i]
	b.bytes -= signalSize(&s)
	b.signals = slices.Concat(b.signals[:i], b.signals[i+1:])
	if len(b.signals) == 0 {
		b.signals = nil
	}
	b.add(Item{Kind: ItemSignal, Name: name, Visit: visit, Payload: s.Payload, Signal: s.Number, Request: s.RequestID})
	b.fresh = len(b.items)
}

// History is a page of what the run has recorded: the entries behind the one of number
// after, up to so many bytes, but one at least; more says that others follow. The
// number of an entry is its place, from 1.
func (r *Run) History(after int64, most int) (items []Item, more bool) {
	all := r.peek().items
	if after < 0 || after >= int64(len(all)) {
		return nil, false
	}
	items = all[after:]
	size := 0
	for i := range items {
		if size += items[i].Size(); size > most && i > 0 {
			return items[:i:i], true
		}
	}
	return items, false
}

// Entry is what a call of the body came to, with its place in the history.
func (r *Run) Entry(k ItemKind, name string, visit int64) (it Item, place int64, ok bool) {
	items := r.peek().items
	found := r.peek().find(k, name, visit)
	for i := range items {
		if found == &items[i] {
			return items[i], int64(i) + 1, true
		}
	}
	return Item{}, 0, false
}

// State is the state that the body has recorded; nil for none.
func (r *Run) State() []byte { return r.peek().state }

// KeptSignal is a signal as a holder sees it.
type KeptSignal struct {
	flow.Signal
	Delivered bool // the last wait got it, and the body has not gone on since (S100)
}

// Signals are the signals that the body has still to handle, oldest first.
func (r *Run) Signals() []KeptSignal {
	b := r.peek()
	if b.fresh == 0 && len(b.signals) == 0 {
		return nil
	}
	list := make([]KeptSignal, 0, len(b.signals)+1)
	if b.fresh > 0 {
		it := &b.items[b.fresh-1]
		list = append(list, KeptSignal{
			Signal:    flow.Signal{Number: it.Signal, Name: it.Name, Payload: it.Payload, RequestID: it.Request},
			Delivered: true,
		})
	}
	for _, s := range b.signals {
		list = append(list, KeptSignal{Signal: s})
	}
	return list
}
