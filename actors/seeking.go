package actors

import (
	"errors"
	"slices"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/runactor"
)

// Bounds of looks for awaited runs in the archive.
const (
	maxSeeking = 4096 // of one shard
	maxReading = 4    // read at the same time
)

// seek is an awaited run that isn't in memory: run waits, by its wait of that number, for
// run, which it asked for by the id asked.
type seek struct {
	run, waits, asked flow.RunID
	number            uint64
}

// seekingRuns are the looks into the archive that are under way (R15). They are durable:
// the letter that asked has been acknowledged.
type seekingRuns struct{ all []seek }

func seekOf(rec *flow.Record) seek {
	return seek{run: rec.Run, waits: rec.Other, asked: rec.Root, number: rec.Number}
}

func (q *seekingRuns) add(k seek) { q.all = append(q.all, k) }

func (q *seekingRuns) has(k seek) bool { return slices.Contains(q.all, k) }

func (q *seekingRuns) remove(k seek) {
	if i := slices.Index(q.all, k); i >= 0 {
		q.all = slices.Delete(q.all, i, i+1)
	}
}

// records yields what a snapshot keeps of them.
func (q *seekingRuns) records(yield func(*flow.Record)) {
	for _, k := range q.all {
		yield(&flow.Record{Kind: flow.RecSeeking, Fields: k.fields()})
	}
}

func (k seek) fields() flow.Fields {
	return flow.Fields{Run: k.run, Other: k.waits, Root: k.asked, Number: k.number}
}

// letter is the watch that could not be answered at once.
func (k seek) letter() flow.Input { return flow.Input{Kind: flow.InWatch, Fields: k.fields()} }

// soughtMsg is what the archive said about an awaited run: the letters that its end sends,
// or the successor that is to be asked instead. The run itself isn't kept, since its
// history may be large.
type soughtMsg struct {
	epoch   engine.Epoch
	seek    seek
	next    flow.RunID
	letters []flow.Input
	err     error
}

// seek asks the archive for an awaited run that isn't in memory. Shards never read the
// disk, so the answer comes as a message.
func (s *shard) seek(in *flow.Input) {
	k := seek{run: in.Run, waits: in.Other, asked: in.Root, number: in.Number}
	switch {
	case s.st.seeking.has(k):
	case s.node.cfg.Archive == nil:
		s.outcomeOf(k, flow.Fields{})
	case len(s.st.seeking.all) >= maxSeeking:
		s.outcomeOf(k, flow.Fields{ErrType: "overloaded", ErrText: "too many awaited runs are looked for in the archive"})
	default:
		s.write(flow.RecSeeking, k.fields())
		s.node.readAwaited(s, k)
	}
}

// outcomeOf tells a waiter how the run that it waits for has ended.
func (s *shard) outcomeOf(k seek, f flow.Fields) {
	f.Run, f.Root, f.Number = k.waits, k.asked, k.number
	s.send(flow.Input{Kind: flow.InOutcome, Fields: f})
}

// resumeSeeking looks again for what nobody had answered when the shard was lost.
func (s *shard) resumeSeeking() {
	for _, k := range s.st.seeking.all {
		s.node.readAwaited(s, k)
	}
}

// sought takes the archive's answer.
func (s *shard) sought(m soughtMsg) {
	if m.epoch != s.epoch || !s.st.seeking.has(m.seek) {
		return
	}
	s.at = flow.Fields{Run: m.seek.run}
	s.write(flow.RecFound, m.seek.fields())
	in := m.seek.letter()
	switch {
	case s.st.runs[in.Run] != nil: // it was on its way when it was asked for
		s.runLetter(&in)
	case errors.Is(m.err, flow.ErrUnknownRun):
		s.outcomeOf(m.seek, flow.Fields{})
	case m.err != nil:
		s.outcomeOf(m.seek, flow.Fields{ErrType: "archive", ErrText: "it could not be read in the archive"})
	case !m.next.IsZero():
		in.Run = m.next
		s.send(in)
	default:
		for i := range m.letters {
			s.send(m.letters[i])
		}
	}
	s.deliverLocals()
}

// readAwaited looks for a run in the archive, outside of the shard, and tells it. Few are
// read at once: a run is decoded whole.
func (n *Node) readAwaited(s *shard, k seek) {
	epoch := s.epoch
	n.archiver.readers.Go(func() {
		n.archiver.few <- struct{}{}
		defer func() { <-n.archiver.few }()
		m := soughtMsg{epoch: epoch, seek: k}
		var run *runactor.Run
		if run, m.err = n.archived(k.run); m.err == nil {
			if m.next = run.Successor(); m.next.IsZero() {
				m.letters = endLetters(run, k)
			}
		}
		s.box.tell(m)
	})
}

// endLetters are what an ended run answers to who waits for it.
func endLetters(run *runactor.Run, k seek) []flow.Input {
	in := k.letter()
	var out flow.Out
	run.Step(run.Ended(), &in, &out)
	letters := make([]flow.Input, 0, len(out.Effects))
	for i := range out.Effects {
		letters = append(letters, out.Effects[i].Letter())
	}
	return letters
}
