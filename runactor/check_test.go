package runactor

import (
	"testing"

	"github.com/pyrula/pyrula-node/flow"
)

// Fails when Check finds nothing wrong with a run that is broken in the way that
// the row says.
func TestCheckFindsWhatIsBroken(t *testing.T) {
	for name, c := range map[string]struct {
		life string
		do   func(*Run)
	}{
		"a state before the submit":     {"unsubmitted", func(r *Run) { r.order = 1 }},
		"a status of no run":            {"queued", func(r *Run) { r.status = flow.StatusContinued }},
		"no stamp":                      {"queued", func(r *Run) { r.stamp = nil }},
		"a mark of no run":              {"queued", func(r *Run) { r.marks = 0x80 }},
		"executing, held by nobody":     {"executing", func(r *Run) { r.marks = 0 }},
		"queued, held":                  {"queued", func(r *Run) { r.marks = markHeld }},
		"completed, asked to stop":      {"completed", func(r *Run) { r.marks = markCancel }},
		"executing, in back-off":        {"executing", func(r *Run) { r.marks |= markBackoff }},
		"executing, to be resumed":      {"executing", func(r *Run) { r.marks |= markSuspended }},
		"suspended twice":               {"suspended", func(r *Run) { r.marks |= markBackoff }},
		"suspended for nothing":         {"suspended", func(r *Run) { r.marks = 0 }},
		"executing, no past":            {"executing", func(r *Run) { r.past = nil }},
		"executing, never admitted":     {"executing", func(r *Run) { r.past.fence = 0 }},
		"admitted, no attempt":          {"executing", func(r *Run) { r.past.attempt = 0 }},
		"a worker without an admission": {"cancelled", func(r *Run) { r.past.worker = "w" }},
		"more failures than attempts":   {"executing", func(r *Run) { r.past.failures = 2 }},
		"an end of a fence to come":     {"suspended", func(r *Run) { r.past.last.fence = 2 }},
		"a holder that has ended":       {"executing", func(r *Run) { r.past.last = ending{flow.InFail, 1} }},
		"an end without a request":      {"suspended", func(r *Run) { r.past.last.kind = 0 }},
		"an end by a submit":            {"suspended", func(r *Run) { r.past.last.kind = flow.InSubmit }},
		"an end by a heartbeat":         {"suspended", func(r *Run) { r.past.last.kind = flow.InHeartbeat }},
		"a lease of nobody":             {"suspended", func(r *Run) { r.past.expiry = 1 }},
		"a timer of a cancelled run":    {"cancelled", func(r *Run) { r.past.until = 1 }},
		"an end of a run that goes on":  {"executing", func(r *Run) { r.past.ended = 1 }},
		"a result of a cancelled run":   {"cancelled", func(r *Run) { r.past.result = []byte{1} }},
		"an error of a completed run":   {"completed", func(r *Run) { r.past.errText = "x" }},
		"a reason without a stop":       {"executing", func(r *Run) { r.past.reason = "x" }},
		"an empty journal":              {"executing", func(r *Run) { r.past.journal = journal{} }},
		"a journal that goes back":      {"asked", func(r *Run) { r.past.journal.kept[1].at-- }},
		"a journal of another fence":    {"executing", func(r *Run) { r.past.journal.kept[0].fence = 2 }},
		"a journal of no event":         {"executing", func(r *Run) { r.past.journal.kept[0].kind = flow.RecRenewed }},
		"a journal that can't count":    {"executing", func(r *Run) { r.past.journal.text++ }},
		"an end that isn't told":        {"completed", func(r *Run) { r.past.journal.kept[1].kind = flow.RecExpired }},
		"an end that goes on":           {"completed", func(r *Run) { r.past.journal.kept[0].kind = flow.RecFailed }},
		"an end of a run that is not":   {"asked", func(r *Run) { r.past.journal.kept[1].kind = flow.RecFailed }},

		"a wait that executes":               {"recorded", func(r *Run) { r.past.book.wait = wait{kind: waitMoment} }},
		"a wait of an ended run":             {"completed", func(r *Run) { r.past.book.wait = wait{kind: waitSignal, name: "x"} }},
		"two things to wait for":             {"waits for a signal", func(r *Run) { r.marks = markBackoff }},
		"a signal that it keeps":             {"waits for a signal", func(r *Run) { r.past.book.wait.name = "y" }},
		"runs that have all ended":           {"waits for runs", func(r *Run) { w := &r.past.book.wait; w.ended[1], w.ended[2] = true, true }},
		"more runs than ends":                {"waits for runs", func(r *Run) { w := &r.past.book.wait; w.awaited = w.awaited[:2] }},
		"more outcomes than ends":            {"waits for runs", func(r *Run) { w := &r.past.book.wait; w.known = append(w.known, Outcome{}) }},
		"nothing that can wake it":           {"suspended", func(r *Run) { r.past.until = 0 }},
		"a signal's wait that is lost":       {"waits for a signal", func(r *Run) { r.past.book.wait, r.past.until = wait{}, 0 }},
		"no successor":                       {"continued", func(r *Run) { r.past.book.successor = flow.RunID{} }},
		"a successor of a run that goes on":  {"recorded", func(r *Run) { r.past.book.successor = testID(9) }},
		"a chain of a run that goes on":      {"recorded", func(r *Run) { r.past.book.chain = 1 }},
		"continued after its start":          {"continued", func(r *Run) { r.past.fence, r.past.attempt = 1, 1 }},
		"a history that can't count":         {"recorded", func(r *Run) { r.past.book.bytes++ }},
		"a state that isn't counted":         {"recorded", func(r *Run) { r.past.book.state = nil }},
		"an outcome that isn't counted":      {"waits for runs", func(r *Run) { r.past.book.wait.known[0].Payload = nil }},
		"signals out of order":               {"recorded", func(r *Run) { b := r.past.book; b.keep(b.signals[0]); b.last = 9 }},
		"a signal from the future":           {"recorded", func(r *Run) { r.past.book.last = 1 }},
		"a delivery that isn't there":        {"recorded", func(r *Run) { r.past.book.fresh = 99 }},
		"a delivery of a step":               {"recorded", func(r *Run) { r.past.book.fresh = 1 }},
		"too many waiters":                   {"telling", func(r *Run) { r.past.book.waiters = make([]flow.Waiter, flow.MaxWaiters+1) }},
		"an empty journal of a started run":  {"requeued", func(r *Run) { r.past.journal = journal{} }},
		"an emptied journal of a queued run": {"successor", func(r *Run) { r.past.journal.dropped = 1 }},
	} {
		w := newWorld(t)
		w.now = epoch
		lives[c.life].make(w)
		if err := w.run.Check(); err != nil {
			t.Fatalf("%s: %v before anything was broken", c.life, err)
		}
		if c.do(w.run); w.run.Check() == nil {
			t.Errorf("%s: Check finds nothing", name)
		}
	}
}
