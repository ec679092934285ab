// Package actors hosts the state machines of keys and runs: it carries messages,
// time and bytes to and from them, and decides nothing about gates or runs
// itself.
//
// # Actors
//
//	shard       owner of 64 partitions: keys, runs, outbox, idempotency keys. One
//	            goroutine at a time, one ordered log.
//	dispatcher  one for a node: worker credit and the keys that have work.
//	Node        the face of both: what transport calls.
//
// Each is a process of hollywood with a mailbox of its own ([mailbox]); hollywood
// is used for its ordered inbox and its registry, nothing else (docs/adr/0001).
//
// # One turn of a shard
//
//	inbox -> pending ring -> for each message: Step, Apply the records
//	      -> one entry for the whole batch -> Log.Append
//	      -> next turn at once; effects wait in the window until Committed
//
// # Laws
//
//  1. Nothing leaves a shard before the records it depends on are durable: no
//     reply, no grant, no letter, no answer to a read that saw them. News to the
//     dispatcher of the same node (a key has work, a unit of credit comes back) is
//     a hint that carries no fact: it lends credit sooner, and the grant waits.
//  2. One batch is one entry: what must be true together is written together.
//  3. Fail-stop: a broken invariant or a failed write ends the process through
//     [Config.Fatal]. Nothing is patched over with recover.
//
// # What this package must not know
//
// HTTP, files and Prometheus. It declares the small interfaces it needs (Clock,
// Observer) and speaks to its log through persistence/engine.
package actors
