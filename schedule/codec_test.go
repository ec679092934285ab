package schedule

import (
	"encoding/hex"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pyrula/pyrula-node/flow"
)

func definitions() []*Definition {
	return []*Definition{
		{Workflow: "sync", Params: []byte(`{"a":1}`), Spec: cronIn("Europe/Sofia", "0 3 * * *"), CatchUp: CatchUpOne},
		{Workflow: "sync", Params: []byte(`{}`), Spec: Spec{Every: flow.Second, Start: 5}, CatchUp: CatchUpNone, Paused: true},
		{Workflow: "w", Params: []byte(`{}`), Spec: Spec{At: lastInstant}, CatchUp: CatchUpAll},
	}
}

// Fails when a definition doesn't come back from its bytes, or when two that differ are
// the same.
func TestDefinitionsInBytes(t *testing.T) {
	all := definitions()
	for i, d := range all {
		got, err := Decode(d.Encode())
		if diff := cmp.Diff(d, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		for j, o := range all {
			if d.Same(o) != (i == j) {
				t.Errorf("%+v and %+v", d, o)
			}
		}
		for _, change := range []func(*Definition){
			func(d *Definition) { d.Workflow = "x" }, func(d *Definition) { d.Params = []byte(`{"b":1}`) },
			func(d *Definition) { d.Spec.Start++ }, func(d *Definition) { d.CatchUp = d.CatchUp%3 + 1 },
			func(d *Definition) { d.Paused = !d.Paused },
		} {
			other := *d
			if change(&other); d.Same(&other) {
				t.Errorf("%+v and %+v are the same", d, other)
			}
		}
	}
	const golden = "9a01a473796e63c4077b2261223a317da930203320" + "2a202a202aac4575726f70652f536f66696100000001c2"
	if got := hex.EncodeToString(all[0].Encode()); got != golden {
		t.Errorf("the bytes are %s, journals have %s", got, golden)
	}
}

// Fails when damage is read as a definition.
func TestDamagedDefinitions(t *testing.T) {
	whole := definitions()[0].Encode()
	for i := range whole {
		if d, err := Decode(whole[:i]); !errors.Is(err, ErrCodec) {
			t.Errorf("%d of %d bytes are %+v, %v", i, len(whole), d, err)
		}
	}
	for name, b := range map[string][]byte{
		"more": append(slices.Clip(whole), 0), "another version": append([]byte{whole[0], 2}, whole[2:]...),
	} {
		if d, err := Decode(b); !errors.Is(err, ErrCodec) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, d := range definitions() {
		f.Add(d.Encode())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := Decode(b)
		if err != nil {
			return
		}
		if again, err := Decode(d.Encode()); err != nil || !d.Same(again) {
			t.Errorf("%+v becomes %+v, %v", d, again, err)
		}
	})
}

// Fails when a policy has another name than the wire says.
func TestCatchUpNames(t *testing.T) {
	for _, name := range []string{"one", "none", "all"} {
		if c, err := ParseCatchUp(name); err != nil || c.String() != name {
			t.Errorf("%s is read as %s, %v", name, c, err)
		}
	}
	if c, err := ParseCatchUp(""); err != nil || c != CatchUpOne {
		t.Errorf("the default is %s, %v", c, err)
	}
	if _, err := ParseCatchUp("some"); !errors.Is(err, flow.ErrInvalid) {
		t.Errorf("some is taken: %v", err)
	}
}
