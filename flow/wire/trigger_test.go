package wire_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// declared reads a declaration with the trigger as JSON.
func declared(t *testing.T, trigger string) wire.Declaration {
	t.Helper()
	var d wire.Declaration
	if err := json.Unmarshal([]byte(`{"version":"1","trigger":`+trigger+`}`), &d); err != nil {
		t.Fatalf("%s: %v", trigger, err)
	}
	return d
}

// Fails when a trigger in range is refused, or kept as anything else than what was
// declared, or isn't read back as it was declared (P33, P34, P70).
func TestP57TriggersInRange(t *testing.T) {
	long := "cel:" + strings.Repeat("e", flow.MaxExpressionBytes)
	for _, c := range []struct {
		trigger string
		want    flow.Trigger
	}{
		{`{"collect":{"key":"user_id","max_events":50,"window_seconds":60}}`,
			flow.Trigger{Kind: flow.TriggerCollect, Key: flow.KeySource{Name: "user_id"}, MaxEvents: 50, Window: 60 * flow.Second}},
		{`{"collect":{"key":"k","max_events":1,"window_seconds":0.000000001,"max_bytes":1}}`,
			flow.Trigger{Kind: flow.TriggerCollect, Key: flow.KeySource{Name: "k"}, MaxEvents: 1, MaxBytes: 1, Window: 1}},
		{`{"collect":{"key":"` + long + `","max_events":10000,"window_seconds":31622400,"max_bytes":786432}}`,
			flow.Trigger{Kind: flow.TriggerCollect, Key: flow.KeySource{Name: long}, MaxEvents: flow.MaxBatchEvents, MaxBytes: flow.MaxBatchBytes, Window: flow.MaxWindow}},
		{`{"debounce":{"key":{"function":"label"},"window_seconds":5,"max_wait_seconds":0}}`,
			flow.Trigger{Kind: flow.TriggerDebounce, Key: flow.KeySource{Function: "label"}, Window: 5 * flow.Second}},
		{`{"debounce":{"key":"k","window_seconds":5,"max_wait_seconds":5}}`,
			flow.Trigger{Kind: flow.TriggerDebounce, Key: flow.KeySource{Name: "k"}, Window: 5 * flow.Second, MaxWait: 5 * flow.Second}},
		{`{"debounce":{"key":"cel:event.a","window_seconds":1.5,"max_wait_seconds":31622400}}`,
			flow.Trigger{Kind: flow.TriggerDebounce, Key: flow.KeySource{Name: "cel:event.a"}, Window: 1500 * flow.Millisecond, MaxWait: flow.MaxWindow}},
	} {
		d := declared(t, c.trigger)
		def, err := d.Definition("w")
		if err != nil {
			t.Errorf("%s: %v", c.trigger, err)
			continue
		}
		if diff := cmp.Diff(&c.want, def.Trigger); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.trigger, diff)
		}
		if diff := cmp.Diff(d.Trigger, wire.TriggerOf(def.Trigger)); diff != "" {
			t.Errorf("%s is read back otherwise (-want +got):\n%s", c.trigger, diff)
		}
	}
	def, err := (&wire.Declaration{}).Definition("w")
	if err != nil || def.Trigger != nil || wire.TriggerOf(def.Trigger) != nil {
		t.Errorf("without a trigger: %+v read back as %+v, %v", def.Trigger, wire.TriggerOf(def.Trigger), err)
	}
	// A longest wait that is left out is none, and is read back as 0.
	d := declared(t, `{"debounce":{"key":"k","window_seconds":5}}`)
	if def, err = d.Definition("w"); err != nil || def.Trigger.MaxWait != 0 || *wire.TriggerOf(def.Trigger).Debounce.MaxWaitSeconds != 0 {
		t.Errorf("without a longest wait: %+v, %v", def.Trigger, err)
	}
}

