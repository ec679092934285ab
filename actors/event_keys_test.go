package actors_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// joins computes expressions that are names of fields with "+" between: their texts, one
// behind the other. A field that isn't there is an error.
type joins struct{}

// Check implements actors.Expressions.
func (joins) Check(field, expression string) error {
	if strings.HasPrefix(expression, "+") {
		return &flow.FieldError{Kind: flow.ErrConfiguration, Field: field, Want: "must not begin with a plus"}
	}
	return nil
}

// Key implements actors.Expressions.
func (joins) Key(field, expression string, object []byte) (string, error) {
	var fields map[string]any
	if err := json.Unmarshal(object, &fields); err != nil {
		return "", &flow.FieldError{Kind: flow.ErrConfiguration, Field: field, Want: err.Error()}
	}
	key := ""
	for name := range strings.SplitSeq(expression, "+") {
		v, ok := fields[name]
		if !ok {
			return "", &flow.FieldError{Kind: flow.ErrConfiguration, Field: field, Want: "must find " + name}
		}
		key += fmt.Sprint(v)
	}
	return key, nil
}

// event is an event from its JSON.
func event(text string) wire.TriggerEvent { return wire.TriggerEvent{Body: json.RawMessage(text)} }

// TestP12P20ExpressionOfATrigger fails when the key of an event isn't what the expression says,
// when an event without one is taken or keeps others from being taken, or when the sender
// may give a key of its own.
func TestP12P20P60ExpressionOfATrigger(t *testing.T) {
	play(t, func(w *world) {
		actors.SetExpressions(w.Node, joins{})
		bad := w.declaring("sync", `{"version":"1","trigger":{"collect":{"key":"cel:+a","max_events":2,"window_seconds":5}}}`)
		if refused(w, bad, flow.ErrConfiguration); fieldOf(bad.err) != "trigger.collect.key" {
			t.Errorf("a key that is no expression: %v", bad.err)
		}
		w.declare("sync", `{"version":"1","limit":{"key":"key","max":1},"trigger":{"collect":{"key":"cel:a+b","max_events":2,"window_seconds":5}}}`)
		long := event(fmt.Sprintf(`{"a":%q,"b":"x"}`, fill(flow.MaxKeyBytes)))
		r := await(w, w.triggering("sync", event(`{"a":"x","b":1,"n":1}`), event(`{"a":"x","n":2}`), long, event(`{"a":"","b":"x1","n":3}`)))
		for i, want := range []error{nil, flow.ErrConfiguration, flow.ErrInvalid, nil} {
			if !errors.Is(r.errs[i], want) || (i != 3 && r.runs[i] != "") {
				t.Errorf("event %d is answered %q and %v, want %v", i, r.runs[i], r.errs[i], want)
			}
		}
		if f := fieldOf(r.errs[1]); f != "trigger.collect.key" {
			t.Errorf("an event without a key names %q", f)
		}
		w.madeOf(r.runs[3], "x1", 1, 3)
		if g := w.claim("sync", "1", 1); len(g) != 1 || g[0].Key != "x1" {
			t.Errorf("granted %+v", g)
		}
		if err := w.untriggered("sync", new("x1"), event(`{"a":"x","b":1}`), flow.ErrConfiguration); fieldOf(err) != "key" {
			t.Errorf("a key beside an expression: %v", err)
		}
		actors.SetExpressions(w.Node, nil)
		if err := w.untriggered("sync", nil, event(`{"a":"x","b":1}`), flow.ErrConfiguration); fieldOf(err) != "trigger.collect.key" {
			t.Errorf("where nobody computes: %v", err)
		}
		other := w.declaring("other", `{"version":"1","trigger":{"debounce":{"key":"cel:a","window_seconds":5}}}`)
		if refused(w, other, flow.ErrConfiguration); fieldOf(other.err) != "trigger.debounce.key" {
			t.Errorf("declared where nobody computes: %v", other.err)
		}
	})
}

// TestP12P20FunctionOfATrigger fails when an event of a trigger by a function is taken without
// its key, or one by a parameter with a key.
func TestP12P20FunctionOfATrigger(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", `{"version":"1","trigger":{"collect":{"key":{"function":"tenant"},"max_events":2,"window_seconds":5}}}`)
		if err := w.untriggered("sync", nil, numbered("a", 1), flow.ErrConfiguration); fieldOf(err) != "key" {
			t.Errorf("without a key: %v", err)
		}
		for _, key := range []string{"", "a", "é\x00\"", string(fill(flow.MaxKeyBytes))} {
			r := await(w, w.triggeringBy("sync", &key, numbered("x", 1), numbered("y", 2)))
			if err := errors.Join(r.errs...); err != nil {
				t.Fatal(err)
			}
			w.madeOf(r.runs[1], key, 1, 2)
		}
		for _, key := range []string{string(fill(flow.MaxKeyBytes + 1)), "\xff"} {
			w.untriggered("sync", &key, numbered("a", 1), flow.ErrInvalid)
		}
		w.declare("plain", collect3)
		if err := w.untriggered("plain", new("a"), numbered("a", 1), flow.ErrConfiguration); fieldOf(err) != "key" {
			t.Errorf("a key beside a parameter: %v", err)
		}
	})
}

