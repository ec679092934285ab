package actors

import (
	"context"
	"errors"
	"fmt"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// Bounds of the events in one message to a shard: each makes at most four records, and a
// message at most maxInputRecords (R5).
const (
	maxMessageEvents = maxInputRecords / 4
	maxMessageBytes  = 256 << 10
)

// eventsMsg brings events of one workflow to the shard of their keys.
type eventsMsg struct {
	def    *flow.Definition // what they are judged by, and what a full batch is stamped with (P73)
	events []keyedEvent
	bytes  int
	ask    askID
	item   int
}

// keyedEvent is one event on its way; at is its place in the request.
type keyedEvent struct {
	key   string
	id    string
	event []byte
	at    int
}

// arrived is what became of an event. run is zero unless it filled its batch.
type arrived struct {
	run flow.RunID
	err error
}

// Trigger takes events of one workflow, each on its own and in order within a key (P35).
// key is their key where the caller resolved it. An event is taken exactly when its
// error is nil, and then it is durable; its answer names the run of the batch that it
// filled (P37).
//
// Errors: flow.ErrUnknownWorkflow, flow.ErrConfiguration for a workflow without a trigger
// (P75) and for a key that can't be resolved, *flow.BufferFull (P70), and those of new
// work that is refused.
func (n *Node) Trigger(ctx context.Context, workflow string, key *string, events []wire.TriggerEvent) ([]wire.Triggered, []error) {
	out, errs := make([]wire.Triggered, len(events)), make([]error, len(events))
	def, err := n.triggered(ctx, workflow)
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
		return out, errs
	}
	to, msgs := n.sortEvents(def, key, events, errs)
	q := n.asks.open(len(msgs))
	for i, m := range msgs {
		m.ask, m.item = q.id, i
		if err := n.tellEvents(to[i], m); err != nil {
			q.put(answer{item: i, err: err})
		}
	}
	for i, a := range n.await(ctx, q) {
		results, _ := a.value.([]arrived) // none with an error
		for j := range msgs[i].events {
			at := msgs[i].events[j].at
			switch {
			case a.err != nil:
				errs[at] = a.err
			case results[j].err != nil:
				errs[at] = results[j].err
			case !results[j].run.IsZero():
				out[at].RunID = new(results[j].run.String())
			}
		}
	}
	return out, errs
}

// triggered is the declaration by which an event of the workflow is judged: the current
// one (P18).
func (n *Node) triggered(ctx context.Context, workflow string) (*flow.Definition, error) {
	if err := n.takesNewWork(); err != nil {
		return nil, err
	}
	def := currentOf(n.registry.list(workflow))
	switch {
	case def != nil && def.Trigger != nil:
		return def, nil
	case def != nil:
		return nil, noTrigger(fmt.Sprintf("must be declared to take events: the current declaration of workflow %q has none", workflow))
	}
	page, err := n.List(ctx, wire.ListQuery{Workflow: workflow, Limit: 1})
	switch {
	case err != nil && !errors.Is(err, flow.ErrInvalid):
		return nil, err
	case len(page.Runs) > 0: // submitted by name, and nobody has said what it is (P75)
		return nil, noTrigger(fmt.Sprintf("must be declared to take events: no worker has declared workflow %q yet", workflow))
	}
	return nil, fmt.Errorf("workflow %q: %w", workflow, flow.ErrUnknownWorkflow)
}

func noTrigger(want string) error {
	return &flow.FieldError{Kind: flow.ErrConfiguration, Field: "trigger", Want: want}
}

// sortEvents resolves the keys and gathers the events by shard, in their order. errs gets
// why an event can't be sent.
func (n *Node) sortEvents(def *flow.Definition, key *string, events []wire.TriggerEvent, errs []error) (to []engine.ShardID, msgs []*eventsMsg) {
	open := make([]*eventsMsg, len(n.shards))
	for i := range events {
		e := &events[i]
		if errs[i] = e.Check(); errs[i] != nil {
			continue
		}
		text, err := def.Trigger.EventKey(e.Body, key, n.evaluate)
		if errs[i] = err; err != nil {
			continue
		}
		shard := n.shardOf(flow.KeyID{Workflow: def.Workflow, Value: text}.Partition())
		m := open[shard]
		if m == nil || len(m.events) == maxMessageEvents || m.bytes+len(e.Body) > maxMessageBytes {
			m = &eventsMsg{def: def}
			open[shard] = m
			to, msgs = append(to, shard), append(msgs, m)
		}
		m.bytes += len(e.Body)
		m.events = append(m.events, keyedEvent{key: text, id: e.ID, event: e.Body, at: i})
	}
	return to, msgs
}

