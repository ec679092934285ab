package pyrula_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/pyrula"
)

// comment is the event of most tests.
type comment struct {
	UserID string `json:"user_id"`
	Text   string `json:"text,omitempty"`
}

type digest struct {
	Lines []string `json:"lines"`
}

func digestOf(_ *pyrula.Run, b pyrula.Batch[comment]) (digest, error) {
	var d digest
	for _, c := range b.Events {
		d.Lines = append(d.Lines, c.UserID+": "+c.Text)
	}
	return d, nil
}

type commentKey func(comment) string

// takes is a workflow whose body takes In, with policies.
func takes[In any](policies ...pyrula.Policy) error {
	return pyrula.Define("x", func(*pyrula.Run, In) (int, error) { return 0, nil }, policies...).Err()
}

// refusedFor fails unless an error is a configuration error of the field that says why.
func refusedFor(t *testing.T, err error, field, why string) {
	t.Helper()
	wrong, ok := errors.AsType[*pyrula.ConfigurationError](err)
	if !ok || !errors.Is(err, pyrula.ErrConfiguration) || wrong.Field != field || !strings.Contains(wrong.Want, why) {
		t.Errorf("%v, want a configuration error of %s that says %q", err, field, why)
	}
}

// TestP57TriggerOutOfRange: a number of a trigger out of its bounds, a key that is none, or
// a second trigger is a configuration error of its field; a value at its bound is legal.
func TestP57TriggerOutOfRange(t *testing.T) {
	const day = 24 * time.Hour
	collect := pyrula.Collect{Key: "user_id", MaxEvents: 50, Window: time.Minute}
	debounce := pyrula.Debounce{Key: "user_id", Window: time.Second}
	change := func(f func(*pyrula.Collect)) pyrula.Collect { c := collect; f(&c); return c }
	changed := func(f func(*pyrula.Debounce)) pyrula.Debounce { d := debounce; f(&d); return d }
	for _, c := range []struct {
		field  string
		policy pyrula.Policy
	}{
		{"", collect}, {"", debounce},
		{"trigger.collect.max_events", change(func(c *pyrula.Collect) { c.MaxEvents = 0 })},
		{"", change(func(c *pyrula.Collect) { c.MaxEvents = 1 })},
		{"", change(func(c *pyrula.Collect) { c.MaxEvents = 10_000 })},
		{"trigger.collect.max_events", change(func(c *pyrula.Collect) { c.MaxEvents = 10_001 })},
		{"trigger.collect.window_seconds", change(func(c *pyrula.Collect) { c.Window = 0 })},
		{"trigger.collect.window_seconds", change(func(c *pyrula.Collect) { c.Window = -1 })},
		{"", change(func(c *pyrula.Collect) { c.Window = 366 * day })},
		{"trigger.collect.window_seconds", change(func(c *pyrula.Collect) { c.Window = 366*day + 1 })},
		{"trigger.collect.max_bytes", change(func(c *pyrula.Collect) { c.MaxBytes = -1 })},
		{"", change(func(c *pyrula.Collect) { c.MaxBytes = 768 << 10 })},
		{"trigger.collect.max_bytes", change(func(c *pyrula.Collect) { c.MaxBytes = 768<<10 + 1 })},
		{"trigger.collect.key", change(func(c *pyrula.Collect) { c.Key = nil })},
		{"trigger.collect.key", change(func(c *pyrula.Collect) { c.Key = "" })},
		{"trigger.collect.key", change(func(c *pyrula.Collect) { c.Key = "key" })},
		{"trigger.collect.key", change(func(c *pyrula.Collect) { c.Key = func(pyrula.Batch[comment]) string { return "" } })},
		{"trigger.collect.key", change(func(c *pyrula.Collect) { c.Key = func(comment) int { return 0 } })},
		{"", change(func(c *pyrula.Collect) { c.Key = func(comment) string { return "" } })},
		{"", change(func(c *pyrula.Collect) { c.Key = func(comment) (string, error) { return "", nil } })},
		{"", change(func(c *pyrula.Collect) { c.Key = commentKey(func(comment) string { return "" }) })},
		{"trigger.collect.label", change(func(c *pyrula.Collect) { c.Label = "l" })},
		{"trigger.debounce.window_seconds", changed(func(d *pyrula.Debounce) { d.Window = 0 })},
		{"trigger.debounce.max_wait_seconds", changed(func(d *pyrula.Debounce) { d.MaxWait = time.Second - 1 })},
		{"", changed(func(d *pyrula.Debounce) { d.MaxWait = time.Second })},
		{"trigger.debounce.max_wait_seconds", changed(func(d *pyrula.Debounce) { d.MaxWait = -1 })},
		{"trigger.debounce.max_wait_seconds", changed(func(d *pyrula.Debounce) { d.MaxWait = 366*day + 1 })},
		{"trigger.debounce.key", changed(func(d *pyrula.Debounce) { d.Key = 7 })},
	} {
		err := pyrula.Define("x", digestOf, c.policy).Err()
		if c.field == "" {
			if err != nil {
				t.Errorf("%+v: %v", c.policy, err)
			}
			continue
		}
		refusedFor(t, err, c.field, "")
	}
	for _, second := range []pyrula.Policy{collect, debounce} {
		refusedFor(t, pyrula.Define("x", digestOf, collect, second).Err(), "trigger", "once")
		refusedFor(t, pyrula.Define("x", digestOf, debounce, second).Err(), "trigger", "once")
	}
}

