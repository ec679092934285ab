package flow

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Fails when a bound of Collect isn't where the rule puts it.
func TestP57CollectBounds(t *testing.T) {
	legal := Collect{Key: byTenant, MaxEvents: 2, Window: Second, MaxBytes: 0}
	for _, c := range []struct {
		change func(*Collect)
		want   string
	}{
		{func(*Collect) {}, ""},
		{func(c *Collect) { c.MaxEvents = 1 }, ""},
		{func(c *Collect) { c.MaxEvents = MaxBatchEvents }, ""},
		{func(c *Collect) { c.MaxEvents = 0 }, "trigger.collect.max_events"},
		{func(c *Collect) { c.MaxEvents = -1 }, "trigger.collect.max_events"},
		{func(c *Collect) { c.MaxEvents = math.MinInt64 }, "trigger.collect.max_events"},
		{func(c *Collect) { c.MaxEvents = MaxBatchEvents + 1 }, "trigger.collect.max_events"},
		{func(c *Collect) { c.MaxEvents = math.MaxInt64 }, "trigger.collect.max_events"},
		{func(c *Collect) { c.MaxBytes = 1 }, ""},
		{func(c *Collect) { c.MaxBytes = MaxBatchBytes }, ""},
		{func(c *Collect) { c.MaxBytes = MaxBatchBytes + 1 }, "trigger.collect.max_bytes"},
		{func(c *Collect) { c.MaxBytes = -1 }, "trigger.collect.max_bytes"},
		{func(c *Collect) { c.MaxBytes = math.MinInt64 }, "trigger.collect.max_bytes"},
		{func(c *Collect) { c.Window = 1 }, ""},
		{func(c *Collect) { c.Window = MaxWindow }, ""},
		{func(c *Collect) { c.Window = 0 }, "trigger.collect.window_seconds"},
		{func(c *Collect) { c.Window = -1 }, "trigger.collect.window_seconds"},
		{func(c *Collect) { c.Window = MaxWindow + 1 }, "trigger.collect.window_seconds"},
		{func(c *Collect) { c.Window = math.MaxInt64 }, "trigger.collect.window_seconds"},
		{func(c *Collect) { c.Key = KeySource{} }, "trigger.collect.key"},
		{func(c *Collect) { c.Key = KeySource{Name: "a", Function: "b"} }, "trigger.collect.key"},
		{func(c *Collect) { c.Key = KeySource{Function: "f\n"} }, "trigger.collect.key.function"},
		{func(c *Collect) { c.Key = KeySource{Function: "f"} }, ""},
		{func(c *Collect) { c.Key = KeySource{Name: "cel:event.a"} }, ""},
	} {
		p := legal
		c.change(&p)
		if got := refusal(t, p.Validate("trigger.collect")); got != c.want {
			t.Errorf("%+v: refused for %q, want %q", p, got, c.want)
		}
	}
	want := Trigger{Kind: TriggerCollect, Key: byTenant, MaxEvents: 2, Window: Second, MaxBytes: 3}
	legal.MaxBytes = 3
	if got := TriggerOfCollect(legal); *got != want {
		t.Errorf("the trigger is %+v, want %+v", *got, want)
	}
}

