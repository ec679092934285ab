package flow

import (
	"errors"
	"fmt"
)

// Sentinels that a caller only branches on. Each has one row in the table of the
// HTTP API's problems.
var (
	// ErrConfiguration is the family of every refused declaration, policy or key:
	// errors.Is(err, ErrConfiguration) holds for each *FieldError of that code.
	ErrConfiguration = errors.New("configuration error")
	// ErrInvalid is the family of every refused argument that isn't configuration.
	ErrInvalid = errors.New("invalid argument")
	// ErrUnknownRun says that no run has the id.
	ErrUnknownRun = errors.New("unknown run")
	// ErrUnknownWorkflow says that no workflow of the name was ever declared.
	ErrUnknownWorkflow = errors.New("unknown workflow")
	// ErrNotDeclared says that a worker claims with a version or gates that were
	// never declared.
	ErrNotDeclared = errors.New("this version was never declared")
	// ErrStaleFence says that a message speaks for a former holder of a run (P51).
	ErrStaleFence = errors.New("stale fence")
	// ErrRunEnded says that a run has ended and takes no such message any more.
	ErrRunEnded = errors.New("run has ended")
	// ErrRunNotEnded says that a run goes on, and only an ended one can be retried.
	ErrRunNotEnded = errors.New("run has not ended")
	// ErrStepConflict says that a step is recorded already with another outcome, or that
	// children were started by that call with other parameters: nothing changed.
	ErrStepConflict = errors.New("step is recorded otherwise")
	// ErrHistoryTooLarge says that a run can't keep more (R13): a signal is refused, and
	// the run goes on.
	ErrHistoryTooLarge = errors.New("history is too large")
	// ErrUnknownSchedule says that no schedule has the name.
	ErrUnknownSchedule = errors.New("unknown schedule")
	// ErrBufferFull is the family of every event that a batch has no room for (P70): see
	// BufferFull. Nothing happened.
	ErrBufferFull = errors.New("event buffer is full")
	// ErrOverloaded says that a named bound is reached and new work is refused
	// (R7); nothing happened, and a retry is safe.
	ErrOverloaded = errors.New("overloaded")
	// ErrArchiveBehind says that too many ended runs wait for the archive (R14): new
	// runs are refused; nothing happened, and a retry is safe.
	ErrArchiveBehind = errors.New("archive is behind")
	// ErrNotReady says that the node has not replayed its log yet, or has lost it.
	ErrNotReady = errors.New("not ready")
	// ErrOutcomeUnknown says that ownership was lost under a request: it may or may
	// not have happened, and a retry with the same request id is safe.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrUnsupported says that a field is known and refused by this version.
	ErrUnsupported = errors.New("not supported")
)

// BufferFull refuses an event: the open batch of its key has no room for it, and nothing
// changed (P70). It unwraps to ErrBufferFull.
type BufferFull struct {
	Key    KeyID
	Events int64 // that the batch holds
	Bytes  int64
	Room   Span // until the batch's deadline; 0 when that has passed and no worker is alive
}

// Error names the key and what its batch holds.
func (e *BufferFull) Error() string {
	when := "it is due and waits for a worker"
	if e.Room > 0 {
		when = fmt.Sprintf("it becomes a run in %.3g s", float64(e.Room)/float64(Second))
	}
	return fmt.Sprintf("%v: %v: its batch holds %d events of %d bytes together, and at most %d events of %d bytes fit; %s",
		e.Key, ErrBufferFull, e.Events, e.Bytes, MaxBatchEvents, MaxBatchBytes, when)
}

// Unwrap is ErrBufferFull.
func (e *BufferFull) Unwrap() error { return ErrBufferFull }

// FieldError refuses a value: it names the field and says what would be right.
// It unwraps to Kind, one of the sentinels above.
type FieldError struct {
	Kind  error  // ErrConfiguration or ErrInvalid
	Field string // as the sender wrote it: "limit.max", "runs[3].params"
	Want  string // what would be right
}

// Error is "configuration error: limit.max must be an integer of at least 1".
func (e *FieldError) Error() string {
	return fmt.Sprintf("%v: %s %s", e.Kind, e.Field, e.Want)
}

// Unwrap is the family of the error.
func (e *FieldError) Unwrap() error { return e.Kind }

func misconfigured(field, want string) error {
	return &FieldError{Kind: ErrConfiguration, Field: field, Want: want}
}

// Invalid refuses an argument by its field.
func Invalid(field, want string) error {
	return &FieldError{Kind: ErrInvalid, Field: field, Want: want}
}

// At puts a prefix before the field of a *FieldError, so that the error of one
// entry names its place in a list; other errors pass unchanged.
func At(prefix string, err error) error {
	var f *FieldError
	if !errors.As(err, &f) {
		return err
	}
	return &FieldError{Kind: f.Kind, Field: prefix + f.Field, Want: f.Want}
}
