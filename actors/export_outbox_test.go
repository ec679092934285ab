package actors

import (
	"sync/atomic"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

// Undelivered is the number of letters in all outboxes. It may be called while nothing
// moves; a shard without an owner has none.
func Undelivered(n *Node) (letters int) {
	for _, s := range n.shards {
		if s.st == nil {
			continue
		}
		for i := range s.st.mail.out {
			letters += len(s.st.mail.out[i].letters)
		}
	}
	return letters
}

// Flying is the number of letters that a shard has handed over to another and knows
// nothing of. It may be called while nothing moves.
func Flying(n *Node, from, to engine.ShardID) uint64 {
	s := n.shards[from]
	if s.st == nil {
		return 0
	}
	return max(s.following[to], s.st.mail.out[to].done) - s.st.mail.out[to].done
}

// tampered is a shard's handler behind somebody who tampers with its mail.
type tampered struct {
	handler
	tamper func([]any) []any
}

func (t *tampered) receive(msgs []any) { t.handler.receive(t.tamper(msgs)) }

// Shuffle delivers the letters of each batch to a shard in the order that f says, by
// their places. It is called while nothing moves.
func Shuffle(n *Node, to engine.ShardID, f func(n int) []int) {
	box := n.shards[to].box
	box.handler = &tampered{box.handler, func(msgs []any) []any {
		var letters, out []any
		for _, m := range msgs {
			if _, ok := m.(letterMsg); ok {
				letters = append(letters, m)
			} else {
				out = append(out, m)
			}
		}
		for _, at := range f(len(letters)) {
			out = append(out, letters[at])
		}
		return out
	}}
}

// CountLetters counts the letters that reach a shard, and drops those that f names. It
// is called while nothing moves.
func CountLetters(n *Node, to engine.ShardID, f func(number uint64) (drop bool)) func() int64 {
	var count atomic.Int64
	box := n.shards[to].box
	box.handler = &tampered{box.handler, func(msgs []any) []any {
		out := make([]any, 0, len(msgs))
		for _, m := range msgs {
			if l, ok := m.(letterMsg); ok {
				count.Add(1)
				if f(l.number) {
					continue
				}
			}
			out = append(out, m)
		}
		return out
	}}
	return count.Load
}
