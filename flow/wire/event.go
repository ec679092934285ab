package wire

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/pyrula/pyrula-node/flow"
)

// MaxEvents bounds the events of one request.
const MaxEvents = 1000

// Media types of events beside [ContentJSON].
const (
	ContentCloudEvent      = "application/cloudevents+json"
	ContentCloudEventBatch = "application/cloudevents-batch+json"
	ContentNDJSON          = "application/x-ndjson"
)

// HeaderKey carries the key of the events of a request, where the caller resolved it:
// that of a workflow whose trigger's key is a function (P20).
const HeaderKey = "Pyrula-Key"

// TriggerEvent is one event on its way in: a JSON object, and the id under which a repeat of it
// counts once. An empty ID is none.
type TriggerEvent struct {
	Body json.RawMessage
	ID   string
}

// Triggered answers an event: RunID is the run of the batch that it filled, else null
// (P37). In a request of many an event that was refused has Problem instead.
type Triggered struct {
	RunID   *string  `json:"run_id"`
	Problem *Problem `json:"problem,omitempty"`
}

// EventsResult answers a batch of CloudEvents: one result for each, in order.
type EventsResult struct {
	Events []Triggered `json:"events"`
}

// Check refuses an event that is no object or too large, and an id that is too long. It
// relies on the decoder for Body being JSON. Error: *flow.FieldError.
func (e *TriggerEvent) Check() error {
	switch {
	case len(e.Body) == 0 || e.Body[0] != '{':
		return flow.Invalid("event", "must be a JSON object")
	case len(e.Body) > flow.MaxEventBytes:
		return checkSize("event", len(e.Body), flow.MaxEventBytes)
	case len(e.ID) > flow.MaxEventIDBytes || !utf8.ValidString(e.ID):
		return flow.Invalid("id", fmt.Sprintf("must be at most %d bytes of UTF-8, of a CloudEvent together with its source", flow.MaxEventIDBytes))
	}
	return nil
}