// Fails when a trigger out of range is taken, or refused without its field (P57), or a
// trigger that is two or none.
func TestP57TriggersOutOfRange(t *testing.T) {
	for trigger, field := range map[string]string{
		`{}`:                               "trigger",
		`{"collect":null,"debounce":null}`: "trigger",
		`{"collect":{"key":"k","max_events":1,"window_seconds":1},"debounce":{"key":"k","window_seconds":1}}`: "trigger",
		`{"collect":{}}`: "trigger.collect.key",
		`{"collect":{"key":"","max_events":1,"window_seconds":1}}`:                                                           "trigger.collect.key",
		`{"collect":{"key":"cel:","max_events":1,"window_seconds":1}}`:                                                       "trigger.collect.key",
		`{"collect":{"key":"cel:` + strings.Repeat("e", flow.MaxExpressionBytes+1) + `","max_events":1,"window_seconds":1}}`: "trigger.collect.key",
		`{"collect":{"key":"function:f","max_events":1,"window_seconds":1}}`:                                                 "trigger.collect.key",
		`{"collect":{"key":"k","window_seconds":1}}`:                                                                         "trigger.collect.max_events",
		`{"collect":{"key":"k","max_events":0,"window_seconds":1}}`:                                                          "trigger.collect.max_events",
		`{"collect":{"key":"k","max_events":-1,"window_seconds":1}}`:                                                         "trigger.collect.max_events",
		`{"collect":{"key":"k","max_events":10001,"window_seconds":1}}`:                                                      "trigger.collect.max_events",
		`{"collect":{"key":"k","max_events":1}}`:                                                                             "trigger.collect.window_seconds",
		`{"collect":{"key":"k","max_events":1,"window_seconds":0}}`:                                                          "trigger.collect.window_seconds",
		`{"collect":{"key":"k","max_events":1,"window_seconds":-1}}`:                                                         "trigger.collect.window_seconds",
		`{"collect":{"key":"k","max_events":1,"window_seconds":1e-10}}`:                                                      "trigger.collect.window_seconds",
		`{"collect":{"key":"k","max_events":1,"window_seconds":31622400.1}}`:                                                 "trigger.collect.window_seconds",
		`{"collect":{"key":"k","max_events":1,"window_seconds":1e300}}`:                                                      "trigger.collect.window_seconds",
		`{"collect":{"key":"k","max_events":1,"window_seconds":1,"max_bytes":0}}`:                                            "trigger.collect.max_bytes",
		`{"collect":{"key":"k","max_events":1,"window_seconds":1,"max_bytes":-1}}`:                                           "trigger.collect.max_bytes",
		`{"collect":{"key":"k","max_events":1,"window_seconds":1,"max_bytes":786433}}`:                                       "trigger.collect.max_bytes",
		`{"debounce":{"window_seconds":1}}`:                                                                                  "trigger.debounce.key",
		`{"debounce":{"key":"k"}}`:                                                                                           "trigger.debounce.window_seconds",
		`{"debounce":{"key":"k","window_seconds":0}}`:                                                                        "trigger.debounce.window_seconds",
		`{"debounce":{"key":"k","window_seconds":31622401}}`:                                                                 "trigger.debounce.window_seconds",
		`{"debounce":{"key":"k","window_seconds":2,"max_wait_seconds":1.999}}`:                                               "trigger.debounce.max_wait_seconds",
		`{"debounce":{"key":"k","window_seconds":2,"max_wait_seconds":-1}}`:                                                  "trigger.debounce.max_wait_seconds",
		`{"debounce":{"key":"k","window_seconds":1e-9,"max_wait_seconds":1e-10}}`:                                            "trigger.debounce.max_wait_seconds",
		`{"debounce":{"key":"k","window_seconds":2,"max_wait_seconds":31622401}}`:                                            "trigger.debounce.max_wait_seconds",
	} {
		if got := fieldOf(t, declared(t, trigger)); got.Field != field || got.Want == "" {
			t.Errorf("%s is refused for %q (%s), want %q", trigger, got.Field, got.Want, field)
		}
	}
	for _, seconds := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		d := wire.Declaration{Trigger: &wire.Trigger{Debounce: &wire.Debounce{Key: wire.Key{Name: "k"}, WindowSeconds: seconds}}}
		if got := fieldOf(t, d); got.Field != "trigger.debounce.window_seconds" {
			t.Errorf("%v seconds are refused for %q", seconds, got.Field)
		}
		d.Trigger.Debounce.WindowSeconds, d.Trigger.Debounce.MaxWaitSeconds = 1, &seconds
		if got := fieldOf(t, d); got.Field != "trigger.debounce.max_wait_seconds" {
			t.Errorf("a longest wait of %v seconds is refused for %q", seconds, got.Field)
		}
	}
}

