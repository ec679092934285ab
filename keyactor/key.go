package keyactor

import (
	"fmt"

	"github.com/pyrula/pyrula-node/flow"
)

// Key is the state machine of one key. Make it with New. It isn't safe for
// concurrent use: its shard owns it.
type Key struct {
	id    flow.KeyID
	tat   flow.Instant // when the bucket is full again; zero when it is full
	used  int64        // slots of holders, and slots set aside
	shown shown

	waiting ordered[waiter] // runs that can be looked at; those under way aren't among them
	holders ordered[holder]
	asks    *asks  // home side of two keys (R4); nil until the first want is sent
	wants   *wants // Rate side of two keys (R4); nil until the first want comes
	batch   *batch // events that are gathered; nil when there are none
}

// shown is the gates that were last seen here. It decides nothing: View counts
// the bucket by it.
type shown struct {
	rate rate
	max  int64
}

// New is the key of that name: nobody waits, nobody holds, the bucket is full.
func New(id flow.KeyID) *Key { return &Key{id: id} }

// ID is the key's name.
func (k *Key) ID() flow.KeyID { return k.id }

// Step decides what in does at now: it appends the records to apply and the
// effects owed once they are durable. It changes nothing. now never goes back from
// one call to the next.
//
//	InOffer    at most one run is admitted, or asks for its token elsewhere
//	InKeyTick  at most one want gets its token; call it until it appends nothing
//	InToken    the token is used at once, or sent back
//	InUnused   a token came back
//	InWant, InUnwant, InLeave
//	InEvent      the event is in the open batch, and a batch that it fills is cut; refused
//	             with a *flow.BufferFull
//	InBatchTick  the open batch is cut, or marked as due, if its deadline has come
//
// An input of any other kind isn't a key's: out.Err is flow.ErrUnsupported.
func (k *Key) Step(now flow.Instant, in *flow.Input, out *flow.Out) {
	switch in.Kind {
	case flow.InOffer:
		k.offer(now, in, out)
	case flow.InKeyTick:
		k.tick(now, out)
	case flow.InToken:
		k.token(now, in, out)
	case flow.InLeave:
		k.unask(in, out)
	case flow.InWant:
		k.want(now, in, out)
	case flow.InUnwant:
		k.unwant(now, in, out)
	case flow.InUnused:
		k.unused(now, in, out)
	case flow.InEvent:
		k.event(now, in, out)
	case flow.InBatchTick:
		k.batchTick(now, in, out)
	default:
		out.Err = fmt.Errorf("%v: input %v of a key: %w", k.id, in.Kind, flow.ErrUnsupported)
	}
}

// Resume appends what is owed after a replay, and that is nothing: a grant whose
// worker never heard of it ends with its lease, and letters lie in the outbox. What
// time has opened meanwhile, Ready and InKeyTick find.
func (k *Key) Resume(flow.Instant, *flow.Out) {}

// Idle says that there is nothing to remember: a key that is forgotten now and
// made anew later is the same key. A bucket that isn't full is something to
// remember.
func (k *Key) Idle(now flow.Instant) bool { return k.empty() && k.tat <= now }

func (k *Key) empty() bool {
	return k.waiting.len() == 0 && k.holders.len() == 0 && k.asks.len() == 0 && k.wants.len() == 0 && k.batch == nil
}

// show remembers the gates of a stamp for View.
func (k *Key) show(s *flow.Stamp) {
	if s == nil {
		return
	}
	if l := s.Limit(); l != nil {
		k.shown.max = l.Max
	}
	if _, elsewhere := s.Remote(k.id.Workflow); elsewhere {
		return
	}
	if r := s.Rate(); r != nil {
		k.shown.rate = rate{interval: r.Interval, burst: r.Burst}
	}
}
