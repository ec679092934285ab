package inline

import (
	"errors"
	"fmt"
	"time"
)

// ErrRunGated says that a run was still gated when the gate timeout was over (P10). It
// is matched by every *[RunGatedError].
var ErrRunGated = errors.New("run is gated")

// RunGatedError ends a [Run] that waited too long at a gate. The run is cancelled and
// holds no place (P84), unless an earlier call made it.
type RunGatedError struct {
	RunID    string
	Workflow string
	Gate     string        // "limit" or "rate"
	Key      string        // of that gate
	Waited   time.Duration // since the wait began
}

// Error is `run is gated: run run_... of workflow "charge" waited 300 s at its limit, key "acme"`.
func (e *RunGatedError) Error() string {
	return fmt.Sprintf("%v: run %s of workflow %q waited %g s at its %s, key %q", ErrRunGated, e.RunID, e.Workflow, e.Waited.Seconds(), e.Gate, e.Key)
}

// Unwrap is [ErrRunGated].
func (e *RunGatedError) Unwrap() error { return ErrRunGated }