// TestP57ExpressionKeys: a key that is an expression passes whatever the fields are, up to
// its length: it is the node's to check.
func TestP57ExpressionKeys(t *testing.T) {
	long := "cel:" + strings.Repeat("x", 512)
	for _, key := range []string{"cel:event.nobody", "cel:1 +", long} {
		for _, p := range []pyrula.Policy{
			pyrula.Collect{Key: key, MaxEvents: 1, Window: 1}, pyrula.Debounce{Key: key, Window: 1},
		} {
			if err := pyrula.Define("x", digestOf, p).Err(); err != nil {
				t.Errorf("%+v: %v", p, err)
			}
		}
		for _, p := range []pyrula.Policy{pyrula.Limit{Key: key, Max: 1}, pyrula.Rate{Key: key, PerSecond: 1}} {
			if err := pyrula.Define("x", charge, p).Err(); err != nil {
				t.Errorf("%+v: %v", p, err)
			}
		}
	}
	for _, key := range []string{"cel:", long + "x"} {
		refusedFor(t, pyrula.Define("x", digestOf, pyrula.Debounce{Key: key, Window: 1}).Err(), "trigger.debounce.key", "1 to 512")
		refusedFor(t, pyrula.Define("x", charge, pyrula.Rate{Key: key, PerSecond: 1}).Err(), "rate.key", "1 to 512")
	}
	refusedFor(t, pyrula.Define("x", charge, pyrula.Limit{Key: "cel:params.id", Label: "l", Max: 1}).Err(), "limit.label", "cel:params.id")
}

// TestP40TriggerBesideATopic: a trigger beside a Kafka topic is refused in either order.
func TestP40TriggerBesideATopic(t *testing.T) {
	topic, collect := pyrula.KafkaTopic("comments"), pyrula.Collect{Key: "user_id", MaxEvents: 1, Window: 1}
	refusedFor(t, pyrula.Define("x", digestOf, topic, collect).Err(), "trigger", "partitions of the topic")
	refusedFor(t, pyrula.Define("x", digestOf, collect, topic).Err(), "trigger", "partitions of the topic")
}

// TestP39_P74GatesAreOnTheBatchsKey: beside a trigger a gate has the key "key" and no other,
// in whichever order they are declared.
func TestP39_P74GatesAreOnTheBatchsKey(t *testing.T) {
	collect := pyrula.Collect{Key: "user_id", MaxEvents: 1, Window: 1}
	right := []pyrula.Policy{pyrula.Limit{Key: "key", Max: 1}, pyrula.Rate{Key: "key", PerSecond: 1}}
	for _, order := range [][]pyrula.Policy{{collect, right[0], right[1]}, {right[0], collect, right[1]}, {right[1], right[0], collect}} {
		if err := pyrula.Define("x", digestOf, order...).Err(); err != nil {
			t.Error(err)
		}
	}
	const why = `must be "key" beside a trigger`
	for _, key := range []any{
		"user_id", "count", "cel:params.key", func(b pyrula.Batch[comment]) string { return b.Key }, func(c comment) string { return c.UserID }, nil, 7,
	} {
		l, r := pyrula.Limit{Key: key, Max: 1}, pyrula.Rate{Key: key, PerSecond: 1}
		refusedFor(t, pyrula.Define("x", digestOf, collect, l).Err(), "limit.key", why)
		refusedFor(t, pyrula.Define("x", digestOf, l, collect).Err(), "limit.key", why)
		refusedFor(t, pyrula.Define("x", digestOf, r, collect).Err(), "rate.key", why)
		refusedFor(t, pyrula.Define("x", digestOf, right[0], collect, r).Err(), "rate.key", why)
	}
	// Without a trigger a batch is like any other parameters.
	if err := pyrula.Define("x", digestOf, pyrula.Limit{Key: "count", Max: 1}).Err(); err != nil {
		t.Error(err)
	}
}

// lists are types that a triggered body might take.
type (
	ownBatch struct {
		Of     string     `json:"key"`
		Events []*comment `json:"events"`
		Count  int64      `json:"count"`
		Other  string     `json:"other"`
	}
	noCount struct {
		Key    string    `json:"key"`
		Events []comment `json:"events"`
	}
	noList struct {
		pyrula.Batch[comment]
		Events comment `json:"events"`
	}
	bare struct {
		pyrula.Batch[comment]
		Events json.RawMessage `json:"events"`
	}
)

