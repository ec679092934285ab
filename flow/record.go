package flow

import "strconv"

// RecordKind says what happened. The numbers stand in journals: they are never
// given a new meaning.
type RecordKind uint8

// Records of a run. Where "key" is said, the record also concerns the run's home
// key actor: before it goes there the shard host fills Key, Order, Stamp and
// FlagStarted in from the run, so the journal needn't repeat them.
const (
	// RecSubmitted (key): the run exists and is queued. Run, Order, Workflow,
	// Payload, Stamp, Trigger, IdempotencyKey, RequestID, Parent, Origin; of a successor
	// also Other, Root and Extra, as in InSubmit.
	RecSubmitted RecordKind = 1
	// RecAdmitted (key): all gates passed at once; a worker holds the run under
	// Fence. Run, Fence, Worker, Version, Lease, Attempts, Backoff. FlagToken when the
	// run's Rate token was taken by this admission: then Before and After are the
	// home key's bucket, or both zero when the token came from another key.
	RecAdmitted RecordKind = 2
	// RecCompleted (key): ended with a result. Run, Fence, Payload.
	RecCompleted RecordKind = 3
	// RecFailed (key): ended with an error. Run, Fence, ErrType, ErrText.
	RecFailed RecordKind = 4
	// RecRetrying (key): an attempt failed; the slot is free and the run waits until
	// Until. Run, Fence, ErrType, ErrText, Until.
	RecRetrying RecordKind = 5
	// RecSuspended (key): the holder gave the run back. Run, Fence, Until, FlagAbsolute,
	// FlagSignal, FlagRuns, FlagRecorded, Name, Visit, Extra: see InSuspend.
	RecSuspended RecordKind = 6
	// RecWoken (key): a suspended run is queued again at its old place. Run; Number of the
	// signal that its wait gets, if it gets one.
	RecWoken RecordKind = 7
	// RecExpired (key): the lease of Fence ended; the slot is free and the run is
	// queued again at its old place (P50). Run, Fence.
	RecExpired RecordKind = 8
	// RecCancelAsked: the holder is to stop. Run, Reason.
	RecCancelAsked RecordKind = 9
	// RecCancelled (key): ended cancelled. Run, Fence (zero when nobody held it), Reason;
	// Number is the InputKind of the holder's last message (zero when the lease ended),
	// so that its repeat is known (R15).
	RecCancelled RecordKind = 10
	// RecTerminated (key): ended terminated. Run, Fence, Reason. With a Fence the slot
	// stays taken, as a hold, until RecHoldFreed (R20).
	RecTerminated RecordKind = 11
	// RecHoldFreed (key): the last holder of a terminated run is gone. Run, Fence, Number
	// as for RecCancelled.
	RecHoldFreed RecordKind = 12
	// RecArchived: the run left memory; this node's archive holds it (R14). Run.
	RecArchived RecordKind = 13
	// RecContinued (key): the run was handed on before its body started (P28). Run, Other
	// (the successor), Version (of the successor's stamp).
	RecContinued RecordKind = 14
	// RecStep: a step's outcome. Run, Fence, Name, Visit, Payload or ErrType and ErrText,
	// Cost.
	RecStep RecordKind = 15
	// RecSignalled: the run keeps a signal. Run, Name, Payload, Number, RequestID.
	RecSignalled RecordKind = 16
	// RecTaken: a wait got a kept signal without a suspension. Run, Fence, Name, Visit,
	// Number.
	RecTaken RecordKind = 17
	// RecState: the run's state. Run, Fence, Payload.
	RecState RecordKind = 18
	// RecStarted: the body has started runs. Run, Fence, Name, Visit, FlagChild, Extra
	// (their ids).
	RecStarted RecordKind = 19
	// RecWatched: another run waits for this one's end. Run, Other, Root, Number.
	RecWatched RecordKind = 20
	// RecOutcome: an awaited run has ended. Run, Root (the id that was asked for), Status,
	// Payload, ErrType, ErrText.
	RecOutcome RecordKind = 21
	// RecChainOver: the last successor of a run that was handed on has ended (R14). Run.
	RecChainOver RecordKind = 22
	// RecTold: a waiter was told of the run's end. Run, Other, Root, Number.
	RecTold RecordKind = 23
)

// Records of a key alone.
const (
	// RecAsked: the home key asked the Rate's key for a token. Key (home), Peer, Run,
	// Order.
	RecAsked RecordKind = 32
	// RecUnused: a token came and could not be used; the run asks again with the next
	// credit. Key (home), Run, Until (the instant since which it was passed over).
	RecUnused RecordKind = 33
	// RecReserved: a free slot is set aside for a run that was passed over too long.
	// Key (home), Run.
	RecReserved RecordKind = 34
	// RecWanted: a want stands in the Rate's queue, awake. Key (the Rate's), Peer, Run,
	// Order, Interval, Burst.
	RecWanted RecordKind = 35
	// RecUnwanted: the want is gone. Key (the Rate's), Run.
	RecUnwanted RecordKind = 36
	// RecTokenGiven: the want got its token and left the queue. Key (the Rate's), Peer,
	// Run, Before, After.
	RecTokenGiven RecordKind = 37
	// RecTokenBack: a token came back unused: the bucket is Before again, or unchanged
	// with FlagForfeited. Without FlagDropped the want stands in the queue again,
	// resting. Key (the Rate's), Peer, Run, Order, Interval, Burst, Before.
	RecTokenBack RecordKind = 38
	// RecBatchOpened: the first event of a batch is about to be taken. Key, Run (the run
	// that the batch will be), Until (its deadline).
	RecBatchOpened RecordKind = 40
	// RecEvent: the open batch has another event. Key, Payload, IdempotencyKey (the
	// event's id), Until (the deadline, if the event moved it).
	RecEvent RecordKind = 41
	// RecBatchDue: the deadline has passed and no worker is alive. Key, Run.
	RecBatchDue RecordKind = 42
	// RecBatchCut: the batch is a run from now on (P67). Key, Run, Order, Stamp, Number
	// (its events), IdempotencyKey (the id of the event that filled it, if one did). The
	// run's parameters are made of the batch: see BatchParams.
	RecBatchCut RecordKind = 43
)

