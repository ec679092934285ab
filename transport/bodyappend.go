package transport

import (
	"encoding/json"
	"strconv"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// What a body has recorded, appended by hand too: a grant and a page of history may
// hold 512 KiB of it. See append.go.

// noHistory is that of a run that has recorded nothing, in a grant.
const noHistory = `,"steps":[],"signals":[],"waits":[],"children":[],"history_next":null`

// appendGrantHistory writes what noHistory leaves empty.
func appendGrantHistory(b []byte, g *wire.Grant) []byte {
	b = appendList(append(b, `,"steps":`...), g.Steps, appendStep)
	b = appendList(append(b, `,"signals":`...), g.Signals, appendSignal)
	b = appendList(append(b, `,"waits":`...), g.Waits, appendWait)
	b = appendList(append(b, `,"children":`...), g.Children, appendGroup)
	return appendNext(append(b, `,"history_next":`...), g.HistoryNext)
}

func appendHistory(b []byte, h *wire.History) []byte {
	b = appendList(append(b, `{"steps":`...), h.Steps, appendStep)
	b = appendList(append(b, `,"waits":`...), h.Waits, appendWait)
	b = appendList(append(b, `,"children":`...), h.Children, appendGroup)
	return append(appendNext(append(b, `,"next":`...), h.Next), '}')
}

func appendNext(b []byte, next *int64) []byte {
	if next == nil {
		return append(b, "null"...)
	}
	return strconv.AppendInt(b, *next, 10)
}

func appendStep(b []byte, s *wire.Step) []byte {
	b = append(b, '{')
	if s.Seq != 0 {
		b = append(strconv.AppendInt(append(b, `"seq":`...), s.Seq, 10), ',')
	}
	b = appendText(append(b, `"name":`...), s.Name)
	b = appendCount(b, `,"visit":`, s.Visit)
	b = appendGiven(b, `,"result":`, s.Result)
	b = appendError(b, s.Error)
	b = appendCount(b, `,"cost_units":`, s.CostUnits)
	return append(b, '}')
}

func appendSignal(b []byte, s *wire.Signal) []byte {
	b = appendText(append(b, `{"name":`...), s.Name)
	b = appendRaw(append(b, `,"payload":`...), s.Payload)
	b = appendCount(b, `,"number":`, s.Number)
	b = appendCount(b, `,"at":`, s.At)
	if s.Delivered {
		b = append(b, `,"delivered":true`...)
	}
	return append(b, '}')
}

func appendWait(b []byte, w *wire.WaitEnd) []byte {
	b = strconv.AppendInt(append(b, `{"seq":`...), w.Seq, 10)
	b = appendText(append(b, `,"kind":`...), w.Kind)
	b = appendText(append(b, `,"name":`...), w.Name)
	b = strconv.AppendInt(append(b, `,"visit":`...), w.Visit, 10)
	if w.TimedOut {
		b = append(b, `,"timed_out":true`...)
	}
	b = appendGiven(b, `,"payload":`, w.Payload)
	if len(w.Outcomes) > 0 {
		b = appendList(append(b, `,"outcomes":`...), w.Outcomes, appendOutcome)
	}
	return append(b, '}')
}

func appendOutcome(b []byte, o *wire.Outcome) []byte {
	b = appendText(append(b, `{"run_id":`...), o.RunID)
	b = appendText(append(b, `,"status":`...), o.Status)
	b = appendGiven(b, `,"result":`, o.Result)
	return append(appendError(b, o.Error), '}')
}

func appendGroup(b []byte, g *wire.ChildGroup) []byte {
	b = strconv.AppendInt(append(b, `{"seq":`...), g.Seq, 10)
	b = appendText(append(b, `,"step":`...), g.Step)
	b = strconv.AppendInt(append(b, `,"visit":`...), g.Visit, 10)
	b = appendText(append(b, `,"kind":`...), g.Kind)
	return append(appendTexts(append(b, `,"runs":`...), g.Runs), '}')
}

func appendCandidate(b []byte, c *wire.Candidate) []byte {
	b = appendText(append(b, `{"run_id":`...), c.RunID)
	b = appendText(append(b, `,"workflow":`...), c.Workflow)
	b = appendText(append(b, `,"version":`...), c.Version)
	b = appendText(append(b, `,"gates_hash":`...), c.GatesHash)
	return append(appendRaw(append(b, `,"params":`...), c.Params), '}')
}

func appendRecorded(b []byte, r *wire.Recorded) []byte {
	b = appendText(append(b, `{"run_id":`...), r.RunID)
	b = appendText(append(b, `,"status":`...), r.Status)
	b = appendList(append(b, `,"waits":`...), r.Waits, appendWait)
	return append(appendClaimAfter(b, r.Runs, r.ClaimProblem), '}')
}

func appendChildrenStarted(b []byte, c *wire.ChildrenStarted) []byte {
	b = appendText(append(b, `{"run_id":`...), c.RunID)
	b = appendTexts(append(b, `,"run_ids":`...), c.RunIDs)
	b = strconv.AppendBool(append(b, `,"created":`...), c.Created)
	return append(appendClaimAfter(b, c.Runs, c.ClaimProblem), '}')
}

func appendTexts(b []byte, all []string) []byte {
	b = append(b, '[')
	for i, s := range all {
		b = appendText(comma(b, i), s)
	}
	return append(b, ']')
}

// appendCount, appendGiven and appendError write a field that is left out when it is
// zero, empty or nil. name has the comma and the colon around it.
func appendCount(b []byte, name string, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(b, name...), n, 10)
}

func appendGiven(b []byte, name string, raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return b
	}
	return append(append(b, name...), raw...)
}

func appendError(b []byte, e *wire.RunError) []byte {
	if e == nil {
		return b
	}
	b = appendText(append(b, `,"error":{"type":`...), e.Type)
	return append(appendText(append(b, `,"message":`...), e.Message), '}')
}
