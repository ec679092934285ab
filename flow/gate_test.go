package flow

import (
	"errors"
	"reflect"
	"testing"
)

// Fails when two declarations that gate differently have one hash, or one
// declaration two (P82).
func TestP82GatesHashTellsGatesApart(t *testing.T) {
	limit := Rule{Kind: GateLimit, Key: byTenant, Max: 2}
	rate := Rule{Kind: GateRate, Key: byTenant, Interval: Second, Burst: 5}
	variants := map[string][]Rule{
		"none": nil, "limit": {limit}, "rate": {rate}, "both": {limit, rate}, "the other way": {rate, limit},
		"other max": {{Kind: GateLimit, Key: byTenant, Max: 20}}, "other key": {{Kind: GateLimit, Key: KeySource{Name: "region"}, Max: 2}},
		"function":     {{Kind: GateLimit, Key: KeySource{Function: "tenant"}, Max: 2}},
		"other kind":   {{Kind: GateRate, Key: byTenant, Max: 2}},
		"interval":     {{Kind: GateRate, Key: byTenant, Interval: Second + 1, Burst: 5}},
		"burst":        {{Kind: GateRate, Key: byTenant, Interval: Second, Burst: 6}},
		"digits moved": {{Kind: GateRate, Key: byTenant, Interval: 100_000_000, Burst: 5}},
		"key grows":    {{Kind: GateLimit, Key: KeySource{Name: "tenant1:2"}, Max: 2}},
	}
	seen := map[string]string{}
	for name, rules := range variants {
		h := GatesHash(rules)
		if len(h) != 32 || h != GatesHash(append([]Rule(nil), rules...)) {
			t.Errorf("%s: hash %q", name, h)
		}
		if other, ok := seen[h]; ok {
			t.Errorf("%s and %s have one hash", name, other)
		}
		seen[h] = name
	}
}

// Fails when a hash changes: workers and declarations of different builds are
// compared by it.
func TestP82GatesHashIsFixed(t *testing.T) {
	if got, want := GatesHash(nil), "e3b0c44298fc1c149afbf4c8996fb924"; got != want {
		t.Errorf("no gates: %s, want %s", got, want)
	}
	got := GatesHash([]Rule{{Kind: GateLimit, Key: byTenant, Max: 2}, {Kind: GateRate, Key: byTenant, Interval: Second, Burst: 5}})
	if want := "e68fbe7616d558a67374050d435a8854"; got != want {
		t.Errorf("both gates: %s, want %s", got, want)
	}
}

// Fails when a run's home isn't the key of its Limit, else of its Rate, else the
// ungated queue; or its Rate is taken for remote when both keys are one (R4).
func TestP14R4HomeAndRemote(t *testing.T) {
	limit, rate := Gate{Kind: GateLimit, Key: "a", Max: 1}, Gate{Kind: GateRate, Key: "a", Interval: 1, Burst: 1}
	other := Gate{Kind: GateRate, Key: "", Interval: 1, Burst: 1}
	for name, c := range map[string]struct {
		gates  []Gate
		home   KeyID
		remote bool
	}{
		"none":      {nil, KeyID{Workflow: "w", Kind: KeyUngated}, false},
		"unknown":   {nil, KeyID{Workflow: "w", Kind: KeyUnknown}, false},
		"limit":     {[]Gate{limit}, KeyID{Workflow: "w", Value: "a"}, false},
		"rate":      {[]Gate{rate}, KeyID{Workflow: "w", Value: "a"}, false},
		"rate \"\"": {[]Gate{other}, KeyID{Workflow: "w"}, false},
		"one key":   {[]Gate{limit, rate}, KeyID{Workflow: "w", Value: "a"}, false},
		"two keys":  {[]Gate{limit, other}, KeyID{Workflow: "w", Value: "a"}, true},
	} {
		s := &Stamp{Gates: c.gates, Unknown: name == "unknown"}
		if got := s.Home("w"); got != c.home {
			t.Errorf("%s: home %+v, want %+v", name, got, c.home)
		}
		remote, ok := s.Remote("w")
		if ok != c.remote || (ok && remote != KeyID{Workflow: "w", Value: other.Key}) {
			t.Errorf("%s: remote %+v %t", name, remote, ok)
		}
	}
}

// Fails when a key whose value looks like the ungated queue meets it (S99).
func TestS99UngatedIsAKindNotAValue(t *testing.T) {
	ungated, unknown := (&Stamp{}).Home("w"), (&Stamp{Unknown: true}).Home("w")
	for _, value := range []string{"", "*", ":", " (no gate)", " (unknown gates)"} {
		if k := (KeyID{Workflow: "w", Value: value}); k == ungated || k == unknown || k.String() == ungated.String() {
			t.Errorf("key %q is a queue without gates", value)
		}
	}
	if ungated == unknown || ungated.String() == unknown.String() {
		t.Error("no gates and unknown gates share a queue")
	}
}

// Fails when Equal overlooks a field, so that a run is judged by another's stamp, or
// can't compare with no stamp at all.
func TestStampEqualSeesEveryField(t *testing.T) {
	alike := func() *Stamp { return full().Stamp }
	if !alike().Equal(alike()) || !(*Stamp)(nil).Equal(nil) || alike().Equal(nil) || (*Stamp)(nil).Equal(alike()) {
		t.Error("equal stamps aren't, or others are")
	}
	for _, part := range []func(*Stamp) reflect.Value{
		func(s *Stamp) reflect.Value { return reflect.ValueOf(s).Elem() },
		func(s *Stamp) reflect.Value { return reflect.ValueOf(&s.Gates[0]).Elem() },
		func(s *Stamp) reflect.Value { return reflect.ValueOf(&s.Gates[1]).Elem() },
	} {
		for i := range part(alike()).NumField() {
			other := alike()
			f := part(other).Field(i)
			switch f.Kind() {
			case reflect.String:
				f.SetString(f.String() + "x")
			case reflect.Bool:
				f.SetBool(!f.Bool())
			case reflect.Slice:
				f.SetLen(f.Len() - 1)
			case reflect.Uint8:
				f.SetUint(f.Uint() + 1)
			default:
				f.SetInt(f.Int() + 1)
			}
			if alike().Equal(other) || other.Equal(alike()) {
				t.Errorf("%s isn't compared", part(other).Type().Field(i).Name)
			}
		}
	}
}

// Fails when an error loses its family or its field in a list.
func TestFieldErrorNamesItsPlace(t *testing.T) {
	err := At("runs[3].", Limit{Key: byTenant}.Validate("limit"))
	want := "configuration error: runs[3].limit.max must be an integer from 1 to 1000000000"
	if err == nil || err.Error() != want || !errors.Is(err, ErrConfiguration) || errors.Is(err, ErrInvalid) {
		t.Errorf("error %v, want %s", err, want)
	}
	if err := At("runs[3].", ErrOverloaded); err != ErrOverloaded { //nolint:errorlint // the very value passes
		t.Errorf("another error became %v", err)
	}
	if err := At("x", nil); err != nil {
		t.Errorf("no error became %v", err)
	}
	if err := Invalid("f", "must be"); !errors.Is(err, ErrInvalid) || errors.Is(err, ErrConfiguration) {
		t.Errorf("error %v", err)
	}
}
