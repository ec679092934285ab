package actors

import (
	"fmt"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// letterRetry is how long a shard waits for letters to be acknowledged before it
// sends them again.
const letterRetry = 1 * flow.Second

// letterID names one letter of this shard.
type letterID struct {
	to     engine.ShardID
	number uint64
}

// send passes a letter to a key or a run: within this shard in the same entry, unless it
// is to be an entry of its own, else through the outbox.
func (s *shard) send(in flow.Input) {
	to := s.node.shardOf(addressOf(&in))
	if to == s.id && !in.Flags.Has(flow.FlagPosted) {
		s.locals = append(s.locals, in)
		return
	}
	s.post(to, &in)
}

// addressOf is where the key or run lives that an input is for.
func addressOf(in *flow.Input) flow.Partition {
	if forKey(in.Kind) {
		return in.Key.Partition()
	}
	return in.Run.Partition()
}

func forKey(k flow.InputKind) bool { return k >= flow.InOffer && k < flow.InCreate }

// post puts a letter into the outbox; it leaves when this entry is durable.
func (s *shard) post(to engine.ShardID, in *flow.Input) letterID {
	w := flow.NewWriter()
	w.Input(in)
	number := s.st.mail.out[to].next()
	s.write(flow.RecSent, flow.Fields{Shard: uint16(to), Number: number, Payload: w.Bytes()})
	s.effects = append(s.effects, effect{kind: effectLetter, shard: to, number: number})
	return letterID{to, number}
}

// deliverLocals handles letters within this same shard until none is left: they belong to
// the entry of what sent them.
func (s *shard) deliverLocals() {
	for len(s.locals) > 0 {
		in := s.locals[0]
		s.locals = s.locals[1:]
		s.deliver(&in)
	}
	s.locals = nil
}

// deliver does what a letter says. It can't be refused: whoever wrote it checked first,
// and a "no" is a letter of its own.
func (s *shard) deliver(in *flow.Input) {
	switch {
	case forKey(in.Kind):
		s.keyInput(in)
	case in.Kind == flow.InCreate:
		s.at = flow.Fields{Run: in.Run}
		if err := s.create(in); err != nil {
			panic(fmt.Sprintf("run %s by letter: %v", in.Run, err))
		}
	default:
		s.runLetter(in)
	}
}

// mail hands over every letter up to a number that was not handed over yet, as far
// as they may be on their way. All of them are durable: upto is, and the log is one
// prefix.
func (s *shard) mail(to engine.ShardID, upto uint64) {
	o := &s.st.mail.out[to]
	for n := max(s.following[to], o.done) + 1; n <= upto && n < o.next() && o.flying(n); n++ {
		s.following[to] = n
		s.node.shards[to].box.tell(letterMsg{from: s.id, number: n, body: o.letter(n)})
		if s.retryAt == 0 {
			s.retryAt = s.now.Add(letterRetry)
		}
	}
}

// again restarts a pair at its first letter that is not delivered.
func (s *shard) again(to engine.ShardID) {
	last := s.following[to]
	s.following[to] = s.st.mail.out[to].done
	s.mail(to, last)
}

// resumeMail sends again what no acknowledgement was seen of: it stands in the log
// that was replayed, so it is durable.
func (s *shard) resumeMail() {
	for to := range s.st.mail.out {
		s.mail(engine.ShardID(to), s.st.mail.out[to].next()-1)
	}
}

// retryMail sends again what was not acknowledged in time: letters travel at most
// once, and a shard without an owner drops them.
func (s *shard) retryMail() {
	if s.retryAt == 0 || s.retryAt > s.now {
		return
	}
	s.retryAt = 0
	for to := range s.st.mail.out {
		o := &s.st.mail.out[to]
		if len(o.letters) == 0 {
			continue
		}
		s.retryAt = s.now.Add(letterRetry)
		s.again(engine.ShardID(to))
	}
}

// letter applies a letter of another shard once and in order (R6), and
// acknowledges when that is durable.
func (s *shard) letter(m letterMsg) {
	last := s.st.mail.in[m.from]
	ack := effect{kind: effectAck, shard: m.from, number: last}
	switch {
	case m.number > last+1:
		if s.gaps[m.from] == last+1 {
			return // what is missing was asked for already; if that is lost, the sender tries again by itself
		}
		s.gaps[m.from] = last + 1
		ack.again = true
	case m.number == last+1:
		s.write(flow.RecReceived, flow.Fields{Shard: uint16(m.from), Number: m.number})
		s.open(m)
		ack.number = m.number
	}
	s.effects = append(s.effects, ack)
}

// open reads a letter and does what it says.
func (s *shard) open(m letterMsg) {
	r := flow.NewReader()
	if err := r.Reset(m.body); err != nil {
		panic(fmt.Sprintf("letter %d of shard %d: %v", m.number, m.from, err))
	}
	var in flow.Input
	if err := r.Input(&in); err != nil {
		panic(fmt.Sprintf("letter %d of shard %d: %v", m.number, m.from, err))
	}
	s.deliver(&in)
	s.deliverLocals()
}

// acked takes an acknowledgement: letters up to it are done with.
func (s *shard) acked(m ackMsg) {
	o := &s.st.mail.out[m.from]
	if m.upto > o.done && m.upto < o.next() {
		first := o.done + 1
		s.write(flow.RecDelivered, flow.Fields{Shard: uint16(m.from), Number: m.upto})
		for n := first; n <= m.upto; n++ {
			id := letterID{m.from, n}
			for _, a := range s.keyAsks[id] {
				s.answer(a)
			}
			delete(s.keyAsks, id)
		}
	}
	if m.again {
		s.again(m.from)
	}
	if o.next() > o.done+1 {
		// Room on the way for letters that waited; this entry is behind theirs.
		s.effects = append(s.effects, effect{kind: effectLetter, shard: m.from, number: o.next() - 1})
	}
}
