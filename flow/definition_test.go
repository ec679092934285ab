package flow

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sampleDefinition() *Definition {
	d := &Definition{
		Workflow: "sync", Version: "2.1", Seen: 3, Lease: 30 * Second, Attempts: 3, Backoff: Second, At: 7,
		Rules: []Rule{
			{Kind: GateLimit, Key: byTenant, Max: 2},
			{Kind: GateRate, Key: KeySource{Function: "region"}, Interval: 200 * Millisecond, Burst: 10},
		},
	}
	d.Seal()
	return d
}

// boundDefinition is one of a workflow that is bound to a Kafka topic.
func boundDefinition() *Definition {
	d := &Definition{Workflow: "sync", Version: "2.1", Seen: 3, Lease: Second, Attempts: 3, Rules: []Rule{}, Topic: "orders.v1"}
	d.Seal()
	return d
}

// triggeredDefinition is one of a workflow whose runs are made of events.
func triggeredDefinition(trigger *Trigger) *Definition {
	d := &Definition{
		Workflow: "sync", Version: "2.1", Seen: 3, Lease: Second, Attempts: 3,
		Rules:   []Rule{{Kind: GateLimit, Key: KeySource{Name: BatchKey}, Max: 2}},
		Trigger: trigger,
	}
	d.Seal()
	return d
}

// triggers are one of each kind with all its fields, and with an expression for a key.
func triggers() map[string]*Trigger {
	return map[string]*Trigger{
		"collect":  TriggerOfCollect(Collect{Key: byTenant, MaxEvents: 10, Window: 5 * Second, MaxBytes: 4096}),
		"debounce": TriggerOfDebounce(Debounce{Key: KeySource{Function: "tenant"}, Window: 5 * Second, MaxWait: 10 * Second}),
		"expression": TriggerOfCollect(Collect{
			Key: KeySource{Name: expressionPrefix + strings.Repeat("e", MaxExpressionBytes)}, MaxEvents: MaxBatchEvents, Window: MaxWindow,
		}),
	}
}

// Fails when a definition doesn't come back from its bytes, with its hashes.
func TestDefinitionRoundTrip(t *testing.T) {
	bare := &Definition{Workflow: "w", Rules: []Rule{}}
	bare.Seal()
	all := []*Definition{sampleDefinition(), bare, boundDefinition()}
	for _, trigger := range triggers() {
		all = append(all, triggeredDefinition(trigger))
	}
	for _, want := range all {
		w, r := NewWriter(), NewReader()
		w.Definition(want)
		if err := r.Reset(w.Bytes()); err != nil {
			t.Fatal(err)
		}
		got, err := r.Definition()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" || r.More() {
			t.Errorf("more %t (-want +got):\n%s", r.More(), diff)
		}
	}
}

// Fails when a cut definition is read, or one of another version.
func TestDefinitionDamageIsRefused(t *testing.T) {
	for _, d := range []*Definition{sampleDefinition(), boundDefinition(), triggeredDefinition(triggers()["debounce"])} {
		w, r := NewWriter(), NewReader()
		w.Definition(d)
		body := w.Bytes()
		for n := 1; n < len(body); n++ {
			err := r.Reset(body[:n])
			if err == nil {
				_, err = r.Definition()
			}
			if !errors.Is(err, ErrCodec) {
				t.Fatalf("cut at %d: error %v", n, err)
			}
		}
		body[2] = codecVersion + 1
		if err := r.Reset(body); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Definition(); !errors.Is(err, ErrCodec) {
			t.Errorf("a newer version: error %v", err)
		}
	}
}

// Fails when a definition without a topic is written, hashed or read otherwise than
// before there were topics: these are bytes and a text of that time.
func TestP40DefinitionsOlderThanTopics(t *testing.T) {
	shape := sha256.Sum256([]byte(`["name","sync","steps",null,"max_attempts",3,"definition_version","2.1","budget",null]`))
	if got := sampleDefinition().Hash; got != hex.EncodeToString(shape[:]) {
		t.Errorf("the hash without a topic has changed: %s", got)
	}
	d := &Definition{Workflow: "w", Version: "1", Seen: 2, Lease: 30, Attempts: 3, Backoff: 4, At: 5, Hash: "h", Rules: []Rule{{Kind: GateLimit, Key: byTenant, Max: 2}}}
	const before = "019a01a177a13102" + "1e030405" + "a168" + "9196" + "01a674656e616e74a0020000"
	w, r := NewWriter(), NewReader()
	w.Definition(d)
	if got := hex.EncodeToString(w.Bytes()); got != before {
		t.Errorf("written as %s, was %s", got, before)
	}
	body, err := hex.DecodeString(before)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Reset(body); err != nil {
		t.Fatal(err)
	}
	got, err := r.Definition()
	if d.GatesHash = GatesHash(d.Rules); err != nil || cmp.Diff(d, got) != "" {
		t.Errorf("read as %+v, error %v", got, err)
	}
}

