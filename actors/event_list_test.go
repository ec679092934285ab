package actors_test

import (
	"errors"
	"testing"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// TestP36EventIsNoParams fails when an event that was sent as the parameters of a run becomes
// one, or when a batch's parameters can't be submitted by hand.
func TestP36EventIsNoParams(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", `{"version":"1","trigger":{"collect":{"key":"k","max_events":1,"window_seconds":5}}}`)
		for _, stamp := range []*wire.Stamp{nil, {Version: "1"}} {
			for params, want := range map[string]error{`{"k":"a"}`: flow.ErrInvalid, `{}`: flow.ErrInvalid, `{"key":"a","events":[],"count":0}`: nil} {
				_, errs := w.Submit(w.life, []wire.Submit{{Workflow: "sync", Params: []byte(params), Stamp: stamp}})
				if !errors.Is(errs[0], want) {
					t.Errorf("%s: error %v, want %v", params, errs[0], want)
				}
			}
		}
	})
}

// TestP36RunsOfABatchHaveItsKey fails when a run that was made of a batch isn't found by the
// batch's key, or is granted without it, because its workflow has no gate.
func TestP36RunsOfABatchHaveItsKey(t *testing.T) {
	for name, gate := range map[string]string{"no gate": "", "limit": `"limit":{"key":"key","max":9},`} {
		t.Run(name, func(t *testing.T) {
			play(t, func(w *world) {
				w.declare("sync", `{"version":"1",`+gate+`"trigger":{"collect":{"key":"k","max_events":1,"window_seconds":5}}}`)
				for _, key := range []string{"a", "b", ""} {
					w.trigger("sync", numbered(key, 1))
					list := w.list(wire.ListQuery{Workflow: "sync", Key: &key})
					if len(list) != 1 {
						t.Fatalf("key %q has %d runs", key, len(list))
					}
					if g := w.claimRun("sync", "1", w.id(list[0].RunID)); g.Key != key {
						t.Errorf("key %q is granted as %q", key, g.Key)
					}
				}
			})
		})
	}
}
