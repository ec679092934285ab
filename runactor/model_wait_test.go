package runactor

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/pyrula/pyrula-node/flow"
)

// Wait suspends until a moment that the history shall have, a signal, or runs.
func (m *runModel) Wait(t *rapid.T) {
	kind := rapid.SampledFrom([]string{"moment", "signal", "runs"}).Draw(t, "kind")
	f := flow.Fields{Name: rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "name"), Flags: flow.FlagRecorded}
	next := m.o.next(kind, f.Name)
	f.Visit = rapid.SampledFrom([]int64{0, next, next, next + 1, next - 1}).Draw(t, "visit")
	bad := f.Visit != 0 && f.Visit != next
	w := awaiting{kind: kind, name: f.Name, visit: next, number: uint64(len(m.o.calls)) + 1}
	wakes := flow.Instant(0)
	switch kind {
	case "moment":
		f.Until = m.now + flow.Instant(rapid.Int64Range(-1, 2).Draw(t, "until"))*second
		wakes = f.Until
	case "signal":
		f.Flags = flow.FlagSignal
		if f.Interval = flow.Span(rapid.Int64Range(0, 2).Draw(t, "timeout")) * flow.Second; f.Interval > 0 {
			wakes = m.now.Add(f.Interval)
		}
	default:
		w.runs = rapid.SliceOfN(rapid.SampledFrom(testIDs(2, 3, 4, 2, 3, 4, 1)), 0, 3).Draw(t, "runs")
		w.ended = make(map[flow.RunID]bool)
		f.Flags, f.Extra = flow.FlagRuns, flow.EncodeRunIDs(w.runs)
		bad = bad || len(w.runs) == 0 || slices.Contains(w.runs, m.run.ID()) || twice(w.runs)
	}
	if !m.ending(t, flow.InSuspend, f, bad) {
		return
	}
	m.o.sameAttempt, m.o.suspended, m.o.wait, m.o.wakes, m.o.fresh = true, true, w, wakes, 0
	var letters []string
	for _, id := range w.runs {
		letters = append(letters, fmt.Sprint(flow.InWatch, id))
	}
	m.wantLetters(t, letters...)
	switch {
	case kind == "signal" && m.o.oldest(f.Name) >= 0:
		m.want(t, flow.RecSuspended, flow.RecWoken)
		m.woken(m.o.kept[m.o.oldest(f.Name)].Number)
	case kind == "moment" && wakes <= m.now:
		m.want(t, flow.RecSuspended, flow.RecWoken)
		m.woken(0)
	default:
		m.want(t, flow.RecSuspended)
	}
}

func twice(ids []flow.RunID) bool {
	for i := range ids {
		if slices.Contains(ids[:i], ids[i]) {
			return true
		}
	}
	return false
}

func (m *runModel) Watch(t *rapid.T) {
	w := flow.Waiter{Waits: rapid.SampledFrom(testIDs(5, 6)).Draw(t, "waits"), Asked: rapid.SampledFrom(testIDs(1, 7)).Draw(t, "asked"), Number: 1}
	m.step(flow.InWatch, flow.Fields{Other: w.Waits, Root: w.Asked, Number: w.Number})
	switch {
	case !m.submitted:
		m.refused(t, flow.ErrUnknownRun)
	case m.o.ended:
		m.want(t)
		m.wantLetters(t, fmt.Sprint(flow.InOutcome, w.Waits))
	case slices.Contains(m.o.waiters, w):
		m.want(t)
		m.wantLetters(t)
	default:
		m.want(t, flow.RecWatched)
		m.wantLetters(t)
		m.o.waiters = append(slices.Clone(m.o.waiters), w)
	}
}

// Outcome tells of an end: of one that is awaited, or not, by this wait or an older one.
func (m *runModel) Outcome(t *rapid.T) {
	id := rapid.SampledFrom(testIDs(2, 3, 4)).Draw(t, "run")
	number := rapid.SampledFrom([]uint64{m.o.wait.number, m.o.wait.number, 1, 2}).Draw(t, "number")
	m.step(flow.InOutcome, flow.Fields{Root: id, Number: number, Status: flow.StatusCompleted, Payload: []byte("r")})
	w := &m.o.wait
	switch {
	case !m.submitted:
		m.refused(t, flow.ErrUnknownRun)
	case !m.o.suspended || w.kind != "runs" || number != w.number || !slices.Contains(w.runs, id) || w.ended[id]:
		m.want(t)
	default:
		if w.ended[id] = true; len(m.o.open()) > 0 {
			m.want(t, flow.RecOutcome)
			return
		}
		m.want(t, flow.RecOutcome, flow.RecWoken)
		m.woken(0)
	}
}
