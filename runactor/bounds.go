package runactor

import (
	"strconv"

	"github.com/pyrula/pyrula-node/flow"
)

// checkBounds refuses an input that carries more than a run may keep. Names are
// checked where they are declared. Error: *flow.FieldError.
func checkBounds(in *flow.Input) error {
	if in.Kind == flow.InSubmit && in.Stamp == nil {
		return flow.Invalid("stamp", "must be set")
	}
	for _, b := range [...]struct {
		field string
		size  int
		most  int
	}{
		{"params or result", len(in.Payload), flow.MaxPayloadBytes},
		{"reason", len(in.Reason), flow.MaxReasonBytes},
		{"error.type", len(in.ErrType), flow.MaxErrorTypeBytes},
		{"error.message", len(in.ErrText), flow.MaxErrorMessageBytes},
		{"workflow", len(in.Workflow), flow.MaxNameBytes},
		{"trigger", len(in.Trigger), flow.MaxNameBytes},
		{"idempotency_key", len(in.IdempotencyKey), flow.MaxIdempotencyKeyBytes},
		{"request_id", len(in.RequestID), flow.MaxRequestIDBytes},
		{"name", len(in.Name), flow.MaxNameBytes},
	} {
		if b.size > b.most {
			return flow.Invalid(b.field, "must be at most "+strconv.Itoa(b.most)+" bytes")
		}
	}
	return nil
}
