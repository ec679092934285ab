package flow

// Event is one entry of a run's own journal, as its readers see it (P26).
type Event struct {
	Seq     int64  // 1, 2, 3, ... ; a gap means that older events were dropped at MaxRunEvents
	Type    string // "run:init", "run:claimed", ...
	At      Instant
	Fence   uint64
	Attempt int64
	Worker  string
	Version string
	Reason  string
	ErrType string
	ErrText string
	Until   Instant
	Name    string  // of a step, a signal or a wait
	Visit   int64   // of a step or a wait
	Runs    []RunID // the successor, the children, or the runs that are waited for
}

// MaxRunEvents bounds the journal kept for one run: beyond it the oldest events
// after the first are dropped, and the gap in Seq shows it.
const MaxRunEvents = 1000

// The types of a run's events.
const (
	EventInit            = "run:init"
	EventClaimed         = "run:claimed"
	EventCompleted       = "run:completed"
	EventFailed          = "run:failed"
	EventRetrying        = "run:retrying"
	EventSuspended       = "run:suspended"
	EventResumed         = "run:resumed"
	EventLeaseExpired    = "run:lease_expired"
	EventCancelRequested = "run:cancel_requested"
	EventCancelled       = "run:cancelled"
	EventTerminated      = "run:terminated"
	EventReleased        = "run:released" // the last worker of a terminated run is gone
	EventContinued       = "run:continued"
	EventStepCompleted   = "step:completed"
	EventStepFailed      = "step:failed"
	EventSignalReceived  = "signal:received"
	EventSignalTaken     = "signal:taken" // a wait got a kept signal without a suspension
	EventChildrenStarted = "children:started"
	EventRunEnded        = "awaited:ended" // one of the runs that are waited for
)

// Status is where a run stands in its life.
type Status uint8

// The statuses. Continued belongs to runs that were handed on.
const (
	StatusQueued Status = iota + 1
	StatusExecuting
	StatusSuspended
	StatusCompleted
	StatusFailed
	StatusCancelled
	StatusTerminated
	StatusContinued
)

var statusNames = [...]string{
	StatusQueued: "queued", StatusExecuting: "executing", StatusSuspended: "suspended",
	StatusCompleted: "completed", StatusFailed: "failed", StatusCancelled: "cancelled",
	StatusTerminated: "terminated", StatusContinued: "continued",
}

// String is the status on the wire.
func (s Status) String() string {
	if int(s) < len(statusNames) && statusNames[s] != "" {
		return statusNames[s]
	}
	return "status(" + string('0'+rune(s%10)) + ")"
}

// ParseStatus is the status of a name on the wire.
func ParseStatus(name string) (Status, bool) {
	for i, n := range statusNames {
		if n == name && n != "" {
			return Status(i), true
		}
	}
	return 0, false
}

// Ended says that the run is over.
func (s Status) Ended() bool { return s >= StatusCompleted }
