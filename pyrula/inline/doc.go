// Package inline runs workflows in this process, with no server and no disk:
//
//	runner, err := inline.New(inline.Config{}, Charge, Refund)
//	receipt, err := inline.Run(ctx, runner, Charge, Order{...}) // waits at its gates, as on a node
//	err = runner.Close()
//
// It is a whole node on the inside: the same shards, the same state machines of keys
// and runs, the same HTTP API without a socket, and a [pyrula.Worker] that claims from
// it. So every gate is the gate of a node (P9), and all that a [pyrula.Client] can do
// works through [Runner.Client]. What is missing is the disk: when the process ends, or
// [Runner.Close] is called, every run is gone.
//
// # Waiting at a gate
//
// A run is gated while it is queued and a Limit or a Rate is what it waits for. Nobody
// else may ever end such a wait, which is why [Run] has a gate timeout: a run that is
// still gated when it is over is cancelled, so that it holds no place in its queue, and
// Run returns a *[RunGatedError] (P10, P84). After 10 s at a gate one line goes to the
// log (P11).
//
// A wait begins with the submit, and again each time that the run is queued anew: by the
// end of a sleep, a signal, a child, a retry's back-off, or a lost lease. What a run
// spends in its body or suspended doesn't count. A wait that no gate causes, say for a
// free place of the worker, doesn't end in an error.
//
// A body that needs another run's result uses [pyrula.Workflow.RunChild], which frees its
// slot while it waits (P54). Run called by a body keeps the slot: under one key with a
// Limit of 1 such a call waits for itself, until the gate timeout.
//
// # Decisions
//
// The SDK speaks the API, without a socket, and doesn't call the actors: then whatever it
// does inline, it does on a node, in the same bytes, and one set of tests serves both. Only
// the wait of Run asks the node itself, since a wait over the API ends each 30 s.
//
// The timeout never takes a run away from a body that has started. Between the look that
// finds a run gated and its cancel the gate may open. So the runner marks the run first,
// looks once more, and cancels only what is still queued; a grant of a marked run waits
// for that decision before it reaches the worker, and goes back when the decision was to
// leave. One of the two has happened, then, and both sides agree which.
//
// The end of Run's context cancels its run, also one whose body works: nobody is left who
// could take its result, and after the process there is nothing to resume it.
// [pyrula.Workflow.Start] through Runner.Client makes runs that need no listener. A run
// that an earlier call made under the same idempotency key is left alone in both cases:
// it isn't this call's to cancel.
//
// Run looks at its run when there is something to see: at its end, when a wait that it
// knows of has lasted 10 s or the gate timeout, and otherwise each 10 s or gate timeout,
// the shorter of the two, since no wait that began later can be due before. So errors and
// log lines come at their very instant, and a waiting call costs next to nothing. (With a
// gate timeout below 100 ms a wait after the first one may last up to 100 ms.)
//
// A Rate that lies in another shard than the Limit is asked by a message. Until its answer
// is there, for at most 100 ms, the run counts as not gated, also with a gate timeout of 0.
//
// Time comes from package time alone, so in a bubble of testing/synctest it is virtual,
// and a day of back-off passes in a moment; package pyrulatest wraps that up. Close ends
// every goroutine of the runner.
package inline