// Fails when a bound of Debounce isn't where the rule puts it: no longest wait, or one that
// isn't shorter than the window.
func TestP57_P70DebounceBounds(t *testing.T) {
	for _, c := range []struct {
		window, wait Span
		want         string
	}{
		{1, 0, ""}, {MaxWindow, 0, ""}, {MaxWindow, MaxWindow, ""}, {1, MaxWindow, ""}, {Second, Second, ""},
		{0, 0, "trigger.debounce.window_seconds"}, {-1, 0, "trigger.debounce.window_seconds"},
		{MaxWindow + 1, 0, "trigger.debounce.window_seconds"}, {math.MaxInt64, math.MaxInt64, "trigger.debounce.window_seconds"},
		{Second, Second - 1, "trigger.debounce.max_wait_seconds"}, {Second, 1, "trigger.debounce.max_wait_seconds"},
		{Second, -1, "trigger.debounce.max_wait_seconds"}, {Second, MaxWindow + 1, "trigger.debounce.max_wait_seconds"},
		{1, math.MinInt64, "trigger.debounce.max_wait_seconds"},
	} {
		d := Debounce{Key: byTenant, Window: c.window, MaxWait: c.wait}
		if got := refusal(t, d.Validate("trigger.debounce")); got != c.want {
			t.Errorf("%+v: refused for %q, want %q", d, got, c.want)
		}
	}
	if got := refusal(t, Debounce{Window: 1}.Validate("trigger.debounce")); got != "trigger.debounce.key" {
		t.Errorf("no key: refused for %q", got)
	}
	want := Trigger{Kind: TriggerDebounce, Key: byTenant, Window: 1, MaxWait: 2}
	if got := TriggerOfDebounce(Debounce{Key: byTenant, Window: 1, MaxWait: 2}); *got != want {
		t.Errorf("the trigger is %+v, want %+v", *got, want)
	}
	if TriggerCollect.String() != "collect" || TriggerDebounce.String() != "debounce" || TriggerKind(0).String() != "trigger(0)" {
		t.Error("a trigger has no name")
	}
}

// Fails when a refusal doesn't say what is right: the number that it names is a bound.
func TestP57RefusalsSayTheBound(t *testing.T) {
	seconds := strconv.FormatInt(int64(MaxWindow/Second), 10)
	for _, c := range []struct {
		err error
		say string
	}{
		{Collect{Key: byTenant, MaxEvents: MaxBatchEvents + 1, Window: 1}.Validate("c"), strconv.Itoa(MaxBatchEvents)},
		{Collect{Key: byTenant, MaxEvents: 1, Window: 1, MaxBytes: -1}.Validate("c"), strconv.Itoa(MaxBatchBytes)},
		{Collect{Key: byTenant, MaxEvents: 1}.Validate("c"), seconds},
		{Debounce{Key: byTenant}.Validate("d"), seconds},
		{Debounce{Key: byTenant, Window: 2, MaxWait: 1}.Validate("d"), seconds},
	} {
		if !strings.Contains(c.err.Error(), c.say) {
			t.Errorf("%v doesn't say %s", c.err, c.say)
		}
	}
}

// Fails when a gate beside a trigger is taken that isn't keyed on the batch's key, or one
// that is isn't.
func TestP74_P39GatesAreKeyedOnTheBatch(t *testing.T) {
	key := KeySource{Name: "key"}
	gates := func(limit, rate KeySource) []Rule {
		return []Rule{{Kind: GateLimit, Key: limit, Max: 1}, {Kind: GateRate, Key: rate, Interval: Second, Burst: 1}}
	}
	for name, c := range map[string]struct {
		rules []Rule
		want  string
	}{
		"none": {nil, ""}, "both": {gates(key, key), ""}, "one": {gates(key, key)[1:], ""},
		"limit": {gates(byTenant, key), "limit.key"}, "rate": {gates(key, byTenant), "rate.key"},
		"events": {gates(KeySource{Name: "events"}, key), "limit.key"}, "count": {gates(key, KeySource{Name: "count"}), "rate.key"},
		"function": {gates(KeySource{Function: "key"}, key), "limit.key"}, "case": {gates(KeySource{Name: "Key"}, key), "limit.key"},
		"expression": {gates(key, KeySource{Name: "cel:key"}), "rate.key"}, "space": {gates(KeySource{Name: "key "}, key), "limit.key"},
	} {
		if got := refusal(t, CheckTriggered(c.rules)); got != c.want {
			t.Errorf("%s: refused for %q, want %q", name, got, c.want)
		}
	}
}

