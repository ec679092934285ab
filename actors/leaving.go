package actors

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/runactor"
)

// leave asks a shard for what is due for the archive.
type leave struct {
	run    aged[flow.RunID] // the last that it has handed over
	key    aged[string]
	runs   int // how many it has handed over
	keys   int
	excess int // so many of the oldest runs are due, however young
}

// leaving is what a shard hands over.
type leaving struct {
	items []engine.Archived
	keys  []engine.ArchivedKey
	run   aged[flow.RunID] // the last of them
	key   aged[string]
	more  bool      // more of it is due
	next  flow.Span // until the next run is due; zero when there is none
}

// leaving encodes what is due, oldest first. It changes nothing: the shard lets go
// when the archive says that it has it.
func (s *shard) leaving(ask leave) leaving {
	out := leaving{run: ask.run, key: ask.key}
	var enc runEncoder
	bytes := 0
	s.st.ended.after(ask.run, func(r aged[flow.RunID]) bool {
		age := s.now.Sub(r.at)
		switch {
		case age < s.node.cfg.RecentFor && ask.runs+len(out.items) >= ask.excess:
			out.next = s.node.cfg.RecentFor - age
			return false
		case len(out.items) == leavingRuns || bytes >= leavingBytes:
			out.more = true
			return false
		}
		item := enc.archived(s.st.runs[r.key].run)
		bytes += len(item.Body)
		out.items, out.run = append(out.items, item), r
		return true
	})
	if !out.more {
		s.leavingKeys(ask, &out)
	}
	return out
}

// leavingKeys adds idempotency keys that are old, or beyond the shard's share of
// RecentRuns.
func (s *shard) leavingKeys(ask leave, out *leaving) {
	m := &s.st.keyed
	excess := m.ages.len() - int(s.node.cfg.RecentRuns)/len(s.node.shards)
	m.ages.after(ask.key, func(a aged[string]) bool {
		k := m.named[a.key]
		age := s.now.Sub(a.at)
		switch {
		case !s.st.delivered(k):
			return false // its run isn't made yet
		case age < s.node.cfg.RecentFor && ask.keys+len(out.keys) >= excess:
			if left := s.node.cfg.RecentFor - age; out.next == 0 || left < out.next {
				out.next = left
			}
			return false
		case len(out.keys) == leavingRuns:
			out.more = true
			return false
		}
		out.keys, out.key = append(out.keys, engine.ArchivedKey{Text: k.text, Value: bytes.Clone(k.run[:])}), a
		return true
	})
}

// archived lets go of what the archive has on disk.
func (s *shard) archived(m archivedMsg) {
	gone := 0
	for _, id := range m.runs {
		if !s.st.runs[id].over() {
			continue
		}
		s.timers.void(&s.st.runs[id].armed)
		s.write(flow.RecArchived, flow.Fields{Run: id})
		gone++
	}
	s.node.runs.Add(-int64(gone))
	for _, key := range m.keys {
		if s.st.keyed.named[key] != nil {
			s.write(flow.RecKeyArchived, flow.Fields{IdempotencyKey: key})
		}
	}
	s.noteLeaving()
	// The answer only lets the archiver go on: nobody is told of it, so it needn't wait
	// until the records are durable. What is handed over next does.
	s.node.asks.answer(answer{ask: m.ask, item: m.item})
}

// noteLeaving tells the archiver how much there is to move.
func (s *shard) noteLeaving() {
	var ended, keys int64
	if s.st != nil {
		ended, keys = int64(s.st.ended.len()), int64(s.st.keyed.ages.len())
	}
	if was := s.endedSeen.Load(); was != ended || s.keysSeen != keys {
		s.node.archiver.note(ended-was, keys-s.keysSeen)
		s.endedSeen.Store(ended)
		s.keysSeen = keys
	}
}

// archivedVersion is the first byte of a run in the archive. What follows is the run
// as in a snapshot.
const archivedVersion = 1

// runEncoder writes runs for the archive. Zero value: ready.
type runEncoder struct {
	buf bytes.Buffer
	enc *msgpack.Encoder
}

