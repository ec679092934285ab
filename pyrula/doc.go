// Package pyrula is the Go SDK of pyrula-node: a program declares workflows with
// their flow control, submits runs, and works on them.
//
//	var Charge = pyrula.Define("charge", func(r *pyrula.Run, o Order) (Receipt, error) {
//		return charge(r, o) // r is a context
//	},
//		pyrula.Limit{Key: "tenant", Max: 2},                 // two at a time for each tenant
//		pyrula.Rate{Key: "tenant", PerSecond: 20, Burst: 5}, // 20 starts a second, bursts of 5
//	)
//
//	c, err := pyrula.Dial(ctx)                          // PYRULA_ADDR, or 127.0.0.1:7477
//	err = c.Work(ctx, Charge)                           // in the programs that work
//	run, err := Charge.Start(ctx, c, Order{...})        // in the programs that submit
//	receipt, err := run.Result(ctx)
//
// # The model
//
// A workflow is a named function with policies. A run is one execution of it. A run
// is stamped with the policies when it is submitted, waits in the queue of its key,
// and starts when all its gates let it through at once: a Limit has a free slot, a
// Rate has a token. Waiting is no error and never ends in one; [Client.Why] says what
// a run waits for. Gates are judged by the node when a worker claims; neither the
// submit nor the body ever waits for one.
//
// A [Client] submits and reads. A [Worker] claims as many runs as it has free places,
// calls their bodies, each in a goroutine of its own, and reports what they return.
// Both need only outgoing connections.
//
// # What is promised
//
//   - A submit that was answered is never lost. However often a submit is sent again
//     for want of an answer, it makes one run; a repeat of a whole program makes one
//     run if it brings an idempotency key ([OnceKey]).
//   - At no time do more than Max runs of a key execute: the node counts slots exactly,
//     and a worker stops a body before the node gives its slot away.
//   - A body runs at least once, and its run ends once. It may run again after a lost
//     worker, a lost connection, a drain, or an error while attempts are left. So what
//     it does must bear to be done twice, or be guarded by [Run.Fence].
//   - A drain, a lost worker and a wait at a gate use no attempt.
//
// What is not promised: a body that ignores its context can't be stopped. Its run is
// given to another worker when the lease is over, and then two bodies are at work;
// the fence tells them apart.
//
// # Leases
//
// A worker doesn't own a run, it has a lease on it. Worker and node each count the
// lease by their own monotonic clock and never compare them. What keeps two bodies
// apart is that the worker begins to count earlier and stops earlier:
//
//	          t0          t0 + L/3                  t0 + L
//	worker    │ claim sent │                        │ body's context ends,
//	          ├────────────┼────────────────────────┤ nothing is reported
//	          │ may start  │ may start only after a │
//	          │ at once    │ confirmed heartbeat    │
//
//	                t1 ≥ t0                               t1 + 1.2 L + 1 s
//	node            │ claim received, run granted         │ slot freed,
//	                ├─────────────────────────────────────┤ run queued again
//
// t0 is the SENDING of the last request that the node confirmed: of the claim at
// first, then of each heartbeat. It is not when the answer came: a process that was
// stopped with the answer in its socket would believe in a lease that is long over.
// For the same reason the clock is read once more immediately before the body is
// called. The fifth of the lease and the second that the node waits longer cover
// clocks that run at different speeds, and the time between reading a clock and
// acting on it.
//
// Heartbeats leave each third of the lease, for all runs of a worker in one request.
// One that fails is repeated each twelfth. The body's context ends, and
// context.Cause says why, when
//
//   - somebody asked for the run's end: [ErrCancelRequested]. The lease goes on, and
//     what the body returns is reported;
//   - the node answers that the worker doesn't hold the run, or no heartbeat was
//     confirmed for the lease: [ErrLeaseLost]. What the body returns is dropped;
//   - the worker drains and its timeout is over: [ErrDraining]. An error hands the run
//     back.
//
// A machine that is suspended as a whole stops its monotonic clock too. A worker on
// it notices with its first heartbeat after that, not before: what its bodies do in
// between only the fence can refuse.
//
// # Bodies that survive
//
// A body may wait for longer than any worker lives: [Run.Sleep] for a moment,
// [Run.WaitSignal] for a message, [Workflow.RunChild] and [Run.WaitRuns] for other runs.
// Each suspends the run: the body's goroutine ends where it waits (its deferred calls run,
// and there is no panic to recover from), the slot is free, and no worker is needed. When
// the wait is over the run wins its slot again, at its old place and without a second
// token, at any worker, and the body is run again from its start. What it has done before
// is answered from the run's history:
//
//	Step("charge")         │ calls its function, records    │ gives what is recorded
//	WaitSignal("approved") │ suspends, the goroutine ends   │ gives the payload
//	Step("ship")           │                                │ calls its function, records
//	                       └─ first run of the body         └─ second, days later, elsewhere
//
// The same happens after a lost worker, a drain, and an attempt that failed. A step whose
// result is on disk is never run again; one whose worker was lost before that may be.
//
// The k-th operation of a body must be the k-th of its history, so what a body does between
// operations must depend on its parameters and on what operations returned, and on nothing
// else: no clock, no random number, no map in its own order. Put those into a [Step]. A body
// that asks for something else than is recorded fails its run, whatever attempts are left,
// with the type "nondeterministic"; the message names both. Operations are called one after
// another, and none in a step's function. Give changed code a new [Version], and let runs
// that have begun end under the old.
//
// A run's context ends with [ErrSuspended] when its body suspends, so whatever goroutines
// the body has started should listen to it.
//
// # Events
//
// A workflow with a [Collect] or a [Debounce] has its runs made of events: many events of a
// key become one run, whose body takes a [Batch] of them.
//
//	var Digest = pyrula.Define("digest", func(r *pyrula.Run, b pyrula.Batch[Comment]) (Mail, error) {
//		return mail(b.Key, b.Events) // all comments of one user
//	}, pyrula.Collect{Key: "user_id", MaxEvents: 50, Window: time.Minute})
//
//	run, err := pyrula.Trigger(ctx, c, Digest, Comment{...}) // run is nil, or made by this event
//
// The node gathers the events durably: an event that was acknowledged is in one run, and of
// a key in the order in which they came. A batch that is full becomes a run at once, and the
// answer names it. One whose time has come is made a run by the node, on behalf of a worker
// that is alive (P38): a worker doesn't ask for it, and one that is busy serves as well as
// one that isn't. With no worker alive the batch waits for one, and what comes meanwhile is
// in it too (P72). Without the code, [Client.Trigger] and [Client.TriggerBatch] send events
// by name, and [Client.Key] shows a key's open batch with the id of the run that it will be.
//
// A repeat of an event is known by its id ([EventID]). The SDK gives each call one, so what
// it sends again for want of an answer counts once.
//
// # What this package must not know
//
// It speaks the node's public API and nothing else: no actor, no journal, no state
// machine. It shares with the node the words of package flow and the shapes of
// package wire. Errors are its own, one sentinel for each code of the API.
package pyrula
