package keyactor

import "github.com/pyrula/pyrula-node/flow"

// A token that has come back stays for the head of this key's own queue for a
// while, before a want of a younger run gets it: an offer needs that long to come.
// The time is the head's own interval within these bounds, so that a head without
// a worker costs the others at most half of the rate.
const (
	headGraceMin = 10 * flow.Millisecond
	headGraceMax = 1 * flow.Second
)

// want is the Rate side of a run that is at home in another key.
type want struct {
	place
	peer  flow.KeyID // the run's home
	rate  rate
	awake bool // it gets the next token; a resting one gets none until it is asked for again
}

// wants are all wants at this key. A nil *wants is empty.
type wants struct {
	byRun   map[flow.RunID]*want // never iterated
	awake   ordered[wantByPlace]
	resting ordered[wantByPlace]
}

type wantByPlace struct{ *want }

func (w wantByPlace) before(o wantByPlace) bool { return w.place.before(o.place) }

func (s *wants) len() int {
	if s == nil {
		return 0
	}
	return len(s.byRun)
}

// of is the want of the run, or nil.
func (s *wants) of(run flow.RunID) *want {
	if s == nil {
		return nil
	}
	return s.byRun[run]
}

// first is the oldest want that is awake, or nil.
func (s *wants) first() *want {
	if s == nil {
		return nil
	}
	w, _ := s.awake.first()
	return w.want
}

// each calls yield for the wants that are awake, in order, then for those that
// rest.
func (s *wants) each(yield func(*want) bool) {
	if s == nil {
		return
	}
	more := true
	visit := func(w wantByPlace) bool {
		more = yield(w.want)
		return more
	}
	s.awake.each(visit)
	if more {
		s.resting.each(visit)
	}
}

func (s *wants) file(w *want) {
	s.byRun[w.run] = w
	if w.awake {
		s.awake.put(wantByPlace{w})
	} else {
		s.resting.put(wantByPlace{w})
	}
}

func (s *wants) unfile(w *want) {
	delete(s.byRun, w.run)
	s.awake.remove(wantByPlace{w})
	s.resting.remove(wantByPlace{w})
}

// setWant puts the want in, in place of what stands there for its run.
func (k *Key) setWant(w *want) {
	if k.wants == nil {
		k.wants = &wants{byRun: make(map[flow.RunID]*want)}
	}
	if old := k.wants.of(w.run); old != nil {
		k.wants.unfile(old)
	}
	k.wants.file(w)
	k.shown.rate = w.rate
}

// dropWant takes the want of the run out, if there is one.
func (k *Key) dropWant(run flow.RunID) {
	if w := k.wants.of(run); w != nil {
		k.wants.unfile(w)
	}
}

// turnAt is the instant from which the oldest want gets its token. Wants and this
// key's own runs are one queue (P61): the oldest want waits for the bucket to open
// under its own rate, and if the head of the own queue is older, it also leaves
// the head a token, unless the head can't use one: its Limit refuses, or no offer
// has come within the grace. There must be a want.
func (k *Key) turnAt() flow.Instant {
	w := k.wants.first()
	at := w.rate.opensAt(k.tat)
	head, waits := k.head()
	if !waits || !head.place.before(w.place) || !k.slotFree(&head) {
		return at
	}
	r, needs := k.localRate(&head)
	if !needs {
		return at
	}
	// The head may have come after the bucket opened; then the grace counts from its
	// own instant.
	grace := min(max(r.interval, headGraceMin), headGraceMax)
	spared := max(r.opensAt(k.tat), head.order).Add(grace)
	if w.rate.interval <= r.depth() { // a second token is there when this one is taken
		spared = min(spared, r.opensAt(k.tat.Add(w.rate.interval)))
	}
	return max(at, spared)
}

// tick gives the oldest want its token, if it is its turn.
func (k *Key) tick(now flow.Instant, out *flow.Out) {
	w := k.wants.first()
	if w == nil || k.turnAt() > now {
		return
	}
	before, after := settled(k.tat, now), w.rate.take(k.tat, now)
	r := out.Record(flow.RecTokenGiven, now)
	r.Key, r.Peer, r.Run, r.Before, r.After = k.id, w.peer, w.run, before, after
	e := out.Send(flow.InToken)
	e.Key, e.Peer, e.Run, e.Order = w.peer, k.id, w.run, w.order
	e.Interval, e.Burst, e.Before, e.After = w.rate.interval, w.rate.burst, before, after
}

// want puts a run of another home into the queue for this key's tokens, or wakes
// it there.
func (k *Key) want(now flow.Instant, in *flow.Input, out *flow.Out) {
	if w := k.wants.of(in.Run); w != nil && w.awake {
		return
	}
	r := out.Record(flow.RecWanted, now)
	r.Key, r.Peer, r.Run, r.Order = k.id, in.Peer, in.Run, in.Order
	r.Interval, r.Burst = in.Interval, in.Burst
}

func (k *Key) unwant(now flow.Instant, in *flow.Input, out *flow.Out) {
	if k.wants.of(in.Run) == nil {
		return // its token is under way, and home sends that back
	}
	r := out.Record(flow.RecUnwanted, now)
	r.Key, r.Run = k.id, in.Run
}

// unused takes a token back. The bucket goes back to what it was only if nobody
// took a token since: else a later token would have been taken from a bucket that
// never was, and too many starts could follow. Such a token is lost (R3).
func (k *Key) unused(now flow.Instant, in *flow.Input, out *flow.Out) {
	r := out.Record(flow.RecTokenBack, now)
	r.Key, r.Peer, r.Run, r.Order = k.id, in.Peer, in.Run, in.Order
	r.Interval, r.Burst = in.Interval, in.Burst
	r.Flags = in.Flags & flow.FlagDropped
	if k.tat == in.After {
		r.Before = in.Before
	} else {
		r.Flags |= flow.FlagForfeited
	}
}
