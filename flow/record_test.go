package flow

import (
	"strings"
	"testing"
)

// Fails when a kind that was added has no name of its own: logs and dumps show
// names, and the codec knows a kind by it.
func TestKindsHaveNamesOfTheirOwn(t *testing.T) {
	names := map[string]bool{}
	for k := range 256 {
		if n := RecordKind(k).String(); RecordKind(k).Known() == strings.HasPrefix(n, "kind(") || names["record "+n] {
			t.Errorf("record kind %d is called %q", k, n)
		} else {
			names["record "+n] = true
		}
		if n := InputKind(k).String(); names["input "+n] {
			t.Errorf("input kind %d is called %q", k, n)
		} else {
			names["input "+n] = true
		}
	}
	for name, kinds := range map[string][2]int{"run": {1, 23}, "key": {32, 38}, "batch": {40, 43}, "shard": {64, 73}, "search": {76, 77}, "volatile": {128, 128}} {
		for k := kinds[0]; k <= kinds[1]; k++ {
			if !RecordKind(k).Known() {
				t.Errorf("record kind %d of a %s isn't known", k, name)
			}
		}
	}
	for name, kinds := range map[string][2]InputKind{
		"run": {InSubmit, InChainOver}, "key": {InOffer, InBatchTick}, "host": {InCreate, InCreate}, "part": {InStep, InState},
	} {
		for k := kinds[0]; k <= kinds[1]; k++ {
			if strings.HasPrefix(k.String(), "kind(") {
				t.Errorf("input kind %d of a %s has no name", k, name)
			}
		}
	}
	if EffGrant.String() != "grant" || EffAnswer.String() != "answer" || EffSend.String() != "send" || EffectKind(9).String() != "kind(9)" {
		t.Error("an effect has no name")
	}
	if GateLimit.String() != "limit" || GateRate.String() != "rate" || GateKind(0).String() != "gate(0)" {
		t.Error("a gate has no name")
	}
}

// Fails when a status doesn't come back from its name, or a status is over that
// isn't.
func TestStatusNames(t *testing.T) {
	want := []string{"queued", "executing", "suspended", "completed", "failed", "cancelled", "terminated", "continued"}
	for i, name := range want {
		s := Status(i + 1)
		if got, ok := ParseStatus(name); s.String() != name || !ok || got != s || s.Ended() != (i >= 3) {
			t.Errorf("status %d is %q, from its name %d %t, ended %t", s, s, got, ok, s.Ended())
		}
	}
	for _, name := range []string{"", "Queued", "status(0)", "status(9)"} {
		if s, ok := ParseStatus(name); ok {
			t.Errorf("%q is status %d", name, s)
		}
	}
	if Status(0).Ended() || Status(0).String() != "status(0)" || Status(200).String() == "" {
		t.Error("no status is one")
	}
}

// Fails when an Out keeps anything over a Reset but its memory, or a letter loses
// what it carries.
func TestOutIsReused(t *testing.T) {
	var out Out
	out.Record(RecWoken, 5).Payload = []byte("x")
	send := out.Send(InToken)
	send.Fence, send.Key = 7, KeyID{Workflow: "w"}
	if in := out.Effects[0].Letter(); in.Kind != InToken || in.Fence != 7 || in.Key.Workflow != "w" {
		t.Errorf("the letter is %+v", in)
	}
	if r := out.Records[0]; r.Kind != RecWoken || r.At != 5 {
		t.Errorf("the record is %+v", r)
	}
	out.Err = ErrStaleFence
	out.Reset()
	if len(out.Records)+len(out.Effects) != 0 || out.Err != nil || cap(out.Records) == 0 || cap(out.Effects) == 0 {
		t.Errorf("after a reset it is %+v", out)
	}
	if out.Records[:1][0].Payload != nil {
		t.Error("a reset keeps a payload alive")
	}
}

// Fails when Has is true for some of the flags instead of all.
func TestFlagsHasAll(t *testing.T) {
	f := FlagOK | FlagCancel
	if !f.Has(FlagOK) || !f.Has(f) || f.Has(FlagOK|FlagRepeat) || !f.Has(0) {
		t.Error("Has is wrong")
	}
}
