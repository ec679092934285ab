package actors

import (
	"fmt"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

// maxUndelivered bounds the letters of one pair of shards that are on their way
// (R6); those behind wait in the sender's state.
const maxUndelivered = 256

// mailboxes are both ends of a shard's durable post: what it sent to each shard
// and has not seen delivered, and how far it has received from each.
//
// A letter is numbered per pair, stands in the sender's log before it leaves,
// is applied by the receiver once and in order, and is deleted when the
// receiver's acknowledgement is durable with the sender (R6).
type mailboxes struct {
	out []outbox
	in  []uint64
}

// outbox is the sender's end for one receiver. letters[0] has number done+1. Letters
// are never overwritten, so a snapshot under way keeps the list as it was.
type outbox struct {
	done    uint64 // the receiver has applied all up to this
	letters [][]byte
}

func newMailboxes(shards int) mailboxes {
	return mailboxes{out: make([]outbox, shards), in: make([]uint64, shards)}
}

// next is the number of the next letter.
func (o *outbox) next() uint64 { return o.done + uint64(len(o.letters)) + 1 }

// letter is the content of a number that is not delivered, or nil.
func (o *outbox) letter(number uint64) []byte {
	if number <= o.done || number >= o.next() {
		return nil
	}
	return o.letters[number-o.done-1]
}

// flying says whether a letter may be on its way now.
func (o *outbox) flying(number uint64) bool { return number <= o.done+maxUndelivered }

func (m *mailboxes) sent(to engine.ShardID, number uint64, letter []byte) {
	o := &m.out[to]
	if number != o.next() {
		panic(fmt.Sprintf("letter %d to shard %d is sent after %d", number, to, o.next()-1))
	}
	o.letters = append(o.letters, letter)
}

func (m *mailboxes) received(from engine.ShardID, number uint64) {
	if number != m.in[from]+1 {
		panic(fmt.Sprintf("letter %d of shard %d is received after %d", number, from, m.in[from]))
	}
	m.in[from] = number
}

func (m *mailboxes) delivered(to engine.ShardID, upto uint64) {
	o := &m.out[to]
	if upto <= o.done || upto >= o.next() {
		panic(fmt.Sprintf("letters up to %d to shard %d are delivered; %d to %d are on their way", upto, to, o.done+1, o.next()-1))
	}
	o.letters = o.letters[upto-o.done:]
	o.done = upto
	if len(o.letters) == 0 {
		o.letters = nil // and with it what was delivered
	}
}
