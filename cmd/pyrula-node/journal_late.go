package main

import (
	"github.com/pyrula/pyrula-node/flow"
)

// luggageView is what a successor takes over from its predecessor.
type luggageView struct {
	Signals []signalView `json:"signals,omitempty"`
	Last    uint64       `json:"last,omitempty"`
	Waiters []waiterView `json:"waiters,omitempty"`
}

type signalView struct {
	Number    uint64 `json:"number"`
	Name      string `json:"name"`
	At        string `json:"at,omitempty"`
	RequestID string `json:"request_id,omitempty"`
	Bytes     int    `json:"bytes"` // of its payload, which stands in its own record
}

type waiterView struct {
	Waits  string `json:"waits"`
	Asked  string `json:"asked"`
	Number uint64 `json:"number"`
}

// late fills in the fields that few records have.
func (v *fieldsView) late(f *flow.Fields) {
	v.Other, v.Root, v.Parent = idOf(f.Other), idOf(f.Root), idOf(f.Parent)
	v.Name, v.Visit, v.Cost, v.Origin = f.Name, f.Visit, f.Cost, f.Origin
	if f.Status != 0 {
		v.Status = f.Status.String()
	}
	if f.Flags&flow.FlagRuns != 0 {
		v.runs(f.Extra)
	} else {
		v.Extra = payload(f.Extra)
	}
}

// idOf is a run's id, "" for none.
func idOf(id flow.RunID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// runs shows the extra bytes as the ids that they are.
func (v *fieldsView) runs(extra []byte) {
	v.Extra = nil
	for _, id := range flow.DecodeRunIDs(extra) {
		v.Runs = append(v.Runs, id.String())
	}
}

// luggage shows the extra bytes as the luggage that they are.
func (v *fieldsView) luggage(extra []byte) error {
	if len(extra) == 0 {
		return nil
	}
	l, err := flow.DecodeLuggage(extra)
	if err != nil {
		return err
	}
	v.Extra, v.Luggage = nil, &luggageView{Last: l.Last}
	for i := range l.Signals {
		s := &l.Signals[i]
		v.Luggage.Signals = append(v.Luggage.Signals, signalView{s.Number, s.Name, moment(s.At), s.RequestID, len(s.Payload)})
	}
	for _, w := range l.Waiters {
		v.Luggage.Waiters = append(v.Luggage.Waiters, waiterView{w.Waits.String(), w.Asked.String(), w.Number})
	}
	return nil
}
