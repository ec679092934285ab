package flow

// WaitReason is why a run waits. The set is closed: a waiting run always has one
// of these.
type WaitReason string

// The reasons.
const (
	WaitLimit        WaitReason = "limit"
	WaitRate         WaitReason = "rate"
	WaitSchedule     WaitReason = "schedule"      // suspended until an instant
	WaitRetryBackoff WaitReason = "retry_backoff" // an attempt failed
	WaitNoWorker     WaitReason = "no_worker"     // nothing holds it but that no live worker serves it
	WaitWorkerBusy   WaitReason = "worker_busy"   // live workers serve it, none has credit
	WaitCluster      WaitReason = "cluster"       // a message between shards is under way
	WaitSignal       WaitReason = "signal"        // suspended until a signal comes
	WaitChild        WaitReason = "child"         // suspended until other runs have ended
)

// Wait says why a run waits, from the very function that decides.
type Wait struct {
	Reason   WaitReason
	Gate     GateKind // the gate that refuses, if one does
	Key      string
	Used     int64 // slots taken of the Limit
	Max      int64
	Tokens   int64 // tokens in the bucket, as the run's own Rate counts them
	Burst    int64
	Position int64   // 1 is the head of the key's queue
	OpensAt  Instant // when a token or the end of a suspension comes; zero when no instant is known
	Holders  []Holder
	Since    Instant // when this wait began
	Signal   string  // the name of the signal that is waited for
	Runs     []RunID // the runs that are waited for and haven't ended
}

// Holder is a run that holds a slot.
type Holder struct {
	Run        RunID
	Fence      uint64
	Terminated bool // the run has ended; its last worker has not said so yet (R20)
	Reserved   bool // a slot set aside for a run whose token is under way
}