func (e *runEncoder) archived(run *runactor.Run) engine.Archived {
	if e.enc == nil {
		e.enc = msgpack.NewEncoder(&e.buf)
		e.enc.UseCompactInts(true)
	}
	e.buf.Reset()
	e.buf.WriteByte(archivedVersion)
	if err := run.EncodeMsgpack(e.enc); err != nil {
		panic("actors: a buffer refused bytes: " + err.Error())
	}
	return engine.Archived{
		ID: engine.ArchiveID(run.ID()), Ended: int64(run.Ended()), Group: run.Workflow(),
		Kind: uint8(run.Status()), Body: bytes.Clone(e.buf.Bytes()),
	}
}

// decodeArchived reads a run; it keeps nothing of body.
func decodeArchived(body []byte) (*runactor.Run, error) {
	if len(body) == 0 || body[0] != archivedVersion {
		return nil, errors.New("it has a format that this build doesn't know")
	}
	in := bytes.NewReader(body[1:])
	run := new(runactor.Run)
	if err := run.DecodeMsgpack(msgpack.NewDecoder(in)); err != nil {
		return nil, err
	}
	return run, nil
}

// archived reads a run that has left memory. It is asked after the shard, never
// before: a run that moves in between would be missed. Error: flow.ErrUnknownRun.
func (n *Node) archived(id flow.RunID) (*runactor.Run, error) {
	if n.cfg.Archive == nil {
		return nil, fmt.Errorf("run %s: %w", id, flow.ErrUnknownRun)
	}
	body, err := n.cfg.Archive.Get(engine.ArchiveID(id))
	if errors.Is(err, engine.ErrNotArchived) {
		return nil, fmt.Errorf("run %s: %w", id, flow.ErrUnknownRun)
	}
	if err != nil {
		return nil, fmt.Errorf("run %s in the archive: %w", id, err)
	}
	run, err := decodeArchived(body)
	if err != nil {
		return nil, fmt.Errorf("run %s in the archive: %w", id, err)
	}
	return run, nil
}

// afterwards answers an input to a run that the shard doesn't know: one that has left
// memory says what it would have said there, since an ended run changes no more.
func (n *Node) afterwards(in *flow.Input, a answer) answer {
	if !errors.Is(a.err, flow.ErrUnknownRun) || in.Kind == 0 { // nothing was sent for what is no id
		return a
	}
	run, err := n.archived(in.Run)
	if err != nil {
		a.err = err
		return a
	}
	a.err = nil
	if next := run.Successor(); !next.IsZero() && followsChain(in.Kind) {
		a.next, a.value, a.old = next, flow.StatusContinued, true
		return a
	}
	var out flow.Out
	run.Step(run.Ended(), in, &out)
	if len(out.Records) > 0 {
		panic(fmt.Sprintf("run %s has ended, and %s would change it", in.Run, in.Kind))
	}
	a.outcome(run, &out)
	return a
}

// listArchived is the archive's share of a page.
func (n *Node) listArchived(q *listQuery) (listPart, error) {
	var part listPart
	if n.cfg.Archive == nil || (q.status != 0 && !q.status.Ended()) {
		return part, nil
	}
	var fault error
	looked, last := 0, flow.RunID{}
	err := n.cfg.Archive.Scan(
		engine.ArchiveQuery{Group: q.workflow, Kind: uint8(q.status), Before: engine.ArchiveID(q.before)},
		func(id engine.ArchiveID, body []byte) bool {
			if len(part.looks) > q.limit || looked >= maxListScan {
				part.reached = last
				return false
			}
			looked++
			last = flow.RunID(id)
			run, err := decodeArchived(body)
			if err != nil {
				fault = fmt.Errorf("run %s: %w", last, err)
				return false
			}
			if q.sieve(run) {
				part.looks = append(part.looks, look{View: run.View()})
			}
			return true
		})
	if err = errors.Join(err, fault); err != nil {
		return part, fmt.Errorf("list the archive: %w", err)
	}
	return part, nil
}
