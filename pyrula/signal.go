package pyrula

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// Signalled is a signal that a run keeps: which run, and its number there.
type Signalled = wire.Signalled

// SignalOption is a setting of one signal.
type SignalOption func(*signalling)

type signalling struct{ key string }

// SignalKey is a key of the caller's own, 1 to 64 characters of printable ASCII: the
// same key again for the same run counts once, also from another program. Without it
// each call of [Client.Signal] is a signal of its own.
func SignalKey(key string) SignalOption { return func(s *signalling) { s.key = key } }

// Signal sends a run a named message with a payload, which encodes as any JSON. The run
// keeps it until its body waits for that name ([Run.WaitSignal]), whether or not it has
// started yet; several of one name arrive in order. A run that was handed on gets it at
// its last successor (P32), whose id is in the answer.
//
// A signal that gets no answer is sent again with the same key, so it counts once.
// Errors: [ErrUnknownRun], [ErrRunEnded], [ErrHistoryTooLarge] when the run keeps too
// much already, [ErrInvalid] for a name or key out of bounds.
func (c *Client) Signal(ctx context.Context, runID, name string, payload any, opts ...SignalOption) (*Signalled, error) {
	s := signalling{key: uuid.NewString()}
	for _, set := range opts {
		set(&s)
	}
	body, err := s.encode(name, payload)
	if err != nil {
		return nil, fmt.Errorf("signal run %s: %w", runID, err)
	}
	req := request{
		method: http.MethodPost, path: path(wire.PathRuns, runID, "signals", name), encoded: body, idempotencyKey: s.key,
	}
	var done Signalled
	if err := c.call(ctx, &req, &done); err != nil {
		return nil, fmt.Errorf("signal run %s: %w", runID, err)
	}
	return &done, nil
}

// encode checks a signal and encodes its payload.
func (s *signalling) encode(name string, payload any) (json.RawMessage, error) {
	switch {
	case !flow.ValidName(name):
		return nil, fmt.Errorf("%w: the signal's name must be %s", ErrInvalid, flow.NameRule)
	case len(s.key) < 1 || len(s.key) > flow.MaxRequestIDBytes || !printable(s.key):
		return nil, fmt.Errorf("%w: the signal's key must be 1 to %d characters of printable ASCII", ErrInvalid, flow.MaxRequestIDBytes)
	}
	raw, err := json.Marshal(payload)
	switch {
	case err != nil:
		return nil, fmt.Errorf("encode the payload: %w: %w", ErrInvalid, err)
	case len(raw) > flow.MaxPayloadBytes:
		return nil, fmt.Errorf("%w: a payload must be at most %d bytes, not %d", ErrTooLarge, flow.MaxPayloadBytes, len(raw))
	}
	return raw, nil
}

// printable says whether a text may stand in a header between quotes.
func printable(text string) bool {
	for i := range len(text) {
		if text[i] < 0x20 || text[i] > 0x7E {
			return false
		}
	}
	return true
}

// Retry makes a new run from an ended one's workflow and parameters, stamped anew by
// name; it takes a token of its own and isn't handed on (P65). It begins from the start:
// nothing that the old run has recorded is carried over. However often the request
// is sent for want of an answer, it makes one run; each call makes another one.
//
// Errors: [ErrUnknownRun], [ErrRunNotEnded], and [ErrConfiguration] for a workflow whose
// key is a function, which only a program with its code can resolve (P21).
func (c *Client) Retry(ctx context.Context, runID string) (Submitted, error) {
	var done wire.Submitted
	req := request{
		method: http.MethodPost, path: path(wire.PathRuns, runID, "retry"), body: wire.Retry{RequestID: uuid.NewString()},
	}
	if err := c.call(ctx, &req, &done); err != nil {
		return Submitted{}, fmt.Errorf("retry run %s: %w", runID, err)
	}
	return submitted(done), nil
}
