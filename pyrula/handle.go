package pyrula

import (
	"context"
	"encoding/json"
	"fmt"
)

// Handle is a run as the program sees it that started it, with its result's type.
// It may be copied and used by many goroutines.
type Handle[Out any] struct {
	ID      string // "run_..."
	Created bool   // false when the idempotency key named an earlier run

	client *Client
}

// Result waits for the run's end and decodes its result. A run that failed gives
// *[RunFailed], a cancelled one [ErrRunCancelled], a terminated one
// [ErrRunTerminated]. When ctx ends first the run goes on; Result may be called
// again.
func (h *Handle[Out]) Result(ctx context.Context) (Out, error) {
	var out Out
	raw, err := h.client.Result(ctx, h.ID)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, fmt.Errorf("decode the result of run %s: %w: %w", h.ID, ErrBadAnswer, err)
	}
	return out, nil
}

// Status is the run as it stands now; see [Client.Status].
func (h *Handle[Out]) Status(ctx context.Context) (*RunStatus, error) {
	return h.client.Status(ctx, h.ID)
}

// Wait waits for the run's end, whatever it is; see [Client.Wait].
func (h *Handle[Out]) Wait(ctx context.Context) (*RunStatus, error) {
	return h.client.Wait(ctx, h.ID)
}

// Why says what the run waits for; see [Client.Why].
func (h *Handle[Out]) Why(ctx context.Context) (*Why, error) { return h.client.Why(ctx, h.ID) }

// Events is the run's own journal; see [Client.Events].
func (h *Handle[Out]) Events(ctx context.Context) ([]Event, error) {
	return h.client.Events(ctx, h.ID)
}

// Signal sends the run a named message; see [Client.Signal].
func (h *Handle[Out]) Signal(ctx context.Context, name string, payload any, opts ...SignalOption) (*Signalled, error) {
	return h.client.Signal(ctx, h.ID, name, payload, opts...)
}

// Cancel asks for the run's end; see [Client.Cancel].
func (h *Handle[Out]) Cancel(ctx context.Context, reason string) error {
	return h.client.Cancel(ctx, h.ID, reason)
}

// Terminate ends the run at once; see [Client.Terminate].
func (h *Handle[Out]) Terminate(ctx context.Context, reason string) error {
	return h.client.Terminate(ctx, h.ID, reason)
}
