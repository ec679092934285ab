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
//	│              │                            │
//	│ woken        │ cancelled, terminated      ├── cancelled ─────────► cancelled
//	│              ▼                            │
//	│       cancelled                           ├── terminated ────────► terminated,
//	│       terminated                          │                        held until
//	│              ▲                            │ suspended, retrying    hold-freed
//	│              │ cancelled, terminated      ▼
//	└──────────────┴──────────────────────── suspended
//
// The words on the arrows are records. [Run.Step] decides which of them happen,
// [Run.Apply] makes them happen, and nothing else changes a run.
//
// # Records and who decides them
//
//	submitted    Step, from InSubmit
//	admitted     the home key, never a run: gates are no business of this package
//	completed    Step, from the holder's complete
//	failed       Step, from the holder's fail with no try left
//	retrying     Step, from the holder's fail with a try left
//	suspended    Step, from the holder's suspend
//	woken        Step, from a tick at the end of a suspension, or at once
//	expired      Step, from a tick at the end of the lease
//	cancel-asked Step, from a cancel of an executing run
//	cancelled    Step, from a cancel of a run that nobody holds; or from whatever
//	             ends the hold of a run that was asked to stop
//	terminated   Step, from a terminate
//	hold-freed   Step, from the terminated holder's last message, or its expiry
//	renewed      Step, from a heartbeat, and Resume; it is never written
//
// # Laws
//
//   - One ending. A run ends by exactly one record of completed, failed,
//     cancelled and terminated, and no status follows it.
//   - One holder. A worker's message counts only while its fence is the holder's.
//     A fence that has left is refused for ever, but the last ending request that
//     was taken may be repeated: it is answered as before and changes nothing.
//   - A slot belongs to the lease (P50). Every admission is followed by exactly
//     one record that frees: completed, failed, retrying, suspended, expired,
//     cancelled with a fence, or hold-freed.
//   - An acknowledged cancel wins (S62): once cancel-asked stands, however the
//     holder's time ends, the run ends cancelled.
//   - An expiry is no failure: it uses an attempt's number, never a try.
//   - A refused input appends nothing.
//   - Records are facts: Apply does no arithmetic of tries, leases or back-offs
//     that a later build could do otherwise. The one exception is volatile: the end
//     of a lease, which Resume sets anew after every replay.
//
// # What this package must not know
//
// It knows no key, queue, gate or token: it carries a run's stamp and never reads
// it. It doesn't know the log or the network, reads no clock, and starts nothing.
package runactor
