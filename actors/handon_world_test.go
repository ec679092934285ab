package actors_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// claimOf is a claim for one version of a workflow, of a worker that is named after it.
func claimOf(workflow, version string, credit int, wait time.Duration) (worker string, c wire.Claim) {
	return "worker of " + version, wire.Claim{
		Workflows: []wire.ClaimWorkflow{{Name: workflow, Version: version}}, Credit: credit, WaitMS: wait.Milliseconds(),
	}
}

// claimBy claims as the worker of a version, and waits a moment for letters to arrive.
func (w *world) claimBy(workflow, version string, credit int) []wire.Grant {
	w.Helper()
	return await(w, w.claimingAs(claimOf(workflow, version, credit, 20*time.Millisecond)))
}

// claimOne claims as the worker of a version and fails unless it is granted one run.
func (w *world) claimOne(workflow, version string) wire.Grant {
	w.Helper()
	g := w.claimBy(workflow, version, 1)
	if len(g) != 1 {
		w.Fatalf("a worker of %s is granted %s, want one run", version, names(g))
	}
	return g[0]
}

// last is the id of the last run of the chain that begins with id.
func (w *world) last(id flow.RunID) flow.RunID {
	w.Helper()
	return w.id(w.status(id).RunID)
}

// events are a run's own events.
func (w *world) events(id flow.RunID) []wire.Event {
	w.Helper()
	return await(w, w.journal(id)).Events
}

// chainOf are the runs of the chain that begins with id, as their own journals tell it.
func (w *world) chainOf(id flow.RunID) []flow.RunID {
	w.Helper()
	chain := []flow.RunID{id}
	for {
		all := w.events(chain[len(chain)-1])
		if e := all[len(all)-1]; e.Type == flow.EventContinued {
			chain = append(chain, w.id(e.Runs[0]))
			continue
		}
		return chain
	}
}

// handedOn fails unless from was handed on to the successor, and whoever asks hears so.
func (w *world) handedOn(from, to flow.RunID) {
	w.Helper()
	w.handedOnVia(from, from, to)
}

// handedOnVia is handedOn for a successor whose chain begins with root.
func (w *world) handedOnVia(root, from, to flow.RunID) {
	w.Helper()
	if from == to {
		w.Fatalf("run %s was not handed on", from)
	}
	all := w.events(from)
	if e := all[len(all)-1]; e.Type != flow.EventContinued || !slices.Equal(e.Runs, []string{to.String()}) {
		w.Errorf("the events of %s end with %+v", from, e)
	}
	for _, e := range all {
		if e.Type == flow.EventClaimed {
			w.Errorf("run %s was claimed and handed on", from)
		}
	}
	r := w.status(from)
	if r.RunID != to.String() || r.RequestedRunID != from.String() || r.ContinuedTo == nil || *r.ContinuedTo != to.String() {
		w.Errorf("asked for %s, which was handed on to %s: run %s, requested %s, continued to %v", from, to, r.RunID, r.RequestedRunID, r.ContinuedTo)
	}
	own := w.status(to)
	src := own.Provenance.Source
	if src.GatedFrom == nil || *src.GatedFrom != from.String() || src.GatedRoot == nil || *src.GatedRoot != root.String() {
		w.Errorf("run %s comes from %+v, want %s of the chain of %s", to, src, from, root)
	}
	if own.RequestedRunID != "" || own.SubmittedAt != r.SubmittedAt {
		w.Errorf("asked for itself it is %+v", own)
	}
	init := w.events(to)[0]
	if init.Type != flow.EventInit || init.Version == nil || *init.Version != own.StampedVersion || init.Gates == nil || len(*init.Gates) != len(own.Gates) {
		w.Errorf("the first event of %s doesn't show its stamp: %+v", to, init)
	}
}

// stays fails unless the run was not handed on.
func (w *world) stays(id flow.RunID) {
	w.Helper()
	if r := w.status(id); r.RunID != id.String() || r.ContinuedTo != nil {
		w.Errorf("run %s was handed on to %s", id, r.RunID)
	}
}

