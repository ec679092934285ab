package actors

import "github.com/pyrula/pyrula-node/flow"

// keyedSubmit submits under an idempotency key, in the shard of the key (Q6, Q10):
// the key names the run for ever, and the run is made in its home shard by a
// letter of the same entry. The answer waits until the run is durable there, and
// so does every repeat that comes meanwhile.
func (s *shard) keyedSubmit(c *command) {
	a := answer{ask: c.ask, item: c.item}
	k, known := s.st.keyed[c.in.IdempotencyKey]
	if !known {
		k = s.newKey(&c.in)
		a.run = k.run
	} else {
		a.run, a.flags = k.run, flow.FlagRepeat
	}
	if k.letter > s.st.mail.out[k.shard].done {
		id := letterID{k.shard, k.letter}
		s.keyAsks[id] = append(s.keyAsks[id], a)
		return
	}
	s.answer(a)
}

// newKey records the key and makes its run, here or by letter.
func (s *shard) newKey(in *flow.Input) keyedRun {
	k := keyedRun{run: in.Run, shard: s.id}
	home := s.node.shardOf(in.Run.Partition())
	key := in.IdempotencyKey
	if home == s.id {
		if err := s.create(in); err != nil {
			panic("a checked submit was refused: " + err.Error())
		}
	} else {
		in.Kind = flow.InCreate
		id := s.post(home, in)
		k.shard, k.letter = id.to, id.number
	}
	s.write(flow.RecKeyed, flow.Fields{IdempotencyKey: key, Run: k.run, Shard: uint16(k.shard), Number: k.letter})
	return k
}
