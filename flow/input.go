package flow

// InputKind says what an input asks of a state machine.
type InputKind uint8

// Inputs of a run actor.
const (
	_ InputKind = iota
	// InSubmit makes the run: Run, Order, Workflow, Payload (params), Stamp,
	// Trigger, IdempotencyKey, RequestID.
	InSubmit
	// InComplete ends the run with a result: Run, Fence, Payload.
	InComplete
	// InFail reports a failed attempt: Run, Fence, ErrType, ErrText, FlagRetryable.
	InFail
	// InSuspend gives the run back until an instant: Run, Fence, Until. No attempt
	// is used.
	InSuspend
	// InHeartbeat renews the lease: Run, Fence. It leaves no record.
	InHeartbeat
	// InCancel asks for the run's end: Run, Reason.
	InCancel
	// InTerminate ends the run at once: Run, Reason.
	InTerminate
	// InRunTick lets a run act on its deadlines: Run.
	InRunTick
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
)

// Inputs that the shard host handles itself.
const (
	// InCreate makes a run on behalf of another shard: the fields of InSubmit.
	InCreate InputKind = iota + 64
)

// Input is one message to a state machine.
type Input struct {
	Kind InputKind
	Fields
}

// String is the kind's name in logs and transcripts.
func (k InputKind) String() string { return nameOf(inputNames, int(k)) }

var inputNames = map[int]string{
	int(InSubmit): "submit", int(InComplete): "complete", int(InFail): "fail",
	int(InSuspend): "suspend", int(InHeartbeat): "heartbeat", int(InCancel): "cancel",
	int(InTerminate): "terminate", int(InRunTick): "run-tick", int(InOffer): "offer",
	int(InKeyTick): "key-tick", int(InWant): "want", int(InUnwant): "unwant",
	int(InToken): "token", int(InUnused): "unused", int(InLeave): "leave", int(InCreate): "create",
}