// link is a run as the logs tell of its chain.
type link struct {
	made  []flow.Record // submitted
	ended []flow.Record // continued
	claim int           // admissions
	kept  []flow.Signal
	waits []flow.Waiter
}

// links reads the logs of all shards.
func (w *world) links() map[flow.RunID]*link {
	w.Helper()
	all := map[flow.RunID]*link{}
	of := func(id flow.RunID) *link {
		if all[id] == nil {
			all[id] = &link{}
		}
		return all[id]
	}
	for s := range w.shards {
		entries, _ := w.entries(shardID(s))
		for i := range entries {
			for _, rec := range entries[i].records {
				l := of(rec.Run)
				switch rec.Kind {
				case flow.RecSubmitted:
					l.made = append(l.made, rec)
					luggage, err := flow.DecodeLuggage(rec.Extra)
					must(w, err)
					l.kept, l.waits = luggage.Signals, luggage.Waiters
				case flow.RecSignalled:
					l.kept = append(l.kept, flow.Signal{Number: rec.Number, Name: rec.Name, RequestID: rec.RequestID})
				case flow.RecWatched:
					l.waits = append(l.waits, flow.Waiter{Waits: rec.Other, Asked: rec.Root, Number: rec.Number})
				case flow.RecContinued:
					l.ended = append(l.ended, rec)
				case flow.RecAdmitted:
					l.claim++
				default:
				}
			}
		}
	}
	return all
}

// lawfulChains fails unless every run that was handed on, as the logs tell it, has exactly
// one successor, which took over all that it had and its place, and never started itself
// (P28, P76); and unless no run is a successor of anything else. It says how many hand-ons
// there were. It is called at rest.
func (w *world) lawfulChains() int {
	w.Helper()
	all, n := w.links(), 0
	for id, l := range all {
		if len(l.made) > 1 || len(l.ended) > 1 {
			w.Errorf("run %s was made %d times and handed on %d times", id, len(l.made), len(l.ended))
		}
		if len(l.made) == 1 && !l.made[0].Other.IsZero() {
			from := all[l.made[0].Other]
			if from == nil || len(from.ended) != 1 || from.ended[0].Other != id {
				w.Errorf("run %s names a predecessor that wasn't handed on to it", id)
			}
		}
		if len(l.ended) == 0 || len(l.made) == 0 {
			continue
		}
		n++
		if l.claim > 0 {
			w.Errorf("run %s was admitted %d times and handed on", id, l.claim)
		}
		next := all[l.ended[0].Other]
		if next == nil || len(next.made) != 1 {
			w.Errorf("the successor %s of %s was not made once", l.ended[0].Other, id)
			continue
		}
		w.sameRun(id, l, next)
	}
	return n
}

// sameRun fails unless a successor took over everything.
func (w *world) sameRun(id flow.RunID, l, next *link) {
	w.Helper()
	was, is := l.made[0], next.made[0]
	root := was.Root
	if root.IsZero() {
		root = id
	}
	if is.Other != id || is.Root != root || is.Order != was.Order || is.Parent != was.Parent || is.Workflow != was.Workflow ||
		is.Trigger != was.Trigger || is.Origin != was.Origin || is.IdempotencyKey != was.IdempotencyKey || string(is.Payload) != string(was.Payload) {
		w.Errorf("run %s is %+v, and its successor %+v", id, was.Fields, is.Fields)
	}
	if l.ended[0].Version != is.Stamp.Version {
		w.Errorf("run %s was handed on to version %s, and its successor has %s", id, l.ended[0].Version, is.Stamp.Version)
	}
	luggage, err := flow.DecodeLuggage(is.Extra)
	must(w, err)
	numbers := func(list []flow.Signal) (out []uint64) {
		for _, s := range list {
			out = append(out, s.Number)
		}
		return out
	}
	if !slices.Equal(numbers(luggage.Signals), numbers(l.kept)) || !slices.Equal(luggage.Waiters, l.waits) {
		w.Errorf("run %s had signals %v and waiters %v, and its successor was given %v and %v",
			id, numbers(l.kept), l.waits, numbers(luggage.Signals), luggage.Waiters)
	}
}

