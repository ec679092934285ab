package keyactor

import (
	"fmt"

	"github.com/pyrula/pyrula-node/flow"
)

// holder is a run that executes, or one that was terminated and whose last worker
// hasn't said so yet (R20).
type holder struct {
	waiter
	fence      uint64
	slot       bool // its stamp has a Limit, so a slot was taken and will be freed
	terminated bool
}

func (h holder) before(o holder) bool { return h.run.Compare(o.run) < 0 }

// holds is the holder of that name, if there is one.
func (k *Key) holds(run flow.RunID) (holder, bool) {
	return k.holders.get(holder{waiter: waiter{place: place{run: run}}})
}

// slotFree says whether the run's own max lets one more in (P59, P86).
func (k *Key) slotFree(w *waiter) bool {
	limit, ok := w.limit()
	return !ok || k.used < limit
}

// hold makes the run a holder. Without a Limit it takes no slot, but its fence
// counts all the same.
func (k *Key) hold(w waiter, fence uint64) {
	_, slot := w.limit()
	if slot {
		k.used++
	}
	w.started = true
	if !k.holders.put(holder{waiter: w, fence: fence, slot: slot}) {
		k.broken("admitted twice", w.run, fence)
	}
}

// free ends a hold and gives its slot back. What was taken is read from the holder
// itself. Freeing what isn't held would let one run too many start later, so it
// stops the process here (P3).
func (k *Key) free(run flow.RunID, fence uint64) holder {
	h, ok := k.holds(run)
	if !ok || h.fence != fence {
		k.broken("freed without being held", run, fence)
	}
	k.holders.remove(h)
	if h.slot {
		k.used--
	}
	return h
}

// terminate turns a holder into a hold that only its fence can free.
func (k *Key) terminate(run flow.RunID, fence uint64) {
	h, ok := k.holds(run)
	if !ok || h.fence != fence || h.terminated {
		k.broken("terminated without being held", run, fence)
	}
	h.terminated = true
	k.holders.put(h)
}

// broken stops on a programmer's error: the record contradicts the state.
func (k *Key) broken(what string, run flow.RunID, fence uint64) {
	panic(fmt.Sprintf("keyactor: %v: run %v, fence %d: %s", k.id, run, fence, what))
}