// Records of a shard.
const (
	// RecPromoted: a new owner; Fence is the shard's fence counter from now on (R18).
	RecPromoted RecordKind = 64
	// RecSent: letter Number to Shard lies in the outbox. Payload is the encoded Input.
	RecSent RecordKind = 65
	// RecReceived: letter Number of Shard was applied in this entry (R6).
	RecReceived RecordKind = 66
	// RecDelivered: Shard has applied all letters up to Number.
	RecDelivered RecordKind = 67
	// RecDeclared: a workflow's declaration. Workflow, Version, Payload.
	RecDeclared RecordKind = 68
	// RecKeyed: the idempotency key names the run for ever. IdempotencyKey, Run, Number
	// and Shard of the letter that creates it (both zero when this shard did).
	RecKeyed RecordKind = 69
	// RecKeyArchived: the idempotency key left memory; this node's archive holds it
	// (R10). IdempotencyKey.
	RecKeyArchived RecordKind = 70
	// RecScheduled: a schedule was declared, or declared anew. Origin (its name), Payload (the
	// definition), Until (the time that it waits for; zero when it is paused). In a snapshot
	// it tells the whole schedule: see actors/schedule_state.go.
	RecScheduled RecordKind = 71
	// RecScheduleFired: a time of a schedule has come. Origin, Until (the next one; zero when
	// there is none), Number (times that are left out), and Order and Run for the time that
	// got a run, or ErrText for why it got none.
	RecScheduleFired RecordKind = 72
	// RecScheduleDropped: the schedule is gone. Origin.
	RecScheduleDropped RecordKind = 73
	// RecSeeking: a run is awaited here that isn't in memory; the archive is asked for it
	// (R15). Run, Other, Root, Number, as in InWatch.
	RecSeeking RecordKind = 76
	// RecFound: that question is answered. Run, Other, Number.
	RecFound RecordKind = 77
)

// Records at or above RecVolatile are applied but never written: what they change
// is rebuilt by Resume.
const (
	RecVolatile RecordKind = 128
	// RecRenewed: the lease of Fence now ends at Until. Run, Fence, Until.
	RecRenewed RecordKind = 128
)

// Record is one fact, as it stands in the journal. At is the shard time of its
// entry; it is stored once for the entry, not in the record.
type Record struct {
	Kind RecordKind
	At   Instant
	Fields
}

// String is the kind's name in logs, transcripts and dumps.
func (k RecordKind) String() string { return nameOf(recordNames, int(k)) }

// Known says whether this build can apply records of the kind.
func (k RecordKind) Known() bool { return recordNames[int(k)] != "" }

var recordNames = map[int]string{
	int(RecSubmitted): "submitted", int(RecAdmitted): "admitted", int(RecCompleted): "completed",
	int(RecFailed): "failed", int(RecRetrying): "retrying", int(RecSuspended): "suspended",
	int(RecWoken): "woken", int(RecExpired): "expired", int(RecCancelAsked): "cancel-asked",
	int(RecCancelled): "cancelled", int(RecTerminated): "terminated", int(RecHoldFreed): "hold-freed",
	int(RecContinued): "continued", int(RecStep): "step", int(RecSignalled): "signalled",
	int(RecTaken): "taken", int(RecState): "state", int(RecStarted): "started", int(RecWatched): "watched",
	int(RecOutcome): "outcome", int(RecChainOver): "chain-over", int(RecTold): "told", int(RecSeeking): "seeking", int(RecFound): "found",
	int(RecScheduled): "scheduled", int(RecScheduleFired): "schedule-fired", int(RecScheduleDropped): "schedule-dropped",
	int(RecArchived): "archived", int(RecKeyArchived): "key-archived",
	int(RecAsked): "asked", int(RecUnused): "unused", int(RecReserved): "reserved",
	int(RecWanted): "wanted", int(RecUnwanted): "unwanted", int(RecTokenGiven): "token-given",
	int(RecTokenBack): "token-back", int(RecBatchOpened): "batch-opened", int(RecEvent): "event",
	int(RecBatchDue): "batch-due", int(RecBatchCut): "batch-cut", int(RecPromoted): "promoted", int(RecSent): "sent",
	int(RecReceived): "received", int(RecDelivered): "delivered", int(RecDeclared): "declared",
	int(RecKeyed): "keyed", int(RecRenewed): "renewed",
}

func nameOf(names map[int]string, k int) string {
	if n := names[k]; n != "" {
		return n
	}
	return "kind(" + strconv.Itoa(k) + ")"
}