// tellEvents puts events into their shard's mailbox, as new work (R7).
func (n *Node) tellEvents(to engine.ShardID, m *eventsMsg) error {
	s := n.shards[to]
	count := int64(len(m.events))
	if s.newWork.Add(count) > maxNewWork {
		s.newWork.Add(-count)
		return fmt.Errorf("%d submits and events wait for shard %d: %w", maxNewWork, to, flow.ErrOverloaded)
	}
	s.box.tell(m)
	return nil
}

// takeEvents takes the events of one message, each on its own, in one entry.
func (s *shard) takeEvents(m *eventsMsg) {
	s.newWork.Add(-int64(len(m.events)))
	s.st.cutEvents.forget(s.now)
	results := make([]arrived, len(m.events))
	var told EventCount
	for i := range m.events {
		got, repeat := s.takeEvent(m.def, &m.events[i])
		results[i] = got
		switch {
		case got.err != nil:
			told.Refused++
		case repeat:
			told.Repeated++
		default:
			told.Taken++
		}
	}
	if s.node.cfg.Observer != nil {
		s.node.cfg.Observer.Events(m.def.Workflow, told)
	}
	s.answer(answer{ask: m.ask, item: m.item, value: results})
}

// takeEvent brings one event to its key. A repeat is answered like the first.
func (s *shard) takeEvent(def *flow.Definition, a *keyedEvent) (got arrived, repeat bool) {
	id := flow.KeyID{Workflow: def.Workflow, Value: a.key}
	s.at = flow.Fields{Key: id}
	if a.id != "" {
		if run, known := s.st.cutEvents.run(eventIDOf(id, a.id)); known {
			return arrived{run: run}, true
		}
	}
	slot := s.st.touchKey(id)
	s.mark(slot)
	t := def.Trigger
	in := flow.Input{Kind: flow.InEvent, Fields: flow.Fields{
		Key: slot.id, Payload: a.event, IdempotencyKey: a.id, Order: s.nextOrder(), Interval: t.Window,
	}}
	if t.Kind == flow.TriggerDebounce {
		in.Flags, in.Backoff = flow.FlagDebounce, t.MaxWait
	} else { // its batch may be full with this event, and is cut then
		in.Stamp, in.Burst, in.Number = def.StampBatch(a.key), t.MaxEvents, uint64(t.MaxBytes)
	}
	if !slot.key.Gathered(a.id) { // else it needs no room
		opens := slot.key.Opens(&in)
		if err := s.node.roomForEvent(opens, len(a.event)+len(a.id)); err != nil {
			return arrived{err: err}, false
		}
		if opens {
			in.Run = flow.NewRunID(s.node.cfg.Clock.Wall(), id.Partition(), s.node.cfg.Entropy())
		}
	}
	s.out.Reset()
	slot.key.Step(s.now, &in, &s.out)
	if s.out.Err != nil {
		return arrived{err: s.out.Err}, false
	}
	s.tellFired(slot, CauseFull)
	s.take()
	for i := range s.out.Effects {
		if e := &s.out.Effects[i]; e.Kind == flow.EffAnswer {
			got.run, repeat = e.Run, e.Flags.Has(flow.FlagRepeat)
		}
	}
	return got, repeat
}

// roomForEvent says whether another event may be buffered. One that opens a batch needs
// room for the run that it will be.
func (n *Node) roomForEvent(opens bool, size int) error {
	if opens {
		if err := n.roomForRuns(1); err != nil {
			return err
		}
	}
	if have := n.buffered.Load(); have+int64(size) > n.cfg.MaxBuffered {
		return fmt.Errorf("%d bytes of events are in open batches, and at most %d may be: %w", have, n.cfg.MaxBuffered, flow.ErrOverloaded)
	}
	return nil
}

// nextOrder is the submit instant of a run that is made now: order keys strictly rise.
func (s *shard) nextOrder() flow.Instant { return max(s.now, s.st.lastSent+1) }
