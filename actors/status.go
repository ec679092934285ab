package actors

import (
	"encoding/json"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/runactor"
)

// runOf is the status object of a run. The definition's hash is that of the last
// declaration of the version that stamped the run, as far as it is still known.
func (n *Node) runOf(l *look) wire.Run {
	w := wire.Run{
		RunID: l.ID.String(), Workflow: l.Workflow, Status: l.Status.String(), Attempt: l.Attempt,
		Gates: wire.GatesOf(l.Stamp), GatesUnknown: l.Stamp.Unknown,
		StampedVersion: l.Stamp.Version, VersionRank: l.Stamp.VersionRank,
		IdempotencyKey: textOrNull(l.IdempotencyKey),
		Provenance:     wire.Provenance{Source: sourceOf(l)}, ContinuedTo: idOrNull(l.ContinuedTo),
		Worker: textOrNull(l.Worker), CancelRequested: l.CancelRequested,
		Wait: waitOf(l), SubmittedAt: l.Submitted.Millis(), StartedAt: millisOrNull(l.Started),
		EndedAt: millisOrNull(l.Ended), Result: json.RawMessage(l.Result), Budget: json.RawMessage("null"),
	}
	if def := lastOf(n.registry.list(l.Workflow), l.Stamp.Version); def != nil && !l.Stamp.Unknown {
		w.DefinitionHash = &def.Hash
	}
	if !l.asked.IsZero() {
		w.RequestedRunID = l.asked.String()
		w.ContinuedTo = idOrNull(l.ID) // of the run that was asked for (P81)
	}
	if len(w.Result) == 0 {
		w.Result = json.RawMessage("null")
	}
	if l.Status == flow.StatusFailed || l.ErrType != "" || l.ErrText != "" {
		w.Error = &wire.RunError{Type: l.ErrType, Message: l.ErrText}
	}
	return w
}

// sourceOf says what made the run.
func sourceOf(l *look) wire.Source {
	s := wire.Source{
		Trigger: l.Trigger, GatedFrom: idOrNull(l.GatedFrom), GatedRoot: idOrNull(l.GatedRoot), Parent: idOrNull(l.Parent),
	}
	switch l.Trigger {
	case runactor.TriggerRetry:
		s.RetryOf = textOrNull(l.Origin)
	case runactor.TriggerSchedule:
		s.Schedule = textOrNull(l.Origin)
	}
	return s
}

func idOrNull(id flow.RunID) *string {
	if id.IsZero() {
		return nil
	}
	return new(id.String())
}

func textOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func millisOrNull(i flow.Instant) *int64 {
	if i == 0 {
		return nil
	}
	return new(i.Millis())
}

// waits says whether a run's status has a reason to wait: it is never empty then.
func (l *look) waits() bool {
	return l.Status == flow.StatusQueued || l.Status == flow.StatusSuspended
}

// waitOf is why a run waits; null for a run that doesn't.
func waitOf(l *look) *wire.Wait {
	if !l.waits() {
		return nil
	}
	w := &wire.Wait{Reason: string(l.wait.Reason)}
	if w.Reason == "" {
		// Its key has let it go and the records that say so are on their way here.
		w.Reason = string(flow.WaitWorkerBusy)
	}
	if l.wait.Gate != 0 {
		w.Gate, w.Key = new(l.wait.Gate.String()), new(l.wait.Key)
	}
	if l.wait.Max > 0 {
		w.Used, w.Max = new(l.wait.Used), new(l.wait.Max)
	}
	if l.wait.Position > 0 {
		w.Position = new(l.wait.Position)
	}
	w.OpensAt, w.Since = millisOrNull(l.wait.OpensAt), millisOrNull(l.Since)
	w.Signal = textOrNull(l.wait.Signal)
	if len(l.wait.Runs) > 0 {
		w.Runs = idsOf(l.wait.Runs)
	}
	return w
}
