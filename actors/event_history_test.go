package actors_test

import (
	"bytes"
	"slices"

	"github.com/pyrula/pyrula-node/flow"
)

// keyHistory is what became of the events of one key, as the logs tell it.
type keyHistory struct {
	events []int // their numbers, in the order in which the key took them
	sets   [][]int
	runs   []flow.RunID
	cutAt  []flow.Instant
	late   []flow.Span // behind the deadline; of a batch that was filled below zero
	open   *openHistory
}

type openHistory struct {
	run      flow.RunID
	deadline flow.Instant
	due      bool
	events   []int
	ids      map[string]bool
}

type batchHistory struct {
	w    *world
	keys map[flow.KeyID]*keyHistory
}

// batchHistory reads all logs, and fails for a history that breaks a law of batches: an event
// without a deadline, a batch that is cut early, twice, or as another one, an id that stands
// twice in it.
func (w *world) batchHistory() *batchHistory {
	w.Helper()
	h := &batchHistory{w: w, keys: map[flow.KeyID]*keyHistory{}}
	for s := range w.shards {
		all, _ := w.entries(shardID(s))
		for i := range all {
			for j := range all[i].records {
				r := &all[i].records[j]
				filled := j > 0 && all[i].records[j-1].Kind == flow.RecEvent && all[i].records[j-1].Key == r.Key
				if r.Kind >= flow.RecBatchOpened && r.Kind <= flow.RecBatchCut {
					h.take(r, flow.Instant(all[i].Wall), filled)
				}
			}
		}
	}
	return h
}

// take takes one record; filled says that an event of the key stands right before it.
func (h *batchHistory) take(r *flow.Record, at flow.Instant, filled bool) {
	w := h.w
	w.Helper()
	k := h.keys[r.Key]
	if k == nil {
		k = &keyHistory{}
		h.keys[r.Key] = k
	}
	if (k.open == nil) != (r.Kind == flow.RecBatchOpened) {
		w.Fatalf("record %s of %s without a batch, or on one", r.Kind, r.Key)
	}
	switch r.Kind {
	case flow.RecBatchOpened:
		if r.Until < at || r.Run.IsZero() || slices.Contains(k.runs, r.Run) {
			w.Errorf("%s: batch %s opened at %d has the deadline %d", r.Key, r.Run, at, r.Until)
		}
		k.open = &openHistory{run: r.Run, deadline: r.Until, ids: map[string]bool{}}
	case flow.RecEvent:
		if r.Until != 0 {
			k.open.deadline, k.open.due = r.Until, false
		}
		if k.open.ids[r.IdempotencyKey] && r.IdempotencyKey != "" {
			w.Errorf("%s: batch %s took id %q twice", r.Key, k.open.run, r.IdempotencyKey)
		}
		k.open.ids[r.IdempotencyKey] = true
		n := numberOf(w, r.Payload)
		k.events, k.open.events = append(k.events, n), append(k.open.events, n)
	case flow.RecBatchDue:
		if at < k.open.deadline || k.open.due || r.Run != k.open.run {
			w.Errorf("%s: batch %s is due at %d, its deadline is %d", r.Key, r.Run, at, k.open.deadline)
		}
		k.open.due = true
	case flow.RecBatchCut:
		if at < k.open.deadline && !filled || r.Run != k.open.run || int(r.Number) != len(k.open.events) {
			w.Errorf("%s: batch %s is cut at %d with %d events, filled %t; its deadline is %d and it has %d",
				r.Key, r.Run, at, r.Number, filled, k.open.deadline, len(k.open.events))
		}
		k.sets, k.runs = append(k.sets, k.open.events), append(k.runs, r.Run)
		k.cutAt, k.late = append(k.cutAt, at), append(k.late, at.Sub(k.open.deadline))
		k.open = nil
	}
}

func numberOf(w *world, event []byte) int {
	w.Helper()
	_, list := w.numbers(string(flow.BatchParams("", bytes.Clone(event), 1)))
	return list[0]
}

// inOrder fails unless every run has the events that its key took for it, in their order, and
// those that were sent and acknowledged once stand in the order of their sending.
func (h *batchHistory) inOrder(s *sender) {
	w := h.w
	w.Helper()
	for id, k := range h.keys {
		if k.open != nil {
			w.Errorf("%s: batch %s is open at the end", id, k.open.run)
		}
		for i, run := range k.runs {
			if _, list := w.numbers(w.params(run)); !slices.Equal(list, k.sets[i]) {
				w.Errorf("%s: run %s has the events %v, its key took %v for it", id, run, list, k.sets[i])
			}
		}
		last := -1
		for _, n := range k.events {
			if e := s.events[n]; !e.answered || slices.Contains(s.repeated, n) {
				continue
			}
			if n < last {
				w.Errorf("number %d: %s took event %d behind %d", s.number, id, n, last)
			}
			last = n
		}
	}
}
