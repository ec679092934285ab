package transport

import (
	"context"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// Node is what the HTTP API is a face of. All methods may be called concurrently.
//
// An error is one of flow's sentinels, a *flow.FieldError, or a *wire.Problem that
// says more, each possibly wrapped; anything else reaches the client as "internal"
// with no detail. A method that is given a context ends soon after the context
// does, and then answers the context's error.
type Node interface {
	Registry
	Submitter
	Triggerer
	Worker
	Body
	Controller
	Scheduler
	Viewer
	Reporter
}

// Registry keeps declarations of workflows.
type Registry interface {
	// Declare keeps a declaration; the same one twice changes nothing.
	Declare(ctx context.Context, name string, d wire.Declaration) (wire.Declared, error)
	// Workflows lists all, sorted by name.
	Workflows(ctx context.Context) (wire.WorkflowList, error)
	// Workflow reads one back. Error: flow.ErrUnknownWorkflow.
	Workflow(ctx context.Context, name string) (wire.Workflow, error)
}

// Submitter takes new runs.
type Submitter interface {
	// Submit answers both lists with one entry for each run, in order: an entry is
	// taken exactly when its error is nil. Each run names its workflow. Params own
	// their bytes: the Node may keep them.
	Submit(ctx context.Context, runs []wire.Submit) ([]wire.Submitted, []error)
}

// Triggerer takes events.
type Triggerer interface {
	// Trigger takes events of one workflow, each on its own, and those of one key in the
	// order given. key is the events' key where the caller resolved it, else nil. Both
	// lists have one entry for each event: it is taken exactly when its error is nil, and
	// then it is durable. The events own their bytes: the Node may keep them.
	Trigger(ctx context.Context, workflow string, key *string, events []wire.TriggerEvent) ([]wire.Triggered, []error)
}

// Worker is what a worker asks for.
type Worker interface {
	// Claim grants up to Credit runs, waiting up to WaitMS for the first. No run in
	// time is no error.
	Claim(ctx context.Context, c wire.Claim) (wire.Claimed, error)
	// Heartbeat renews leases and answers in order.
	Heartbeat(ctx context.Context, h wire.Heartbeat) (wire.HeartbeatResult, error)
	// Complete answers both lists with one entry for each completion, in order.
	Complete(ctx context.Context, ends []wire.Completion) ([]wire.CompleteResult, []error)
	// Fail and Suspend leave the request's Claim alone: the transport claims after
	// them. Errors: flow.ErrStaleFence, flow.ErrRunEnded, flow.ErrUnknownRun.
	Fail(ctx context.Context, id flow.RunID, f wire.Fail) (wire.Ended, error)
	Suspend(ctx context.Context, id flow.RunID, s wire.Suspend) (wire.Ended, error)
}

// Body is what a holder records while its body works. Errors: flow.ErrStaleFence,
// flow.ErrRunEnded, flow.ErrUnknownRun.
type Body interface {
	// Steps records outcomes and state, and takes signals; it leaves the request's Claim
	// alone, like Children. Error also: flow.ErrStepConflict.
	Steps(ctx context.Context, id flow.RunID, s wire.Steps) (wire.Recorded, error)
	// Children starts runs, or answers those that the same call has started before.
	Children(ctx context.Context, id flow.RunID, c wire.Children) (wire.ChildrenStarted, error)
	// History answers the page of the run's history behind the entry of number after.
	History(ctx context.Context, id flow.RunID, after int64) (wire.History, error)
	// Resolve takes the keys of candidates and answers in order.
	Resolve(ctx context.Context, r wire.Resolve) (wire.Resolved, error)
}

// Scheduler keeps schedules. Error of each that names one: flow.ErrUnknownSchedule.
type Scheduler interface {
	// PutSchedule keeps a schedule under its Name; the same one twice changes nothing.
	PutSchedule(ctx context.Context, s wire.Schedule) (wire.ScheduleView, error)
	// Schedules lists all, sorted by name.
	Schedules(ctx context.Context) (wire.ScheduleList, error)
	// Schedule reads one back.
	Schedule(ctx context.Context, name string) (wire.ScheduleView, error)
	// DeleteSchedule forgets one. Runs that it has made go on.
	DeleteSchedule(ctx context.Context, name string) (wire.ScheduleDeleted, error)
}

// Controller stops, signals and retries runs. A run that has ended stays as it is,
// without an error. Every method acts on the last successor of a run that was handed
// on (P32).
type Controller interface {
	// Signal gives a run a signal to keep. Errors: flow.ErrRunEnded,
	// flow.ErrHistoryTooLarge.
	Signal(ctx context.Context, id flow.RunID, s wire.SignalRequest) (wire.Signalled, error)
	// Retry makes a new run from an ended one's workflow and parameters, stamped anew by
	// name (P65). Errors: flow.ErrRunNotEnded, flow.ErrConfiguration for a function key
	// (P20).
	Retry(ctx context.Context, id flow.RunID, r wire.Retry) (wire.Submitted, error)
	// Cancel asks a run to stop; one that nobody holds has then ended.
	Cancel(ctx context.Context, id flow.RunID, reason string) (wire.Stopped, error)
	// Terminate ends a run at once.
	Terminate(ctx context.Context, id flow.RunID, reason string) (wire.Stopped, error)
}

// Viewer reads runs and keys.
type Viewer interface {
	// Run answers the status object, after the run's end or after wait, whichever
	// comes first.
	Run(ctx context.Context, id flow.RunID, wait time.Duration) (wire.Run, error)
	// Events answers the run's own journal.
	Events(ctx context.Context, id flow.RunID) (wire.Events, error)
	// Why answers what a run waits for.
	Why(ctx context.Context, id flow.RunID) (wire.Why, error)
	// List answers one page, newest first. A Limit of 0 means 100.
	List(ctx context.Context, q wire.ListQuery) (wire.RunList, error)
	// Key answers how a key stands. Any text is a key, also the empty one (S99).
	Key(ctx context.Context, workflow, key string) (wire.KeyView, error)
}

// Reporter describes the node itself.
type Reporter interface {
	// Describe answers the node, its shards and what its start read back.
	Describe(ctx context.Context) (wire.Node, error)
	// Ready never waits: it is asked by probes.
	Ready(ctx context.Context) wire.Ready
}
