package transport_test

import (
	"bytes"
	"context"
	"fmt"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// fakeTrigger is one call of Trigger.
type fakeTrigger struct {
	workflow string
	key      *string
	events   []wire.TriggerEvent
}

// bodies are the events as text, in order.
func (c fakeTrigger) bodies() (all []string) {
	for _, e := range c.events {
		all = append(all, string(e.Body))
	}
	return all
}

// ids are those of the events, in order.
func (c fakeTrigger) ids() (all []string) {
	for _, e := range c.events {
		all = append(all, e.ID)
	}
	return all
}

// fakeRoom is how long the batch that has no room for an event lasts.
const fakeRoom = 2500*flow.Millisecond + 1

// Trigger keeps the call, and does with each event what its text says.
func (n *fakeNode) Trigger(_ context.Context, workflow string, key *string, events []wire.TriggerEvent) ([]wire.Triggered, []error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.triggers = append(n.triggers, fakeTrigger{workflow, key, events})
	got, errs := make([]wire.Triggered, len(events)), make([]error, len(events))
	for i, e := range events {
		says := func(word string) bool { return bytes.Contains(e.Body, []byte(word)) }
		switch {
		case n.err != nil:
			errs[i] = n.err
		case workflow == "unknown":
			errs[i] = fmt.Errorf("%q: %w", workflow, flow.ErrUnknownWorkflow)
		case workflow == "untriggered":
			errs[i] = &flow.FieldError{Kind: flow.ErrConfiguration, Field: "trigger", Want: "is not declared by the workflow"}
		case workflow == "keyed" && key == nil:
			errs[i] = &flow.FieldError{Kind: flow.ErrConfiguration, Field: "key", Want: "must be given: it is a function"}
		case says("too many"):
			errs[i] = fmt.Errorf("shard 3: %w", &flow.BufferFull{Key: flow.KeyID{Workflow: workflow, Value: "acme"}, Events: 10_000, Bytes: 1, Room: fakeRoom})
		case says("odd key"):
			errs[i] = &flow.FieldError{Kind: flow.ErrConfiguration, Field: "trigger.collect.key", Want: "can't be computed"}
		case says("fills"):
			got[i].RunID = new(benchRun)
		}
	}
	return got, errs
}

// onlyTrigger is the one call that a test has made.
func (a *api) onlyTrigger() fakeTrigger {
	a.t.Helper()
	a.node.mu.Lock()
	defer a.node.mu.Unlock()
	if len(a.node.triggers) != 1 {
		a.t.Fatalf("%d calls reached the node, want 1", len(a.node.triggers))
	}
	return a.node.triggers[0]
}