// TestP36WhatABodyTakes: a trigger stands beside a body whose parameters have the three
// fields of a batch; what its events are tells which keys there are.
func TestP36WhatABodyTakes(t *testing.T) {
	byName := func(key string) pyrula.Policy { return pyrula.Debounce{Key: key, Window: 1} }
	byFunction := func(f any) pyrula.Policy { return pyrula.Debounce{Key: f, Window: 1} }
	onOwn := func(c *comment) string { return c.UserID }
	if err := errors.Join(
		takes[pyrula.Batch[comment]](byName("user_id")), takes[*pyrula.Batch[comment]](byName("text")),
		takes[pyrula.Batch[any]](byName("anything")), takes[pyrula.Batch[map[string]any]](byName("anything")),
		takes[pyrula.Batch[json.RawMessage]](byName("anything")), takes[map[string]any](byName("anything")), takes[any](byName("anything")),
		takes[ownBatch](byName("user_id")), takes[ownBatch](byFunction(onOwn)), takes[bare](byName("anything")),
		takes[pyrula.Batch[any]](byFunction(func(any) string { return "" })),
	); err != nil {
		t.Error(err)
	}
	const field = "trigger.debounce.key"
	refusedFor(t, takes[pyrula.Batch[comment]](byName("userId")), field, `"userId" is no field of pyrula_test.comment: user_id, text`)
	refusedFor(t, takes[ownBatch](byName("userId")), field, `no field of *pyrula_test.comment: user_id, text`)
	refusedFor(t, takes[ownBatch](byFunction(func(comment) string { return "" })), field, "func(*pyrula_test.comment) string")
	refusedFor(t, takes[map[string]any](byFunction(onOwn)), field, "isn't known")
	refusedFor(t, takes[bare](byFunction(onOwn)), field, "isn't known")
	refusedFor(t, takes[order](byName("tenant")), "trigger", "key, events, count; those of pyrula_test.order: tenant, id")
	refusedFor(t, takes[struct{}](byName("tenant")), "trigger", "struct {}: it has none")
	refusedFor(t, takes[noCount](byName("user_id")), "trigger", "noCount: key, events")
	refusedFor(t, takes[noList](byName("user_id")), "trigger", "pyrula_test.comment is none")
	refusedFor(t, takes[pyrula.Batch[string]](byName("user_id")), "trigger", "[]string is none")
	refusedFor(t, takes[pyrula.Batch[[]byte]](byName("user_id")), "trigger", "is none")
}

// TestP33_P34TriggersOnTheWire: what is declared reaches the node as it was meant.
func TestP33_P34TriggersOnTheWire(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for want, p := range map[string]pyrula.Policy{
			`{"collect":{"key":"user_id","max_events":50,"window_seconds":60}}`:                                     pyrula.Collect{Key: "user_id", MaxEvents: 50, Window: time.Minute},
			`{"collect":{"key":{"function":"collect"},"max_events":1,"window_seconds":0.5,"max_bytes":7}}`:          pyrula.Collect{Key: func(comment) string { return "" }, MaxEvents: 1, Window: 500 * time.Millisecond, MaxBytes: 7},
			`{"collect":{"key":{"function":"who"},"max_events":1,"window_seconds":1}}`:                              pyrula.Collect{Key: func(comment) string { return "" }, Label: "who", MaxEvents: 1, Window: time.Second},
			`{"debounce":{"key":"cel:event.text","window_seconds":5,"max_wait_seconds":0}}`:                         pyrula.Debounce{Key: "cel:event.text", Window: 5 * time.Second},
			`{"debounce":{"key":{"function":"debounce"},"window_seconds":0.000000001,"max_wait_seconds":31622400}}`: pyrula.Debounce{Key: func(comment) string { return "" }, Window: 1, MaxWait: 366 * 24 * time.Hour},
		} {
			if _, err := w.client.Declare(w.Context(), pyrula.Define("x", digestOf, p)); err != nil {
				t.Fatal(err)
			}
			sent := w.net.to("/v1/workflows/x")
			var got struct{ Trigger json.RawMessage }
			if err := json.Unmarshal(sent[len(sent)-1].body, &got); err != nil {
				t.Fatal(err)
			}
			var a, b any
			if err := errors.Join(json.Unmarshal(got.Trigger, &a), json.Unmarshal([]byte(want), &b)); err != nil {
				t.Fatal(err)
			}
			if !equalJSON(a, b) {
				t.Errorf("%+v is sent as %s, want %s", p, got.Trigger, want)
			}
		}
	})
}

func equalJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}
