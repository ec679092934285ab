package runactor

import "github.com/pyrula/pyrula-node/flow"

// Run is the state machine of one run. It isn't safe for concurrent use: its
// shard owns it.
//
// Most runs of a busy node are queued and have never been touched, so what a
// queued run carries is inline and small; all that happens later lies behind past.
type Run struct {
	id    flow.RunID
	order flow.Instant // submit instant: with the id its place in every queue (P52)

	workflow       string
	params         []byte
	stamp          *flow.Stamp // never nil once submitted
	trigger        string
	idempotencyKey string
	requestID      string

	from   *lineage // nil for a run that a client made
	past   *past    // nil until something happens after the submit
	status flow.Status
	marks  marks
}

// marks are the yes-or-no parts of a run's state.
type marks uint8

const (
	markHeld       marks = 1 << iota // a worker holds the run under past.fence
	markCancel                       // the holder was asked to stop
	markSuspended                    // the run last left executing by a suspension: the next hold is the same attempt
	markBackoff                      // suspended after a failure, not by its holder
	markAbsolute                     // past.until is a date
	allMarks       = markHeld | markCancel | markSuspended | markBackoff | markAbsolute
	suspendedMarks = markBackoff | markAbsolute
)

// past is what has happened to a run since it was submitted.
type past struct {
	// The last admission.
	fence    uint64
	worker   string
	version  string
	lease    flow.Span
	backoff  flow.Span
	attempts int64 // most failures

	attempt  int64
	failures int64
	started  flow.Instant // first admission
	until    flow.Instant // end of a suspension
	last     ending       // last ending request that was taken

	// expiry is when the hold ends unless it is renewed. It is volatile: neither
	// written nor compared, and zero (the hold doesn't end) until Resume sets it.
	expiry flow.Instant

	since flow.Instant // when the run was last queued again or suspended
	book  *book        // nil until something is recorded or waited for

	ended   flow.Instant
	result  []byte
	errType string
	errText string
	reason  string // of the cancel or terminate

	journal journal
}

// ending is a worker's request that ended its hold: which, and under which fence.
type ending struct {
	kind  flow.InputKind
	fence uint64
}

// New returns the run of an id that hasn't been submitted: Apply a submitted
// record to it, or decode a snapshot into it.
func New(id flow.RunID) *Run { return &Run{id: id} }

// ID names the run.
func (r *Run) ID() flow.RunID { return r.id }

// Workflow is the name of the run's workflow.
func (r *Run) Workflow() string { return r.workflow }

// Status is where the run stands; zero before it is submitted.
func (r *Run) Status() flow.Status { return r.status }

// Order is the run's submit instant: with the id its place in every queue (P52).
func (r *Run) Order() flow.Instant { return r.order }

// Stamp is what the run is judged by (P16). It is shared and never changed. It is
// nil only before the submit.
func (r *Run) Stamp() *flow.Stamp { return r.stamp }

// Params are the run's parameters as submitted: shared, never changed. They stay
// after the end, since a run can be retried.
func (r *Run) Params() []byte { return r.params }

// RequestID is the submitter's own number for the request; it may be empty.
func (r *Run) RequestID() string { return r.requestID }

// IdempotencyKey is the key under which the run was submitted; it may be empty.
func (r *Run) IdempotencyKey() string { return r.idempotencyKey }

// Trigger says what submitted the run.
func (r *Run) Trigger() string { return r.trigger }

// Started says whether the run was admitted before, so that its Rate token has
// been taken (P53).
func (r *Run) Started() bool { return r.past != nil && r.past.fence != 0 }

// Held says whether a worker holds the run: it is executing, or it was terminated
// and its last worker may still be at work (R20).
func (r *Run) Held() bool { return r.marks.has(markHeld) }

// Fence is the fence of the last admission; zero before the first. Only while the
// run is Held does anybody hold it.
func (r *Run) Fence() uint64 {
	if r.past == nil {
		return 0
	}
	return r.past.fence
}

// Ended is the instant of the run's end; zero before it. For a run that was handed on it
// is the end of its chain, from which on it may be forgotten (R14).
func (r *Run) Ended() flow.Instant {
	switch {
	case r.past == nil:
		return 0
	case r.status == flow.StatusContinued:
		return r.peek().chain
	}
	return r.past.ended
}

// Worker is the name of the last holder.
func (r *Run) Worker() string {
	if r.past == nil {
		return ""
	}
	return r.past.worker
}

// Version is the workflow version of the last holder.
func (r *Run) Version() string {
	if r.past == nil {
		return ""
	}
	return r.past.version
}

// Lease is the lease of the last admission.
func (r *Run) Lease() flow.Span {
	if r.past == nil {
		return 0
	}
	return r.past.lease
}

// Attempt is the number of the current or last attempt, from 1; zero before the
// first. A hold after a suspension goes on with the same attempt.
func (r *Run) Attempt() int64 {
	if r.past == nil {
		return 0
	}
	return r.past.attempt
}

// CancelAsked says whether the holder was asked to stop. It stays set when that
// ended the run.
func (r *Run) CancelAsked() bool { return r.marks.has(markCancel) }

// Share puts equal but shared values in place of the run's own workflow name and
// stamp, so that a million runs of one stamp keep one. Values that aren't equal
// are left alone.
func (r *Run) Share(workflow string, stamp *flow.Stamp) {
	if workflow == r.workflow {
		r.workflow = workflow
	}
	if stamp != nil && stamp.Equal(r.stamp) {
		r.stamp = stamp
	}
}

func (m marks) has(f marks) bool { return m&f == f }

// touched is the run's past, made when there is none yet.
func (r *Run) touched() *past {
	if r.past == nil {
		r.past = new(past)
	}
	return r.past
}