// signalling sends a signal and doesn't wait.
func (w *world) signalling(id flow.RunID, name, payload, request string) *call[wire.Signalled] {
	return begin(func() (wire.Signalled, error) {
		return w.Signal(w.life, id, wire.SignalRequest{Name: name, Payload: json.RawMessage(payload), RequestID: request})
	})
}

// signal sends a signal.
func (w *world) signal(id flow.RunID, name, payload string) wire.Signalled {
	w.Helper()
	return await(w, w.signalling(id, name, payload, ""))
}

// payloads are the payloads of signals, in order.
func payloads(list []wire.Signal) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = string(list[i].Payload)
	}
	return out
}

// waitingUntil suspends a run and doesn't wait.
func (w *world) waitingUntil(g wire.Grant, s wire.Suspend) *call[string] {
	s.Fence = g.Fence
	return begin(func() (string, error) {
		id, err := flow.ParseRunID(g.RunID)
		if err != nil {
			return "", err
		}
		out, err := w.Suspend(w.life, id, s)
		return out.Status, err
	})
}

// untilSignal suspends a run until a signal comes; zero waits for ever.
func (w *world) untilSignal(g wire.Grant, name string, timeout time.Duration) string {
	w.Helper()
	u := wire.Until{Signal: name}
	if timeout > 0 {
		u.TimeoutSeconds = new(timeout.Seconds())
	}
	return await(w, w.waitingUntil(g, wire.Suspend{Until: u}))
}

// untilRuns suspends a run until others have ended.
func (w *world) untilRuns(g wire.Grant, runs ...string) string {
	w.Helper()
	return await(w, w.waitingUntil(g, wire.Suspend{Until: wire.Until{Runs: runs}}))
}

// starting starts runs for a body and doesn't wait.
func (w *world) starting(g wire.Grant, c wire.Children) *call[wire.ChildrenStarted] {
	c.Fence = cmp.Or(c.Fence, g.Fence)
	return begin(func() (wire.ChildrenStarted, error) {
		id, err := flow.ParseRunID(g.RunID)
		if err != nil {
			return wire.ChildrenStarted{}, err
		}
		return w.Children(w.life, id, c)
	})
}

// children starts one run of each of the params, as children.
func (w *world) children(g wire.Grant, workflow string, params ...string) []string {
	w.Helper()
	c := wire.Children{}
	for _, p := range params {
		c.Runs = append(c.Runs, wire.ChildRun{Workflow: workflow, Params: json.RawMessage(p)})
	}
	return await(w, w.starting(g, c)).RunIDs
}

// recording records steps and doesn't wait.
func (w *world) recording(g wire.Grant, s wire.Steps) *call[wire.Recorded] {
	s.Fence = cmp.Or(s.Fence, g.Fence)
	return begin(func() (wire.Recorded, error) {
		id, err := flow.ParseRunID(g.RunID)
		if err != nil {
			return wire.Recorded{}, err
		}
		return w.Steps(w.life, id, s)
	})
}

// record records a step's result.
func (w *world) record(g wire.Grant, name, result string) wire.Recorded {
	w.Helper()
	return await(w, w.recording(g, wire.Steps{Steps: []wire.Step{{Name: name, Result: json.RawMessage(result)}}}))
}

// limited declares version v of workflow "sync" with a limit on k.
func (w *world) limited(version string, most int) wire.Declared {
	w.Helper()
	return w.declare("sync", fmt.Sprintf(`{"version":%q,"limit":{"key":"k","max":%d},"lease_seconds":10}`, version, most))
}

// keptAlive has a worker of the version heard of, with nothing that it could be granted.
func (w *world) keptAlive(workflow, version string) {
	w.Helper()
	w.claimBy(workflow, version, 0)
}
