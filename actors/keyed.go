package actors

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// keyedMemory is what a shard knows of idempotency keys: those that have not left
// for the archive yet.
type keyedMemory struct {
	named map[string]*keyedRun
	slab  slab[*keyedRun]
	ages  byAge[string]
}

// keyedRun is what an idempotency key names: the run, and the letter that makes it
// when it lives in another shard.
type keyedRun struct {
	text   string
	run    flow.RunID
	shard  engine.ShardID
	letter uint64
	at     flow.Instant
	seat   int
	saved  uint64 // the capture that has it
}

func newKeyedMemory() keyedMemory {
	return keyedMemory{named: make(map[string]*keyedRun), ages: newByAge(cmp.Compare[string])}
}

func (m *keyedMemory) add(k *keyedRun) {
	k.seat = m.slab.add(k)
	m.named[k.text] = k
	m.ages.add(k.at, k.text)
}

// forget lets go of a key that the archive has.
func (m *keyedMemory) forget(text string) {
	k := m.named[text]
	m.slab.remove(k.seat)
	delete(m.named, text)
	m.ages.remove(k.at, text)
}

// delivered says whether the run of a key is made.
func (st *state) delivered(k *keyedRun) bool { return k.letter <= st.mail.out[k.shard].done }

// keyedSubmit submits under an idempotency key, in the shard of the key (Q6, Q10):
// the key names the run for ever, and the run is made in its home shard by a
// letter of the same entry. The answer waits until the run is durable there, and
// so does every repeat that comes meanwhile.
func (s *shard) keyedSubmit(c *command) {
	k := s.st.keyed.named[c.in.IdempotencyKey]
	if k == nil && s.node.cfg.Archive != nil && !c.looked {
		s.lookUp(c)
		return
	}
	a := answer{ask: c.ask, item: c.item}
	if k == nil {
		k = s.newKey(&c.in)
		a.run = k.run
	} else {
		a.run, a.flags = k.run, flow.FlagRepeat
	}
	if !s.st.delivered(k) {
		id := letterID{k.shard, k.letter}
		s.keyAsks[id] = append(s.keyAsks[id], a)
		return
	}
	s.answer(a)
}

// newKey records the key and makes its run, here or by letter.
func (s *shard) newKey(in *flow.Input) *keyedRun {
	f := flow.Fields{IdempotencyKey: in.IdempotencyKey, Run: in.Run, Shard: uint16(s.id)}
	home := s.node.shardOf(in.Run.Partition())
	if home == s.id {
		if err := s.create(in); err != nil {
			panic("a checked submit was refused: " + err.Error())
		}
	} else {
		in.Kind = flow.InCreate
		id := s.post(home, in)
		f.Shard, f.Number = uint16(id.to), id.number
	}
	s.write(flow.RecKeyed, f)
	return s.st.keyed.named[f.IdempotencyKey]
}

// maxLookups bounds the submits of one shard that wait for a look into the archive.
const maxLookups = 4096

// lookups are the submits whose key is not in memory, by key: a reader outside of
// the shard looks for it in the archive, and repeats join the first (R10).
type lookups struct {
	waiting map[string][]*command
	count   int
}

func (s *shard) lookUp(c *command) {
	key := c.in.IdempotencyKey
	l := &s.lookups
	if l.count >= maxLookups {
		s.answer(answer{ask: c.ask, item: c.item, err: fmt.Errorf("%d submits wait for the archive: %w", maxLookups, flow.ErrOverloaded)})
		return
	}
	if l.waiting == nil {
		l.waiting = make(map[string][]*command)
	}
	l.count++
	l.waiting[key] = append(l.waiting[key], c)
	if len(l.waiting[key]) == 1 {
		s.node.readKey(s, s.epoch, key)
	}
}

// found takes what the reader has found, for all who wait for it.
func (s *shard) found(m foundMsg) {
	if m.epoch != s.epoch {
		return // those who waited were told when ownership was lost
	}
	waiting := s.lookups.waiting[m.key]
	delete(s.lookups.waiting, m.key)
	s.lookups.count -= len(waiting)
	for _, c := range waiting {
		switch {
		case m.err == nil:
			s.answer(answer{ask: c.ask, item: c.item, run: m.run, flags: flow.FlagRepeat})
		case errors.Is(m.err, engine.ErrNotArchived):
			c.looked = true
			s.keyedSubmit(c)
		default:
			s.answer(answer{ask: c.ask, item: c.item, err: m.err})
		}
	}
	s.deliverLocals()
}

// fail answers everybody who waits: nothing happened.
func (l *lookups) fail(f func(answer)) {
	for _, waiting := range l.waiting { //tidy:ordered every asker hears the same
		for _, c := range waiting {
			f(answer{ask: c.ask, item: c.item, err: flow.ErrNotReady})
		}
	}
	*l = lookups{}
}
