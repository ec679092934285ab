// Package keyactor is the state machine of a key: who waits for it, who holds
// its slots, how full its token bucket is, and who may start next.
//
// A [Key] is the actor of one (workflow, key value). It is pure: [Key.Step]
// decides and changes nothing, [Key.Apply] is the only mutation, and the same
// records always make the same key. It has no clock, no goroutine and no lock;
// its caller, one shard, owns it and uses it from one goroutine.
//
// # A run, as its key sees it
//
//	          submitted, woken, expired
//	                    |
//	                    v        unused
//	  cancelled  +-------------+ <------ +------------+  cancelled
//	<----------- |   waiting   |         |   asked    | ----------->
//	 terminated  | (rests if   | ------> | (its want  |  terminated
//	 continued   | once asked) |  asked  | stands at  |  continued
//	             +-------------+         | the Rate's |
//	                    |                | key)       |
//	                    | admitted       +------------+
//	                    v                      | admitted
//	             +-------------+               |
//	             |   holder    | <-------------+
//	             +-------------+
//	               |         | terminated
//	completed,     |         v
//	failed,        |      +------------------+
//	retrying,      |      | terminated hold  |
//	suspended,     |      +------------------+
//	expired,       |         | hold-freed
//	cancelled      v         v
//	              slot freed, once
//
// A suspended run isn't here at all: the key hears of it again when it is woken. A run
// that is handed on leaves as a cancelled one does, and its successor is submitted, here
// or at the key of its own stamp, at the same place (P76).
//
// # Laws
//
// Each is checked by [Key.Check] or by a property over random histories.
//
//   - used = holders that took a slot + slots set aside (P3, R20).
//   - A run is admitted only if used is below the max of its own stamp, and if the
//     shared bucket is open under the rate of its own stamp (P59).
//   - What a slot's freeing needs is remembered with its holder: no declaration is
//     looked up (P58).
//   - Order is (submit instant, run id), for local runs and for wants alike. A
//     younger run passes an older one only while the older is held by a gate
//     other than the Limit they compete for (P61, P62).
//   - A token is taken in the entry of an admission, or given for a want and
//     then used or sent back in the turn it arrives; it is never kept (R3).
//   - At rest, when [Key.Ready] is zero no offer would change anything.
//
// # The token bucket
//
// The bucket is one integer, the instant at which it will be full again (GCRA's
// theoretical arrival time). Taking a token moves it one interval into the
// future. It is open for a run if it is at most burst-1 intervals ahead of now:
//
//	rate 1/s, burst 3; bucket full at 0 s
//	take at 0.0 s   full at 1 s   2 tokens left
//	take at 0.0 s   full at 2 s   1
//	take at 0.0 s   full at 3 s   0, opens at 3 s - 2 x 1 s = 1 s
//
// A bucket that is full has the canonical value zero, so that a key that was
// forgotten while it was full and a key that wasn't are the same key.
//
// # Two keys
//
// A run whose Rate is keyed on another value than its Limit has two keys. Its
// home is the Limit's; the Rate's key is asked with a want (R4). Home asks only
// while it has a free slot that no other want under way may need; the Rate's key
// answers each want once, at its turn; home uses the token at once or sends it
// back, and then the want rests until home asks again. Letters between two keys
// arrive once and in the order in which they were sent (R6).
//
//	home (the Limit's key)                        the Rate's key
//	  offer: asked          -- want -->             wanted, awake
//	                        <-- token --            token-given, at its turn
//	  slot and credit: admitted
//	  else: unused          -- unused -->           token-back, resting
//	  offer: asked again    -- want -->             wanted, awake
//	  cancelled             -- unwant -->           unwanted
//
// A run that was passed over in this way for [PassedOver] gets the next free slot
// set aside: until it has that slot nobody else starts, and a slot set aside was
// tested against the run's max when it was. At the Rate's key the wants and the
// key's own runs are one queue: the oldest want waits for its own turn, and a head
// of the own queue that is older is left a token for a short grace.
//
// # What this package must not know
//
// The life of a run (leases, attempts, results), workers, credit beyond the
// single unit that an offer lends, shards and journals.
package keyactor