// Fails when a run made of a batch is stamped otherwise than by the declaration, with the
// batch's key in each gate: then it lives elsewhere than its batch.
func TestP73_P74_R8StampBatch(t *testing.T) {
	d := sampleDefinition()
	for i := range d.Rules {
		d.Rules[i].Key = KeySource{Name: BatchKey}
	}
	for _, key := range []string{"acme", "", `a"b`, strings.Repeat("k", MaxKeyBytes)} {
		want := &Stamp{Version: "2.1", VersionRank: 3, Gates: []Gate{
			{Kind: GateLimit, KeyName: "key", Key: key, Max: 2},
			{Kind: GateRate, KeyName: "key", Key: key, Interval: 200 * Millisecond, Burst: 10},
		}}
		got := d.StampBatch(key)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("stamp (-want +got):\n%s", diff)
		}
		if got.Home("sync") != (KeyID{Workflow: "sync", Value: key}) {
			t.Errorf("home of key %q is %v", key, got.Home("sync"))
		}
		if _, elsewhere := got.Remote("sync"); elsewhere {
			t.Errorf("key %q has a gate elsewhere", key)
		}
		params, err := d.Stamp(BatchParams(key, []byte("{}"), 1), Keys{})
		if diff := cmp.Diff(got, params); err != nil || diff != "" {
			t.Errorf("a submit with the batch's parameters is stamped otherwise: %v\n%s", err, diff)
		}
	}
	bare := &Definition{Version: "7"}
	if diff := cmp.Diff(&Stamp{Version: "7", VersionRank: 7}, bare.StampBatch("a")); diff != "" {
		t.Errorf("no gates (-want +got):\n%s", diff)
	}
}

// Fails when the key of an event isn't its parameter, the given one or the expression's, or
// is taken from where the rule doesn't allow it.
func TestP12_P13_P20_P60EventKeys(t *testing.T) {
	given, long := "given", strings.Repeat("k", MaxKeyBytes+1)
	eval := func(field, expression string, object []byte) (string, error) {
		return field + "|" + expression + "|" + string(object), nil
	}
	function, expression := KeySource{Function: "f"}, KeySource{Name: "cel:event.a"}
	for name, c := range map[string]struct {
		key   KeySource
		event string
		given *string
		want  string
		field string
		kind  error
	}{
		"parameter":              {byTenant, `{"tenant":"acme"}`, nil, "acme", "", nil},
		"number":                 {byTenant, `{"tenant":1.0}`, nil, "1", "", nil},
		"object":                 {byTenant, `{"tenant":{"b":1,"a":null}}`, nil, `{"a":null,"b":1}`, "", nil},
		"missing":                {byTenant, `{}`, nil, "", "", nil},
		"null":                   {byTenant, `{"tenant":null}`, nil, "", "", nil},
		"longest":                {byTenant, `{"tenant":"` + long[1:] + `"}`, nil, long[1:], "", nil},
		"too long":               {byTenant, `{"tenant":"` + long + `"}`, nil, "", "event.tenant", ErrInvalid},
		"given to a parameter":   {byTenant, `{"tenant":"acme"}`, &given, "", "key", ErrConfiguration},
		"given to an expression": {expression, `{}`, &given, "", "key", ErrConfiguration},
		"function":               {function, `{"f":1}`, &given, "given", "", nil},
		"function, not given":    {function, `{"f":1}`, nil, "", "key", ErrConfiguration},
		"function, too long":     {function, `{}`, &long, "", "key", ErrInvalid},
		"function, no text":      {function, `{}`, new("a\xff"), "", "key", ErrInvalid},
		"function, empty":        {function, `{}`, new(""), "", "", nil},
		"expression":             {expression, `{"a":1}`, nil, `trigger.collect.key|event.a|{"a":1}`, "", nil},
		"expression, too long":   {expression, `{"a":"` + long + `"}`, nil, "", "trigger.collect.key", ErrInvalid},
	} {
		trigger := Trigger{Kind: TriggerCollect, Key: c.key}
		got, err := trigger.EventKey([]byte(c.event), c.given, eval)
		if c.field == "" {
			if err != nil || got != c.want {
				t.Errorf("%s: key %q, error %v, want %q", name, got, err, c.want)
			}
			continue
		}
		if f, ok := errors.AsType[*FieldError](err); !ok || f.Field != c.field || !errors.Is(err, c.kind) || f.Want == "" {
			t.Errorf("%s: error %v, want one of %s", name, err, c.field)
		}
	}
	failing := func(string, string, []byte) (string, error) {
		return "", misconfigured("trigger.debounce.key", "must be")
	}
	for name, e := range map[string]Evaluate{"nobody": nil, "a fault": failing} {
		trigger := Trigger{Kind: TriggerDebounce, Key: expression}
		if _, err := trigger.EventKey([]byte(`{}`), nil, e); refusal(t, err) != "trigger.debounce.key" {
			t.Errorf("%s computes the expression: %v", name, err)
		}
	}
}

