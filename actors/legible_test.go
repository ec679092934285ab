package actors_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// TestR9NewerContentStopsAStart fails when a declaration or a schedule that a newer build has
// written ends a start with a panic instead of its reason.
func TestR9NewerContentStopsAStart(t *testing.T) {
	w := flow.NewWriter()
	w.Definition(&flow.Definition{Workflow: "w", Version: "1"})
	newer := bytes.Clone(w.Bytes())
	newer[1]++ // one part more than this build knows of
	for _, rec := range []flow.Record{
		{Kind: flow.RecDeclared, Fields: flow.Fields{Workflow: "w", Version: "1", Payload: newer[:2]}},
		{Kind: flow.RecDeclared, Fields: flow.Fields{Workflow: "w", Version: "1", Payload: []byte{99}}},
		{Kind: flow.RecScheduled, Fields: flow.Fields{Origin: "s", Payload: []byte{99}}},
	} {
		body := flow.NewWriter()
		body.Record(&rec)
		_, err := actors.Replay(1, nil, []engine.Entry{{Pos: 1, Wall: 1, Body: body.Bytes()}}, 1)
		if err == nil {
			t.Errorf("%s with %x is taken", rec.Kind, rec.Payload)
		}
		if rec.Kind == flow.RecDeclared && !errors.Is(err, flow.ErrCodec) {
			t.Errorf("%s with %x: error %v", rec.Kind, rec.Payload, err)
		}
	}
}