// TestP13P60KeysOfEvents fails when the key of an event isn't the text that its field has.
func TestP13P60KeysOfEvents(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", collect10)
		var events []wire.TriggerEvent
		for i, k := range []string{`"k":1,`, `"k":"1",`, `"k":1.0,`, `"k":null,`, ``, `"k":"",`, `"k":true,`, `"k":{"b":1, "a":2},`, `"k":{"a":2,"b":1},`, `"k":"x","k":"1",`} {
			events = append(events, event(fmt.Sprintf(`{%s"n":%d}`, k, i)))
		}
		w.trigger("sync", events...)
		for key, want := range map[string][]int{"1": {0, 1, 2, 9}, "": {3, 4, 5}, "true": {6}, `{"a":2,"b":1}`: {7, 8}} {
			if got := w.batchOf("sync", key); !slices.Equal(got, want) {
				t.Errorf("the batch of key %q has %v, want %v", key, got, want)
			}
		}
		w.lives("sync", "1", 6*time.Second)
		for _, c := range w.cuts("sync") {
			if key, _ := w.numbers(w.params(c.run)); key != c.key {
				t.Errorf("the run of key %q says %q", c.key, key)
			}
		}
	})
}

// TestP12P16ExpressionOfAGate fails when the gates of a run by expressions aren't those of what
// the expression computes: at a submit, at a retry by hand, for a child, and when it is
// handed on.
func TestP12P16P20P27ExpressionOfAGate(t *testing.T) {
	setup{shards: 2}.play(t, func(w *world) {
		actors.SetExpressions(w.Node, joins{})
		w.declare("sync", `{"version":"1","limit":{"key":"cel:a+b","max":1},"lease_seconds":600}`)
		ids := []flow.RunID{w.submit("sync", `{"a":"x","b":1}`), w.submit("sync", `{"a":"x","b":"1"}`), w.submit("sync", `{"a":"y","b":1}`)}
		for i, want := range []string{"x1", "x1", "y1"} {
			if g := w.status(ids[i]).Gates; len(g) != 1 || g[0].Key != want || g[0].KeyName != "cel:a+b" {
				t.Errorf("run %d has the gates %+v, want key %q", i, g, want)
			}
		}
		held := w.claimFor("sync", "1", 5, time.Second)
		held = append(held, w.claimFor("sync", "1", 5, time.Second)...)
		if len(held) != 2 {
			t.Fatalf("granted %s", names(held))
		}
		w.declare("sync", `{"version":"2","limit":{"key":"cel:b+a","max":1}}`)
		g := w.claimFor("sync", "2", 5, time.Second)
		if len(g) != 1 || g[0].Key != "1x" {
			t.Fatalf("a worker of the newer gates is granted %+v", g)
		}
		w.handedOn(ids[1], w.id(g[0].RunID))
		w.complete(g[0])
		again := await(w, begin(func() (wire.Submitted, error) { return w.Retry(w.life, w.id(g[0].RunID), wire.Retry{}) }))
		if gates := w.status(w.id(again.RunID)).Gates; len(gates) != 1 || gates[0].Key != "1x" || gates[0].KeyName != "cel:b+a" {
			t.Errorf("retried by hand it has %+v", gates)
		}
		child := w.children(held[0], "sync", `{"a":"p","b":"q"}`)[0]
		w.pass(20 * time.Millisecond)
		if gates := w.status(w.id(child)).Gates; len(gates) != 1 || gates[0].Key != "qp" {
			t.Errorf("a child has %+v", gates)
		}
		w.declare("rated", `{"version":"1","limit":{"key":"cel:a","max":1},"rate":{"key":"cel:b","per_second":1000}}`)
		if gates := w.status(w.submit("rated", `{"a":"x","b":1}`)).Gates; len(gates) != 2 || gates[0].Key != "x" || gates[1].Key != "1" {
			t.Errorf("the gates by two expressions are %+v", gates)
		}
		c := w.submitting(submitOf("sync", `{"a":"x"}`))
		if refused(w, c, flow.ErrConfiguration); fieldOf(c.err) != "limit.key" {
			t.Errorf("a submit whose key can't be computed: %v", c.err)
		}
		w.lawfulChains()
	})
}

// TestP20NobodyComputes fails when a run is made or moved though nothing on the node computes
// its key, or when such a run can't run where it stands.
func TestP20P21NobodyComputes(t *testing.T) {
	setup{shards: 2}.play(t, func(w *world) {
		actors.SetExpressions(w.Node, joins{})
		w.declare("sync", `{"version":"1","limit":{"key":"k","max":1},"lease_seconds":600}`)
		old := w.submit("sync", `{"k":"a"}`)
		w.declare("sync", `{"version":"2","limit":{"key":"cel:k","max":3}}`)
		done := w.submit("sync", `{"k":"b"}`)
		w.restart() // it computes nothing now
		c := w.submitting(submitOf("sync", `{"k":"a"}`))
		if refused(w, c, flow.ErrConfiguration); fieldOf(c.err) != "limit.key" {
			t.Errorf("a submit: %v", c.err)
		}
		if n := len(w.list(wire.ListQuery{Workflow: "sync"})); n != 2 {
			t.Errorf("%d runs", n)
		}
		for range 4 {
			for _, g := range w.claimBy("sync", "2", 5) {
				w.complete(g)
			}
		}
		w.is(done, "completed")
		w.stays(old)
		w.is(old, "completed")
		refusedRetry(w, done, flow.ErrConfiguration)
	})
}
