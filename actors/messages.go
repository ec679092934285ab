package actors

import (
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/runactor"
)

// Messages to a shard. Those of the engine and the clock are handled as they
// come; all others wait in the pending ring for room in the log (R5).

// command is an input to a run, or a new one.
type command struct {
	in      flow.Input
	ask     askID
	item    int
	counted bool // new work: takes a place of the shard's admission counter (R7)
	looked  bool // its idempotency key isn't in the archive
}

// foundMsg is what the archive said about an idempotency key.
type foundMsg struct {
	epoch engine.Epoch
	key   string
	run   flow.RunID
	err   error
}

// archivedMsg says that the archive has runs and idempotency keys on disk.
type archivedMsg struct {
	runs []flow.RunID
	keys []string
	ask  askID
	item int
}

// declareMsg asks shard 0 to take a declaration.
type declareMsg struct {
	def *flow.Definition
	ask askID
}

// offerMsg lends credit to a shard in one epoch; in any other it is void.
type offerMsg struct {
	epoch  engine.Epoch
	offers []offer
}

// lentMsg is one of its offers, in the pending ring.
type lentMsg struct {
	epoch engine.Epoch
	offer *offer
}

// offer is one unit of a claim's credit, for one key.
type offer struct {
	key    flow.KeyID
	claim  uint64
	worker string
	def    *flow.Definition // what the worker serves
}

// letterMsg brings a letter of another shard.
type letterMsg struct {
	from   engine.ShardID
	number uint64
	body   []byte
}

// ackMsg says how far another shard has received; with again it asks for what
// follows.
type ackMsg struct {
	from  engine.ShardID
	upto  uint64
	again bool
}

// queryMsg reads; its answer waits until everything it saw is durable.
type queryMsg struct {
	read func(*shard) (any, error)
	ask  askID
	item int
}

// watchMsg asks to be told when a run has ended; unwatchMsg takes that back.
type watchMsg struct {
	run flow.RunID
	ask askID
}

type unwatchMsg watchMsg

// watcher is somebody who waits for the end of a run.
type watcher struct{ ask askID }

// fetchMsg asks for the whole ready set (R11).
type fetchMsg struct{}

// tickMsg says that the earliest deadline may have come.
type tickMsg struct{}

// promoteMsg hands the shard its rebuilt state.
type promoteMsg struct {
	epoch engine.Epoch
	wall  flow.Instant
	st    *state
}

type committedMsg struct {
	epoch engine.Epoch
	upto  engine.Seq
}

type demoteMsg struct {
	epoch  engine.Epoch
	reason error
}

// captureMsg begins a snapshot, sliceMsg walks on, releaseMsg ends it.
type captureMsg struct{ reply chan<- captureReply }

type captureReply struct {
	cap *capture
	err error
}

type sliceMsg struct {
	cap   *capture
	reply chan<- sliceReply
}

type sliceReply struct {
	bytes []byte
	more  bool
	err   error
}

type releaseMsg struct{ cap *capture }

// quietMsg ends the turns of a shard: from then on it appends nothing, so that the
// engine can take its snapshot and close. done is closed when it is so.
type quietMsg struct{ done chan<- struct{} }

// Messages to the dispatcher.

// claimMsg is a worker's claim.
type claimMsg struct {
	ask    askID
	worker string
	serves []*flow.Definition
	credit int
	wait   flow.Span
	plain  bool // the answer has no room for candidates
}

// unclaimMsg ends a claim whose asker has gone.
type unclaimMsg struct{ ask askID }

// newsMsg is what a shard's turn means for the dispatcher (R11). They are numbered
// within an epoch; whole says that ready is the entire ready set.
type newsMsg struct {
	shard  engine.ShardID
	epoch  engine.Epoch
	number uint64
	whole  bool
	ready  []readiness
	back   []uint64 // claims whose unit comes back as "not now"
}

// readiness says how many runs of a key offers could move now, and how many offers
// the shard has handled since it last said so.
type readiness struct {
	key      flow.KeyID
	count    int64
	consumed int64
}

// goneMsg says that a shard has lost its state: what was lent to it comes back.
type goneMsg struct{ shard engine.ShardID }

// grantedMsg is a unit of credit that became a grant, durably.
type grantedMsg struct {
	shard engine.ShardID
	claim uint64
	grant *Grant
}

// seenMsg says that a worker lives.
type seenMsg struct{ worker string }

// servedMsg asks whether a live worker serves a workflow.
type servedMsg struct {
	workflow string
	ask      askID
}

// creditMsg asks for the credit that waits.
type creditMsg struct {
	ask  askID
	item int
}

// claimTimeMsg says that a claim's wait may be over.
type claimTimeMsg struct{}

// Grant is a run that a worker now holds.
type Grant struct {
	Run       flow.RunID
	Workflow  string
	Version   string
	Key       string
	Params    []byte
	Attempt   int64
	Fence     uint64
	Lease     flow.Span
	Cancelled bool // a cancel was asked for before the grant
	History   page
	Signals   []runactor.KeptSignal
	State     []byte
}
