package pyrula_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// fakeBatch is the open batch of a key. The fake fires it whether or not a worker is
// alive.
type fakeBatch struct {
	workflow, key    string
	events           [][]byte
	opened, deadline time.Time
}

// fakeEvents is what a fakeNode keeps of events.
type fakeEvents struct {
	batches []*fakeBatch
	ids     map[string]wire.Triggered // answers by workflow, key and id
	fired   int
	full    int           // the next events that are refused, as by a full buffer
	roomIn  time.Duration // what the refusal says
}

func (n *fakeNode) Trigger(_ context.Context, workflow string, key *string, events []wire.TriggerEvent) ([]wire.Triggered, []error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sweep()
	got, errs := make([]wire.Triggered, len(events)), make([]error, len(events))
	for i, e := range events {
		got[i], errs[i] = n.event(workflow, key, e)
	}
	n.touch()
	return got, errs
}

func (n *fakeNode) event(workflow string, given *string, e wire.TriggerEvent) (wire.Triggered, error) {
	d, known := n.declared[workflow]
	if !known {
		return wire.Triggered{}, fmt.Errorf("workflow %q: %w", workflow, flow.ErrUnknownWorkflow)
	}
	def, err := d.Definition(workflow)
	if err == nil && def.Trigger == nil {
		err = &flow.FieldError{Kind: flow.ErrConfiguration, Field: "trigger", Want: "must be declared"}
	}
	if err != nil {
		return wire.Triggered{}, err
	}
	key, err := def.Trigger.EventKey(e.Body, given, nil)
	if err != nil {
		return wire.Triggered{}, err
	}
	id := workflow + "\x00" + key + "\x00" + e.ID
	if before, known := n.ids[id]; known && e.ID != "" {
		return before, nil
	}
	if n.full > 0 {
		n.full--
		return wire.Triggered{}, &flow.BufferFull{Key: flow.KeyID{Workflow: workflow, Value: key}, Events: flow.MaxBatchEvents, Room: flow.Span(n.roomIn)}
	}
	out := n.take(def.Trigger, workflow, key, e.Body)
	if n.ids == nil {
		n.ids = map[string]wire.Triggered{}
	}
	n.ids[id] = out
	return out, nil
}

// take puts an event into the open batch of its key, and makes the run of one that it
// fills.
func (n *fakeNode) take(t *flow.Trigger, workflow, key string, event []byte) wire.Triggered {
	now := time.Now()
	var b *fakeBatch
	for _, open := range n.batches {
		if open.workflow == workflow && open.key == key {
			b = open
		}
	}
	if b == nil {
		b = &fakeBatch{workflow: workflow, key: key, opened: now, deadline: now.Add(time.Duration(t.Window))}
		n.batches = append(n.batches, b)
	}
	b.events = append(b.events, event)
	if t.Kind == flow.TriggerDebounce {
		b.deadline = now.Add(time.Duration(t.Window))
		if last := b.opened.Add(time.Duration(t.MaxWait)); t.MaxWait > 0 && last.Before(b.deadline) {
			b.deadline = last
		}
		return wire.Triggered{}
	}
	if int64(len(b.events)) < t.MaxEvents {
		return wire.Triggered{}
	}
	b.deadline = now
	run := n.fire()[0]
	return wire.Triggered{RunID: &run}
}

// fire makes the runs of the batches that are due. The lock is held.
func (n *fakeNode) fire() (runs []string) {
	var open []*fakeBatch
	for _, b := range n.batches {
		if time.Now().Before(b.deadline) {
			open = append(open, b)
			continue
		}
		n.fired++
		params := flow.BatchParams(b.key, bytes.Join(b.events, []byte(",")), int64(len(b.events)))
		made, err := n.submit(wire.Submit{Workflow: b.workflow, Params: json.RawMessage(params), RequestID: fmt.Sprint("batch ", n.fired)})
		if err != nil {
			panic(err)
		}
		runs = append(runs, made.RunID)
	}
	n.batches = open
	return runs
}

// buffered is the number of events that are in no run yet.
func (n *fakeNode) buffered() (events int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sweep()
	for _, b := range n.batches {
		events += len(b.events)
	}
	return events
}