// Fails when a definition without a trigger is written or hashed otherwise than before there
// were triggers: these are bytes and a hash of that time.
func TestP33_P34DefinitionsOlderThanTriggers(t *testing.T) {
	if got := boundDefinition().Hash; got != "317d73edad222430a3902521bfe9a00de7f078c6c8761d58b75199a25b1d73dd" {
		t.Errorf("the hash without a trigger has changed: %s", got)
	}
	d := &Definition{Workflow: "w", Version: "1", Seen: 2, Lease: 30, Attempts: 3, Backoff: 4, At: 5, Hash: "h", Rules: []Rule{}, Topic: "orders.v1"}
	const before = "019b01a177a13102" + "1e030405" + "a168" + "90" + "a96f72646572732e7631"
	w := NewWriter()
	w.Definition(d)
	if got := hex.EncodeToString(w.Bytes()); got != before {
		t.Errorf("written as %s, was %s", got, before)
	}
	got, err := reading(t, w.Bytes()).Definition()
	if d.GatesHash = GatesHash(nil); err != nil || cmp.Diff(d, got) != "" {
		t.Errorf("read as %+v, error %v", got, err)
	}
}

// Fails when the hash of a declaration with a trigger changes, by which workers and nodes of
// different builds are compared, or when gates are in it.
func TestP33_P34TriggerHashIsFixed(t *testing.T) {
	for name, want := range map[string]string{
		"collect":  `"trigger","collect","tenant",10,4096,5000000000,0]`,
		"debounce": `"trigger","debounce","function:tenant",0,0,5000000000,10000000000]`,
	} {
		shape := sha256.Sum256([]byte(`["name","sync","steps",null,"max_attempts",3,"definition_version","2.1","budget",null,` + want))
		d := triggeredDefinition(triggers()[name])
		if d.Hash != hex.EncodeToString(shape[:]) {
			t.Errorf("the hash of %s is %s", name, d.Hash)
		}
		d.Rules = nil
		if d.Seal(); d.Hash != hex.EncodeToString(shape[:]) {
			t.Errorf("%s: the gates are in the hash", name)
		}
	}
}

// Fails when a definition with a part too few or too many, or of a trigger that is none, is
// read.
func TestP33_P34TriggerPartsAreCounted(t *testing.T) {
	w := NewWriter()
	w.Definition(triggeredDefinition(triggers()["collect"]))
	body := w.Bytes()
	at := strings.LastIndex(string(body), "\xa0\x97") // no topic, and seven parts of a trigger
	if at < 0 {
		t.Fatalf("the trigger isn't where it was: %x", body)
	}
	for name, change := range map[string]func([]byte){
		"a part of a trigger too few":  func(b []byte) { b[at+1]-- },
		"a part of a trigger too many": func(b []byte) { b[at+1]++ },
		"no trigger":                   func(b []byte) { b[at+1] = 0xc0 },
		"a part too many":              func(b []byte) { b[1]++ },
		"a kind out of range":          func(b []byte) { b[at+2] = 0xff },
	} {
		bad := []byte(string(body))
		change(bad)
		if d, err := reading(t, bad).Definition(); !errors.Is(err, ErrCodec) {
			t.Errorf("%s: read as %+v, error %v", name, d, err)
		}
	}
}

// Fails when the name of a topic is taken or refused otherwise than Kafka does.
func TestP40TopicNames(t *testing.T) {
	for _, legal := range []string{"a", "orders", "Orders.v1_x-2", "...", "-", "_", strings.Repeat("t", MaxTopicBytes)} {
		if err := CheckTopic("kafka.topic", legal); err != nil {
			t.Errorf("%q: %v", legal, err)
		}
	}
	for _, illegal := range []string{"", ".", "..", "a b", "a/b", "ключ", "a\x00", "a:b", strings.Repeat("t", MaxTopicBytes+1)} {
		if got := refusal(t, CheckTopic("kafka.topic", illegal)); got != "kafka.topic" {
			t.Errorf("%q is refused for %q", illegal, got)
		}
	}
}

