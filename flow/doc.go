// Package flow is the vocabulary of pyrula-node: run and key ids, instants,
// policies, gates and stamps, and the three flat sum types that the state
// machines speak: [Input], [Record] and [Effect].
//
// # The contract of a state machine
//
// A key and a run are each a pure, deterministic state machine with one face:
//
//	Step(now, in, out)  decides: appends records and effects to out, changes nothing
//	Apply(rec)          the only mutation; total; shared by the live path and replay
//	Resume(now, out)    after replay: every effect still owed
//	Due()               the next instant at which Step wants a tick
//	Check()             every invariant
//	Explain             read-only: why a run waits
//
// A record is a fact that happened, never a request: replay does no arithmetic
// of gates, so a changed rule can't change history. An effect is what is owed to
// the outside once the records of its turn are durable. After every Step the
// caller applies the records of out, in order, to every machine they concern,
// before the next Step.
//
// # What this package must not know
//
// It reads no clock, draws no random number, starts no goroutine, takes no lock
// and does no I/O; time is an argument. Its state holds integers and strings, no
// floats: [Rate.PerSecond] exists only in a declaration and becomes whole
// nanoseconds before it is kept.
package flow
