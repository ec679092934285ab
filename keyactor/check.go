package keyactor

import (
	"fmt"

	"github.com/pyrula/pyrula-node/flow"
)

// Check reports the first law that the state breaks, or nil. It reads everything,
// so it is for tests and for builds that look for faults.
func (k *Key) Check() error {
	for _, check := range []func() error{k.checkSlots, k.checkQueue, k.checkAsks, k.checkWants, k.checkBatch} {
		if err := check(); err != nil {
			return fmt.Errorf("keyactor: %v: %w", k.id, err)
		}
	}
	return nil
}

// checkSlots: used is what the holders took and what is set aside.
func (k *Key) checkSlots() (err error) {
	used := int64(0)
	last := flow.RunID{}
	k.holders.each(func(h holder) bool {
		if h.slot {
			used++
		}
		_, limited := h.limit()
		switch {
		case h.fence == 0:
			err = fmt.Errorf("holder %v has no fence", h.run)
		case h.slot != limited:
			err = fmt.Errorf("holder %v and its stamp disagree about a slot", h.run)
		case h.run.Compare(last) <= 0 && !last.IsZero():
			err = fmt.Errorf("holder %v is out of order", h.run)
		}
		last = h.run
		return err == nil
	})
	k.asks.each(func(a *ask) bool {
		if a.reserved {
			used++
		}
		return true
	})
	if err == nil && used != k.used {
		err = fmt.Errorf("%d slots are used and %d are counted", used, k.used)
	}
	if err == nil && k.tat < 0 {
		err = fmt.Errorf("the bucket stands at %d", k.tat)
	}
	return err
}

// checkQueue: the queue is in order and holds no run that holds a slot or whose
// want is under way.
func (k *Key) checkQueue() (err error) {
	var last *waiter
	k.waiting.each(func(w waiter) bool {
		if _, held := k.holds(w.run); held {
			err = fmt.Errorf("run %v waits and holds", w.run)
		}
		if a := k.asks.of(w.run); a != nil && a.awake {
			err = fmt.Errorf("run %v waits while its want is under way", w.run)
		}
		if last != nil && !last.before(w) {
			err = fmt.Errorf("run %v is out of order", w.run)
		}
		last = &w
		return err == nil
	})
	return err
}

// checkAsks: each want of this home is of a run that needs a token of another key,
// and stands in the sets that its marks say.
func (k *Key) checkAsks() (err error) {
	if k.asks == nil {
		return nil
	}
	seen, owed, passed, aside := 0, 0, 0, 0
	k.asks.each(func(a *ask) bool {
		seen++
		_, elsewhere := a.remote(k.id.Workflow)
		queued, waits := k.waiting.get(a.waiter)
		_, held := k.holds(a.run)
		switch {
		case k.asks.byRun[a.run] != a:
			err = fmt.Errorf("the want of run %v is filed twice", a.run)
		case !elsewhere:
			err = fmt.Errorf("run %v asked for a token it doesn't need", a.run)
		case a.awake == waits || held:
			err = fmt.Errorf("run %v with its want stands in two places or in none", a.run)
		case waits && queued != a.waiter:
			err = fmt.Errorf("run %v differs between the queue and its want", a.run)
		}
		if a.reserved {
			aside++
		}
		if a.reserved && !a.awake {
			owed++
		}
		if a.since != 0 && !a.reserved {
			passed++
		}
		return err == nil
	})
	have := [...]int{len(k.asks.byRun), k.asks.owed.len(), k.asks.passed.len(), k.asks.aside}
	if want := [...]int{seen, owed, passed, aside}; err == nil && have != want {
		err = fmt.Errorf("wants are misfiled: all, owed, passed over and set aside are %v, counted %v", want, have)
	}
	return err
}

// checkWants: each want at this key is filed once and names its home and its rate.
func (k *Key) checkWants() (err error) {
	if k.wants == nil {
		return nil
	}
	seen := 0
	k.wants.each(func(w *want) bool {
		seen++
		switch {
		case k.wants.byRun[w.run] != w:
			err = fmt.Errorf("the want of run %v is filed twice", w.run)
		case w.peer == flow.KeyID{} || w.peer == k.id:
			err = fmt.Errorf("the want of run %v has no other home", w.run)
		case w.rate.interval <= 0 || w.rate.burst < 1:
			err = fmt.Errorf("the want of run %v has no rate", w.run)
		}
		return err == nil
	})
	if err == nil && seen != len(k.wants.byRun) {
		err = fmt.Errorf("wants are misfiled: %d of %d seen", seen, len(k.wants.byRun))
	}
	return err
}
