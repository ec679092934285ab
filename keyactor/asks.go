package keyactor

import "github.com/pyrula/pyrula-node/flow"

// PassedOver is how long a run may be passed over, counted from the first token
// that it couldn't use, until the next free slot is set aside for it (R4).
const PassedOver = 60 * flow.Second

// ask is the home side of a want: a run that asked another key for its token and
// has neither been admitted nor left.
type ask struct {
	waiter
	since    flow.Instant // of the first token that couldn't be used; zero before
	awake    bool         // the want is under way, and the run isn't in the queue
	reserved bool         // a slot is set aside for it
}

// asks are all runs of this home with a want. A nil *asks is empty.
type asks struct {
	byRun   map[flow.RunID]*ask             // never iterated
	byPeer  map[string]*ordered[askByPlace] // by the value of the Rate's key; never iterated
	awake   ordered[askByPlace]
	resting ordered[askByPlace]
	owed    ordered[askByPlace] // resting with a slot set aside: they ask again first
	passed  ordered[askByWait]  // passed over, and no slot set aside yet
	aside   int                 // slots set aside
}

type askByPlace struct{ *ask }

func (a askByPlace) before(o askByPlace) bool { return a.place.before(o.place) }

// askByWait orders by the time of waiting: the run that was passed over first
// gets the next free slot.
type askByWait struct{ *ask }

func (a askByWait) before(o askByWait) bool {
	if a.since != o.since {
		return a.since < o.since
	}
	return a.place.before(o.place)
}

func (s *asks) len() int {
	if s == nil {
		return 0
	}
	return len(s.byRun)
}

// of is the want of the run, or nil.
func (s *asks) of(run flow.RunID) *ask {
	if s == nil {
		return nil
	}
	return s.byRun[run]
}

// underWay is the number of runs whose want is under way.
func (s *asks) underWay() int64 {
	if s == nil {
		return 0
	}
	return int64(s.awake.len())
}

// unslotted is the number of runs under way that will need a free slot: those with
// one set aside are counted as used already.
func (s *asks) unslotted() int64 {
	if s == nil {
		return 0
	}
	return int64(s.awake.len() - (s.aside - s.owed.len()))
}

// nextOwed is the oldest run that has a slot and must ask again.
func (s *asks) nextOwed() *ask {
	if s == nil {
		return nil
	}
	a, _ := s.owed.first()
	return a.ask
}

// nextPassed is the run that has been passed over for the longest time.
func (s *asks) nextPassed() *ask {
	if s == nil {
		return nil
	}
	a, _ := s.passed.first()
	return a.ask
}

// overdue is the run for which the next free slot is to be set aside.
func (s *asks) overdue(now flow.Instant) *ask {
	if a := s.nextPassed(); a != nil && a.since.Add(PassedOver) <= now {
		return a
	}
	return nil
}

// oldestAwake is the first run in order whose want is under way.
func (s *asks) oldestAwake() *ask {
	if s == nil {
		return nil
	}
	a, _ := s.awake.first()
	return a.ask
}

// firstOf is the first run in order that asked the same key as a did.
func (s *asks) firstOf(a *ask) *ask {
	first, _ := s.byPeer[a.stamp.Rate().Key].first()
	return first.ask
}

// each calls yield for the wants under way, in order, then for those that rest.
func (s *asks) each(yield func(*ask) bool) {
	if s == nil {
		return
	}
	more := true
	visit := func(a askByPlace) bool {
		more = yield(a.ask)
		return more
	}
	s.awake.each(visit)
	if more {
		s.resting.each(visit)
	}
}

// file puts the want into the sets that its marks say; unfile takes it out. Marks
// change only between the two.
func (s *asks) file(a *ask) {
	s.byRun[a.run] = a
	s.filePeer(a)
	if a.reserved {
		s.aside++
	}
	if a.awake {
		s.awake.put(askByPlace{a})
	} else {
		s.resting.put(askByPlace{a})
		if a.reserved {
			s.owed.put(askByPlace{a})
		}
	}
	if a.since != 0 && !a.reserved {
		s.passed.put(askByWait{a})
	}
}

func (s *asks) unfile(a *ask) {
	delete(s.byRun, a.run)
	s.unfilePeer(a)
	if a.reserved {
		s.aside--
	}
	s.awake.remove(askByPlace{a})
	s.resting.remove(askByPlace{a})
	s.owed.remove(askByPlace{a})
	if a.since != 0 {
		s.passed.remove(askByWait{a})
	}
}

func (s *asks) filePeer(a *ask) {
	if a.stamp == nil {
		return // decoded, and its run not adopted yet
	}
	peer := a.stamp.Rate().Key
	set := s.byPeer[peer]
	if set == nil {
		set = new(ordered[askByPlace])
		s.byPeer[peer] = set
	}
	set.put(askByPlace{a})
}

func (s *asks) unfilePeer(a *ask) {
	if a.stamp == nil {
		return
	}
	peer := a.stamp.Rate().Key
	if set := s.byPeer[peer]; set != nil {
		set.remove(askByPlace{a})
		if set.len() == 0 {
			delete(s.byPeer, peer)
		}
	}
}

// addAsk makes the want of a run that has none.
func (k *Key) addAsk(a *ask) {
	if k.asks == nil {
		k.asks = &asks{byRun: make(map[flow.RunID]*ask), byPeer: make(map[string]*ordered[askByPlace])}
	}
	k.asks.file(a)
}
