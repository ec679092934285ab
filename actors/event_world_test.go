package actors_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// Declarations of the workflow "sync" that is made of events; a lease of 10 s.
const (
	collect3  = `{"version":"1","trigger":{"collect":{"key":"k","max_events":3,"window_seconds":5}},"lease_seconds":10}`
	collect10 = `{"version":"1","trigger":{"collect":{"key":"k","max_events":10,"window_seconds":5}},"lease_seconds":10}`
	// collectMany is never full in a test that doesn't want it.
	collectMany = `{"version":"1","trigger":{"collect":{"key":"k","max_events":10000,"window_seconds":5}},"lease_seconds":10}`
	debounce5   = `{"version":"1","trigger":{"debounce":{"key":"k","window_seconds":5}},"lease_seconds":10}`
)

// reply is what a request of events was answered.
type reply struct {
	runs []string // of each event, "" for null
	errs []error
}

// numbered is an event of a key with a number that tells it from others.
func numbered(key string, n int) wire.TriggerEvent {
	return wire.TriggerEvent{Body: json.RawMessage(fmt.Sprintf(`{"k":%q,"n":%d}`, key, n))}
}

// named is numbered with an id of its own.
func named(key string, n int, id string) wire.TriggerEvent {
	e := numbered(key, n)
	e.ID = id
	return e
}

// burst are numbered events of one key, from a number on.
func burst(key string, from, count int) []wire.TriggerEvent {
	out := make([]wire.TriggerEvent, count)
	for i := range out {
		out[i] = numbered(key, from+i)
	}
	return out
}

// triggering sends events of a workflow and doesn't wait.
func (w *world) triggering(workflow string, events ...wire.TriggerEvent) *call[reply] {
	return w.triggeringBy(workflow, nil, events...)
}

// triggeringBy is triggering with the key that a caller has computed.
func (w *world) triggeringBy(workflow string, key *string, events ...wire.TriggerEvent) *call[reply] {
	life, n := w.life, w.Node
	return begin(func() (reply, error) {
		out, errs := n.Trigger(life, workflow, key, events)
		r := reply{errs: errs, runs: make([]string, len(out))}
		for i := range out {
			if out[i].RunID != nil {
				r.runs[i] = *out[i].RunID
			}
		}
		return r, nil
	})
}

// trigger sends events that are all taken, and returns the runs that they were answered.
func (w *world) trigger(workflow string, events ...wire.TriggerEvent) []string {
	w.Helper()
	r := await(w, w.triggering(workflow, events...))
	if err := errors.Join(r.errs...); err != nil {
		w.Fatal(err)
	}
	return r.runs
}

// untriggered fails unless an event is refused for want, and returns why.
func (w *world) untriggered(workflow string, key *string, e wire.TriggerEvent, want error) error {
	w.Helper()
	r := await(w, w.triggeringBy(workflow, key, e))
	if !errors.Is(r.errs[0], want) || r.runs[0] != "" {
		w.Errorf("event %s of %q is answered %q and %v, want %v", e.Body, workflow, r.runs[0], r.errs[0], want)
	}
	return r.errs[0]
}

// fieldOf is the field that an error names.
func fieldOf(err error) string {
	var f *flow.FieldError
	if !errors.As(err, &f) {
		return ""
	}
	return f.Field
}

// cut is a batch that became a run, as the log tells it.
type cut struct {
	run     flow.RunID
	key     string
	at      time.Time // shard time
	count   int
	version string
	unknown bool
}

// cuts are the batches of a workflow that became runs, in the order of each shard.
func (w *world) cuts(workflow string) []cut {
	w.Helper()
	var out []cut
	for s := range w.shards {
		all, _ := w.entries(shardID(s))
		for i := range all {
			for _, r := range all[i].records {
				if r.Kind == flow.RecBatchCut && r.Key.Workflow == workflow {
					out = append(out, cut{
						run: r.Run, key: r.Key.Value, at: time.Unix(0, all[i].Wall).UTC(), count: int(r.Number),
						version: r.Stamp.Version, unknown: r.Stamp.Unknown,
					})
				}
			}
		}
	}
	return out
}

// batchParams are the params of a run that was made of a batch.
type batchParams struct {
	Key    string            `json:"key"`
	Events []json.RawMessage `json:"events"`
	Count  int               `json:"count"`
}

// params are the params of a run, wherever it is.
func (w *world) params(id flow.RunID) string {
	w.Helper()
	return string(await(w, begin(func() ([]byte, error) { return actors.Params(w.life, w.Node, id) })))
}

// numbers are the numbers of the events of a batch's params, which must be lawful: of one
// key, an object of three fields, and as many events as it counts (P36).
func (w *world) numbers(params string) (key string, list []int) {
	w.Helper()
	dec := json.NewDecoder(strings.NewReader(params))
	dec.DisallowUnknownFields()
	var p batchParams
	if err := dec.Decode(&p); err != nil || p.Count != len(p.Events) || p.Count == 0 {
		w.Fatalf("the params of a batch: %v: %s", err, params)
	}
	for _, raw := range p.Events {
		var e struct{ N int }
		if err := json.Unmarshal(raw, &e); err != nil {
			w.Fatal(err)
		}
		list = append(list, e.N)
	}
	return p.Key, list
}

// madeOf fails unless a run was made of exactly these events.
func (w *world) madeOf(run, key string, want ...int) {
	w.Helper()
	if run == "" {
		w.Fatal("no run")
	}
	got, list := w.numbers(w.params(w.id(run)))
	if got != key || !slices.Equal(list, want) {
		w.Errorf("run %s of key %q has the events %v, want key %q and %v", run, got, list, key, want)
	}
}

// batchOf are the numbers of the events in a key's open batch; nil when there is none.
func (w *world) batchOf(workflow, key string) []int {
	w.Helper()
	for _, b := range w.openBatches() {
		if b.Key.Workflow == workflow && b.Key.Value == key {
			_, list := w.numbers(b.Params)
			return list
		}
	}
	return nil
}

func (w *world) openBatches() []actors.OpenBatch {
	w.Helper()
	return await(w, begin(func() ([]actors.OpenBatch, error) { return actors.OpenBatches(w.life, w.Node) }))
}

// lives lets time pass while a worker of a version is heard of each 10 s.
func (w *world) lives(workflow, version string, d time.Duration) {
	w.Helper()
	for d > 0 {
		w.keptAlive(workflow, version)
		step := min(d, 10*time.Second)
		w.pass(step)
		d -= step
	}
}

// cutAt fails unless the batches of a workflow became runs at these times since from,
// each to the millisecond and none early.
func (w *world) cutAt(workflow string, from time.Time, want ...time.Duration) []cut {
	w.Helper()
	all := w.cuts(workflow)
	slices.SortStableFunc(all, func(a, b cut) int { return a.at.Compare(b.at) })
	ok := len(all) == len(want)
	var got []time.Duration
	for i := range all {
		at := all[i].at.Sub(from)
		got = append(got, at)
		ok = ok && at >= want[i] && at <= want[i]+time.Millisecond
	}
	if !ok {
		w.Fatalf("batches became runs at %s, want %s", got, want)
	}
	return all
}