// Fails when a stamp isn't what the definition says of these params (P12, P13, P16),
// or a function's key is made up (P20).
func TestP12P16P20DefinitionStamp(t *testing.T) {
	d := sampleDefinition()
	region := "eu"
	got, err := d.Stamp([]byte(`{"tenant":"acme"}`), Keys{Rate: &region})
	if err != nil {
		t.Fatal(err)
	}
	want := &Stamp{Version: "2.1", VersionRank: 3, Gates: []Gate{
		{Kind: GateLimit, KeyName: "tenant", Key: "acme", Max: 2},
		{Kind: GateRate, KeyName: "function:region", Key: "eu", Interval: 200 * Millisecond, Burst: 10},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stamp (-want +got):\n%s", diff)
	}
	if s, err := d.Stamp([]byte(`{}`), Keys{Rate: &region}); err != nil || s.Gates[0].Key != "" {
		t.Errorf("a missing parameter: %+v, error %v", s, err)
	}
	long := string(make([]byte, MaxKeyBytes+1))
	for name, c := range map[string]struct {
		keys  Keys
		field string
		kind  error
	}{
		"no function key":   {Keys{}, "stamp.keys.rate", ErrConfiguration},
		"a parameter's key": {Keys{Limit: &region, Rate: &region}, "stamp.keys.limit", ErrConfiguration},
		"too long":          {Keys{Rate: &long}, "stamp.keys.rate", ErrInvalid},
	} {
		_, err := d.Stamp([]byte(`{}`), c.keys)
		if f, ok := errors.AsType[*FieldError](err); !ok || f.Field != c.field || !errors.Is(err, c.kind) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	bare := &Definition{Version: "1", Seen: 1}
	if s, err := bare.Stamp(nil, Keys{}); err != nil || cmp.Diff(&Stamp{Version: "1", VersionRank: 1}, s) != "" {
		t.Errorf("no gates: %+v, error %v", s, err)
	}
}

// Fails when versions rank otherwise than as dotted numbers, or else in the order in
// which they were seen (P83).
func TestP83VersionRank(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"1", "2", -1}, {"2", "10", -1}, {"1.9", "1.10", -1}, {"1.2.3", "1.2", 1}, {"3", "3", 0},
		{"beta", "alpha", -1}, {"alpha", "beta", 1}, {"", "beta", -1}, {"v1", "v10", -1}, {"2026", "v3", -1}, {"20260101", "", -1},
	} {
		a := &Definition{Version: c.a, Seen: 1}
		b := &Definition{Version: c.b, Seen: 2}
		if c.want > 0 && c.a == "alpha" {
			a.Seen, b.Seen = b.Seen, a.Seen // beta was seen first
		}
		if got := CompareVersions(a, b); got != c.want {
			t.Errorf("%q against %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
	for version, want := range map[string]int64{"7": 7, "": 5, "1.2": 5, "x": 5, "99999999999": 5, "-1": 5} {
		if got := (&Definition{Version: version, Seen: 5}).Rank(); got != want {
			t.Errorf("%q has rank %d, want %d", version, got, want)
		}
	}
}

// Fails when a change of what is declared isn't one, or none is.
func TestP82DefinitionSame(t *testing.T) {
	for name, change := range map[string]func(*Definition){
		"version": func(d *Definition) { d.Version = "3" }, "lease": func(d *Definition) { d.Lease++ },
		"attempts": func(d *Definition) { d.Attempts++ }, "backoff": func(d *Definition) { d.Backoff++ },
		"topic": func(d *Definition) { d.Topic = "orders" },
		"gates": func(d *Definition) { d.Rules[0].Max++ }, "no gates": func(d *Definition) { d.Rules = nil },
	} {
		d := sampleDefinition()
		change(d)
		if d.Seal(); sampleDefinition().Same(d) {
			t.Errorf("another %s is the same declaration", name)
		}
	}
	for name, change := range map[string]func(*Definition){
		"none": func(d *Definition) { d.Trigger = nil }, "kind": func(d *Definition) { d.Trigger.Kind = TriggerDebounce },
		"key": func(d *Definition) { d.Trigger.Key.Name = "k" }, "function": func(d *Definition) { d.Trigger.Key = KeySource{Function: "tenant"} },
		"max events": func(d *Definition) { d.Trigger.MaxEvents++ }, "max bytes": func(d *Definition) { d.Trigger.MaxBytes++ },
		"window": func(d *Definition) { d.Trigger.Window++ }, "max wait": func(d *Definition) { d.Trigger.MaxWait++ },
	} {
		d, was := triggeredDefinition(triggers()["collect"]), triggeredDefinition(triggers()["collect"])
		change(d)
		if d.Seal(); was.Same(d) || d.GatesHash != was.GatesHash {
			t.Errorf("another trigger (%s) is the same declaration, or has other gates", name)
		}
	}
	d := sampleDefinition()
	d.At, d.Seen = 99, 99
	if !sampleDefinition().Same(d) {
		t.Error("the same declared later is another declaration")
	}
}