// Fails when the parameters of a triggered run aren't exactly its key, its events as they
// came, and their number, whatever they hold.
func TestP36BatchParams(t *testing.T) {
	for _, c := range []struct {
		key    string
		events []string
		want   string
	}{
		{"acme", []string{`{"a":1}`, `{}`}, `{"key":"acme","events":[{"a":1},{}],"count":2}`},
		{"", []string{`{"<>&":"\u2028 "}`}, `{"key":"","events":[{"<>&":"\u2028 "}],"count":1}`},
		{"a\"\\\x00\n<é>", []string{`{ }`}, `{"key":"a\"\\\u0000\n<é>","events":[{ }],"count":1}`},
	} {
		got := BatchParams(c.key, []byte(strings.Join(c.events, ",")), int64(len(c.events)))
		if string(got) != c.want {
			t.Errorf("parameters %s, want %s", got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.String().Draw(t, "key")
		var events [][]byte
		for range rapid.IntRange(1, 5).Draw(t, "events") {
			e, err := json.Marshal(rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "event"))
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, e)
		}
		joined := bytes.Join(events, []byte(","))
		var back struct {
			Key    string
			Events []json.RawMessage
			Count  int
		}
		if err := json.Unmarshal(BatchParams(key, joined, int64(len(events))), &back); err != nil {
			t.Fatal(err)
		}
		if back.Key != key || back.Count != len(events) || !slices.EqualFunc(back.Events, events, func(a json.RawMessage, b []byte) bool { return bytes.Equal(a, b) }) {
			t.Fatalf("key %q, %d events read %q, %d", key, len(events), back.Key, back.Count)
		}
	})
}

// Fails when the parameters of the largest batch don't fit where those of any run must.
func TestP36_P70LargestBatchFits(t *testing.T) {
	events := bytes.Repeat([]byte("x"), MaxBatchBytes+MaxBatchEvents-1)
	key := strings.Repeat("\x01", MaxKeyBytes) // six bytes each
	if n := len(BatchParams(key, events, MaxBatchEvents)); n > MaxPayloadBytes {
		t.Errorf("%d bytes, at most %d are legal", n, MaxPayloadBytes)
	}
	rec := Record{Kind: RecEvent, Fields: Fields{
		Key: KeyID{Workflow: strings.Repeat("w", MaxNameBytes), Value: key}, Payload: events[:MaxEventBytes],
		IdempotencyKey: strings.Repeat("i", MaxEventIDBytes), Until: MaxInstant,
	}}
	got := decoded(t, encoded(rec))
	if !bytes.Equal(got.Payload, rec.Payload) {
		t.Errorf("the largest event has %d bytes, want %d", len(got.Payload), len(rec.Payload))
	}
	got.Payload, rec.Payload = nil, nil
	if diff := cmp.Diff(rec, got); diff != "" {
		t.Errorf("the largest event (-want +got):\n%s", diff)
	}
}

// Fails when a full buffer isn't told from other refusals, or its text hides what it holds.
func TestP70BufferFull(t *testing.T) {
	var err error = &BufferFull{Key: KeyID{Workflow: "w", Value: "k"}, Events: 12, Bytes: 345, Room: Second}
	if !errors.Is(err, ErrBufferFull) || errors.Is(err, ErrOverloaded) || !strings.Contains(err.Error(), "12 events of 345 bytes") ||
		!strings.Contains(err.Error(), `"k"`) {
		t.Errorf("error %v", err)
	}
}