// Fails when a triggered workflow has a gate that isn't keyed on "key", or can't have one
// that is (P74, P39).
func TestP74_P39GatesOfATriggeredWorkflow(t *testing.T) {
	const trigger = `{"debounce":{"key":"user_id","window_seconds":1}}`
	for _, key := range []wire.Key{{Name: "user_id"}, {Name: "Key"}, {Name: "cel:key"}, {Name: "cel:params.key"}, {Function: "key"}} {
		d := declared(t, trigger)
		d.Limit = &wire.Limit{Key: key, Max: 1}
		if got := fieldOf(t, d); got.Field != "limit.key" || !strings.Contains(got.Want, `"key"`) {
			t.Errorf("a limit keyed on %+v is refused for %q (%s)", key, got.Field, got.Want)
		}
		d.Limit, d.Rate = &wire.Limit{Key: wire.Key{Name: "key"}, Max: 1}, &wire.Rate{Key: key, PerSecond: 1}
		if got := fieldOf(t, d); got.Field != "rate.key" {
			t.Errorf("a rate keyed on %+v is refused for %q (%s)", key, got.Field, got.Want)
		}
		d.Trigger = nil
		if def, err := d.Definition("w"); err != nil || len(def.Rules) != 2 {
			t.Errorf("without a trigger %+v is refused: %v", key, err)
		}
	}
	d := declared(t, trigger)
	d.Limit, d.Rate = &wire.Limit{Key: wire.Key{Name: "key"}, Max: 1}, &wire.Rate{Key: wire.Key{Name: "key"}, PerSecond: 1}
	if def, err := d.Definition("w"); err != nil || len(def.Rules) != 2 || def.Trigger == nil {
		t.Errorf("gates on key: %+v, %v", def, err)
	}
}

// Fails when an event is taken that isn't an object, is too large or has too long an id, or
// one at the bound is refused (P70).
func TestP70EventsAreBounded(t *testing.T) {
	body := func(n int) json.RawMessage {
		return json.RawMessage(`{"p":"` + strings.Repeat("x", n-len(`{"p":""}`)) + `"}`)
	}
	for _, c := range []struct {
		event wire.TriggerEvent
		field string
	}{
		{wire.TriggerEvent{Body: json.RawMessage(`{}`)}, ""},
		{wire.TriggerEvent{Body: body(flow.MaxEventBytes), ID: strings.Repeat("i", flow.MaxEventIDBytes)}, ""},
		{wire.TriggerEvent{}, "event"},
		{wire.TriggerEvent{Body: json.RawMessage(`[]`)}, "event"},
		{wire.TriggerEvent{Body: json.RawMessage(` {}`)}, "event"},
		{wire.TriggerEvent{Body: json.RawMessage(`null`)}, "event"},
		{wire.TriggerEvent{Body: body(flow.MaxEventBytes + 1)}, "event"},
		{wire.TriggerEvent{Body: json.RawMessage(`{}`), ID: strings.Repeat("i", flow.MaxEventIDBytes+1)}, "id"},
		{wire.TriggerEvent{Body: json.RawMessage(`{}`), ID: "\xff"}, "id"},
	} {
		err := c.event.Check()
		if c.field == "" {
			if err != nil {
				t.Errorf("%.40s with an id of %d bytes: %v", c.event.Body, len(c.event.ID), err)
			}
			continue
		}
		if f, ok := errors.AsType[*flow.FieldError](err); !ok || f.Field != c.field || !errors.Is(err, flow.ErrInvalid) {
			t.Errorf("%.40s with an id of %d bytes: %v, want a refusal of %s", c.event.Body, len(c.event.ID), err, c.field)
		}
	}
}
