package flow

// InputKind says what an input asks of a state machine.
type InputKind uint8

// Inputs of a run actor.
const (
	_ InputKind = iota
	// InSubmit makes the run: Run, Order, Workflow, Payload (params), Stamp,
	// Trigger, IdempotencyKey, RequestID, Parent, Origin. A successor also brings Other
	// (its predecessor), Root and Extra (Luggage).
	InSubmit
	// InComplete ends the run with a result: Run, Fence, Payload.
	InComplete
	// InFail reports a failed attempt: Run, Fence, ErrType, ErrText, FlagRetryable.
	InFail
	// InSuspend gives the run back until something happens: Run, Fence, and Until for a
	// moment; with FlagSignal a signal Name comes, or Until if that is set; with FlagRuns
	// all runs in Extra have ended. Name and Visit say which wait of the body it is. No
	// attempt is used.
	InSuspend
	// InHeartbeat renews the lease: Run, Fence. It leaves no record.
	InHeartbeat
	// InCancel asks for the run's end: Run, Reason.
	InCancel
	// InTerminate ends the run at once: Run, Reason.
	InTerminate
	// InRunTick lets a run act on its deadlines: Run.
	InRunTick
	// InSteps records what a body has done: Run, Fence, and Parts: InStep for each
	// outcome, InTake for each signal to take, InState for the state. All or nothing.
	InSteps
	// InSignal gives the run a signal to keep: Run, Name, Payload, RequestID.
	InSignal
	// InStart starts runs for a body: Run, Fence, Name, Visit, FlagChild, and Parts: an
	// InCreate for each.
	InStart
	// InWatch asks to be told of the run's end: Run, Other (the waiter), Root (the id
	// that it asked for), Number (its wait).
	InWatch
	// InOutcome tells a waiter of an end: Run (the waiter), Root (the id that it asked
	// for), Number (its wait), Status, Payload, ErrType, ErrText.
	InOutcome
	// InHandOn hands a queued run on: Run, Other (the successor's id), Stamp (the
	// successor's).
	InHandOn
	// InChainOver tells a run that was handed on that the last of its successors has
	// ended: Run.
	InChainOver
)

// Parts of InSteps.
const (
	// InStep is a step's outcome: Name, Visit, Payload or ErrType and ErrText, Cost.
	InStep InputKind = iota + 96
	// InTake takes the oldest kept signal of a name for a wait: Name, Visit.
	InTake
	// InState replaces the run's state: Payload.
	InState
)

// Inputs of a key actor.
const (
	// InOffer lends one unit of worker credit: Key, Claim, Worker, Version, Fence (the
	// one that an admission is to use), Lease, Attempts, Backoff. One Step admits at
	// most one run.
	InOffer InputKind = iota + 32
	// InKeyTick lets a key act on its deadlines: Key.
	InKeyTick
	// InWant asks a Rate's key for a token: Key (the Rate's), Peer (the home key),
	// Run, Order, Interval, Burst. Repeated for a want that rests, it wakes it.
	InWant
	// InUnwant takes a want back: Key, Run.
	InUnwant
	// InToken brings a token to the home key: Key (home), Peer (the Rate's), Run,
	// Before, After. With FlagCredit a unit of credit is at hand, and the fields of
	// InOffer are set too; without it the token can only be returned.
	InToken
	// InUnused returns a token: Key (the Rate's), Peer, Run, Order, Interval,
	// Burst, Before, After; FlagDropped when the run doesn't want one any more.
	InUnused
	// InLeave tells the home key that a queued run is about to leave by another way
	// than admission: Key, Run. It leaves no record of its own.
	InLeave
	// InEvent brings an event to its key: Key, Payload, IdempotencyKey (its id, if it has
	// one), Run (the id of the run that a batch which it opens will be), Order and Stamp
	// (of the run, if it fills the batch), Interval (the window), and of a Collect Burst
	// (most events) and Number (most bytes, 0 for none); with FlagDebounce instead
	// Backoff (the longest wait, 0 for none).
	InEvent
	// InBatchTick says that the deadline of the open batch may have come: Key. With a Stamp,
	// and an Order, the batch is fired; without one no worker is alive (P72).
	InBatchTick
)

// Inputs that the shard host handles itself.
const (
	// InCreate makes a run on behalf of another run or shard: the fields of InSubmit,
	// with Order when it takes another's place.
	InCreate InputKind = iota + 64
)

// Input is one message to a state machine.
type Input struct {
	Kind InputKind
	Fields
	Parts []Input // of InSteps and InStart; never in a letter
}

// String is the kind's name in logs and transcripts.
func (k InputKind) String() string { return nameOf(inputNames, int(k)) }

var inputNames = map[int]string{
	int(InSubmit): "submit", int(InComplete): "complete", int(InFail): "fail",
	int(InSuspend): "suspend", int(InHeartbeat): "heartbeat", int(InCancel): "cancel",
	int(InTerminate): "terminate", int(InRunTick): "run-tick", int(InOffer): "offer",
	int(InKeyTick): "key-tick", int(InWant): "want", int(InUnwant): "unwant",
	int(InSteps): "steps", int(InSignal): "signal", int(InStart): "start", int(InWatch): "watch",
	int(InOutcome): "outcome", int(InHandOn): "hand-on", int(InChainOver): "chain-over",
	int(InStep): "step", int(InTake): "take", int(InState): "state",
	int(InEvent): "event", int(InBatchTick): "batch-tick",
	int(InToken): "token", int(InUnused): "unused", int(InLeave): "leave", int(InCreate): "create",
}
