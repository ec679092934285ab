// Package runactor is the life of one run: a pure, deterministic state machine
// that decides who holds the run, when a hold is over, and how the run ends.
//
// # States
//
//	           submitted
//	               │
//	               ▼          admitted                completed, failed
//	┌─────────► queued ───────────────────► executing ────────────────► completed
//	│              │ ▲                       │  │  │ ▲                  failed
//	│              │ └──────── expired ──────┘  │  └─┘ cancel-asked
//	│              │                            │      step, state,
//	│              │                            │      taken, started
//	│ woken        │ cancelled, terminated,     │
//	│              │ continued                  ├── cancelled ─────────► cancelled
//	│              ▼                            │
//	│       cancelled                           ├── terminated ────────► terminated,
//	│       terminated                          │                        held until
//	│       continued                           │                        hold-freed
//	│       failed                              │
//	│              ▲                            │ suspended, retrying
//	│              │ cancelled, terminated,     │
//	│              │ failed                     ▼
//	└──────────────┴──────────────────────── suspended ◄─┐
//	                                             │       │
//	                                             └───────┘ outcome
//
// The words on the arrows are records. [Run.Step] decides which of them happen,
// [Run.Apply] makes them happen, and nothing else changes a run. Signalled and watched
// leave the status as it is wherever the run hasn't ended; told and chain-over come after
// the end. Continued happens only before the first admission.
//
// # What a suspension waits for
//
//	handed back   a moment, of which the history knows nothing
//	back-off      the end of a failure's pause
//	moment        a moment, and then the history says that it has come
//	signal        a signal of a name, or the end of a time if there is one
//	runs          the end of all of some runs, or of their chains
//
// A suspended run always has a cause that can wake it: an instant that Due tells, a signal
// to come, or a run that was asked to tell of its end (S96). What it waits for may have
// come already; then suspended and woken stand in one entry.
//
// # Records and who decides them
//
//	submitted    Step, from InSubmit; of a successor it brings what it takes over
//	admitted     the home key, never a run: gates are no business of this package
//	completed    Step, from the holder's complete
//	failed       Step, from the holder's fail with no try left, and from whatever would
//	             make the history too large
//	retrying     Step, from the holder's fail with a try left
//	suspended    Step, from the holder's suspend
//	woken        Step, from a tick at the end of a suspension, from the signal or the
//	             last outcome that is waited for, or at once
//	expired      Step, from a tick at the end of the lease
//	cancel-asked Step, from a cancel of an executing run
//	cancelled    Step, from a cancel of a run that nobody holds; or from whatever
//	             ends the hold of a run that was asked to stop
//	terminated   Step, from a terminate
//	hold-freed   Step, from the terminated holder's last message, or its expiry
//	renewed      Step, from a heartbeat, and Resume; it is never written
//	continued    Step, from a hand-on of a queued run that has never started
//	step         Step, from the holder's steps: what a call of the body came to
//	state        Step, from the holder's steps
//	taken        Step, from the holder's steps: a wait got a signal that was kept
//	started      Step, from the holder's start of children or other runs
//	signalled    Step, from a signal: it is kept until a wait gets it
//	watched      Step, from a run that waits for this one's end
//	told         Step, beside the end and in ticks after it, for each that waits for it
//	outcome      Step, from an awaited run that tells of its end
//	chain-over   Step, from the end of the last successor
//
// # Laws
//
//   - One ending. A run ends by exactly one record of completed, failed,
//     cancelled, terminated and continued, and no status follows it.
//   - One holder. A worker's message counts only while its fence is the holder's.
//     A fence that has left is refused for ever, but the last ending request that
//     was taken may be repeated: it is answered as before and changes nothing.
//   - A slot belongs to the lease (P50). Every admission is followed by exactly
//     one record that frees: completed, failed, retrying, suspended, expired,
//     cancelled with a fence, or hold-freed. A failed without a fence ends a suspended
//     run and frees nothing.
//   - An acknowledged cancel wins (S62): once cancel-asked stands, however the
//     holder's time ends, the run ends cancelled. The children that it waits for, or was
//     about to wait for, are asked to stop with it.
//   - An expiry is no failure: it uses an attempt's number, never a try.
//   - The history only grows. What a call of the body, known by kind, name and visit,
//     came to is recorded once and never another; the same request again is passed over
//     (S21), and another outcome is a conflict that records nothing.
//   - A signal is in one place (S88, S92): kept, in the entry of the one wait that got it,
//     or in the luggage of the successor. Waits get the signals of a name in the order in
//     which they came. Until the body goes on after it, the last one is delivered again
//     with each attempt (S100).
//   - A wait has a number, and what comes for another wait changes nothing (S95).
//   - Who waits for the end is told once (S106): by the run itself, or by the last of
//     its successors, which takes over those who wait.
//   - A hand-on happens before the first admission or not at all (P29), and what a
//     handed-on run keeps goes with it (P76). From then on it hears only of the end of its
//     chain; its shard passes on whatever else is meant for it.
//   - What a run records and keeps is bounded (R13). A body that goes over the bound fails;
//     a signal that would is refused.
//   - A refused input appends nothing.
//   - Records are facts: Apply does no arithmetic of tries, leases or back-offs
//     that a later build could do otherwise. The one exception is volatile: the end
//     of a lease, which Resume sets anew after every replay.
//
// # What this package must not know
//
// It knows no key, queue, gate or token: it carries a run's stamp and never reads
// it; whether gates differ, and which version is newer, is decided before a hand-on
// comes here. It doesn't know where another run lives: it names it in a letter. It
// doesn't know the log or the network, reads no clock, and starts nothing.
package runactor
