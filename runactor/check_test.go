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
	} {
		w := newWorld(t)
		lives[c.life].make(w)
		if err := w.run.Check(); err != nil {
			t.Fatalf("%s: %v before anything was broken", c.life, err)
		}
		if c.do(w.run); w.run.Check() == nil {
			t.Errorf("%s: Check finds nothing", name)
		}
	}
}
