package actors_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// call is a call of the node that may still be under way.
type call[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// begin starts f on a goroutine of its own.
func begin[T any](f func() (T, error)) *call[T] {
	c := &call[T]{done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.value, c.err = f()
	}()
	return c
}

// over says whether the call has returned.
func (c *call[T]) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// await commits, and lets time pass, until the call has returned.
func await[T any](w *world, c *call[T]) T {
	w.Helper()
	for w.commit(); !c.over(); w.commit() {
		select {
		case <-c.done:
		case <-time.After(5 * time.Millisecond):
		}
	}
	if c.err != nil {
		w.Fatal(c.err)
	}
	return c.value
}

// declare declares a workflow from its JSON.
func (w *world) declare(name, declaration string) wire.Declared {
	w.Helper()
	return await(w, w.declaring(name, declaration))
}

func (w *world) declaration(text string) wire.Declaration {
	var d wire.Declaration
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		w.Error(err)
	}
	return d
}

// declaring declares a workflow and doesn't wait.
func (w *world) declaring(name, declaration string) *call[wire.Declared] {
	return begin(func() (wire.Declared, error) { return w.Declare(w.life, name, w.declaration(declaration)) })
}

// submitting sends one run and doesn't wait.
func (w *world) submitting(s wire.Submit) *call[wire.Submitted] {
	return begin(func() (wire.Submitted, error) {
		out, errs := w.Submit(w.life, []wire.Submit{s})
		return out[0], errs[0]
	})
}

func submitOf(workflow, params string) wire.Submit {
	return wire.Submit{Workflow: workflow, Params: json.RawMessage(params)}
}

// submit makes one run and returns its id.
func (w *world) submit(workflow, params string) flow.RunID {
	w.Helper()
	out := await(w, w.submitting(submitOf(workflow, params)))
	return w.id(out.RunID)
}

// submitAll makes n runs of the same params in one call, in order.
func (w *world) submitAll(n int, workflow, params string) []flow.RunID {
	w.Helper()
	all := make([]wire.Submit, n)
	for i := range all {
		all[i] = submitOf(workflow, params)
	}
	out := await(w, begin(func() ([]wire.Submitted, error) {
		out, errs := w.Submit(w.life, all)
		return out, errors.Join(errs...)
	}))
	ids := make([]flow.RunID, n)
	for i := range out {
		ids[i] = w.id(out[i].RunID)
	}
	return ids
}

func (w *world) id(text string) flow.RunID {
	w.Helper()
	id, err := flow.ParseRunID(text)
	if err != nil {
		w.Fatal(err)
	}
	return id
}

// claiming sends a claim of worker w1 for one workflow and doesn't wait.
func (w *world) claiming(workflow, version string, credit int, wait time.Duration) *call[[]wire.Grant] {
	return w.claimingAs("w1", wire.Claim{
		Workflows: []wire.ClaimWorkflow{{Name: workflow, Version: version}},
		Credit:    credit, WaitMS: wait.Milliseconds(),
	})
}

// claimingAs sends a worker's claim and doesn't wait.
func (w *world) claimingAs(worker string, c wire.Claim) *call[[]wire.Grant] {
	c.Worker = worker
	return begin(func() ([]wire.Grant, error) {
		out, err := w.Claim(w.life, c)
		return out.Runs, err
	})
}

// claim claims without waiting.
func (w *world) claim(workflow, version string, credit int) []wire.Grant {
	w.Helper()
	return w.claimFor(workflow, version, credit, 0)
}

// claimFor claims and waits.
func (w *world) claimFor(workflow, version string, credit int, wait time.Duration) []wire.Grant {
	w.Helper()
	return await(w, w.claiming(workflow, version, credit, wait))
}

// claimRun claims one run and fails unless it is the one.
func (w *world) claimRun(workflow, version string, want flow.RunID) wire.Grant {
	w.Helper()
	g := w.claim(workflow, version, 1)
	if len(g) != 1 || g[0].RunID != want.String() {
		w.Fatalf("granted %s, want %s: %s", names(g), want, w.whyText(want))
	}
	return g[0]
}

// names are the ids of grants, for messages.
func names(grants []wire.Grant) string {
	ids := make([]string, len(grants))
	for i := range grants {
		ids[i] = grants[i].RunID
	}
	return fmt.Sprint(ids)
}

// completing sends a completion and doesn't wait.
func (w *world) completing(g wire.Grant) *call[string] {
	return begin(func() (string, error) {
		out, errs := w.Complete(w.life, []wire.Completion{{RunID: g.RunID, Fence: g.Fence, Result: json.RawMessage(`"done"`)}})
		return out[0].Status, errs[0]
	})
}

// complete ends a grant and returns the status.
func (w *world) complete(g wire.Grant) string {
	w.Helper()
	return await(w, w.completing(g))
}

// failing reports a failure and doesn't wait.
func (w *world) failing(g wire.Grant, retryable bool) *call[string] {
	return begin(func() (string, error) {
		id, err := flow.ParseRunID(g.RunID)
		if err != nil {
			return "", err
		}
		out, err := w.Fail(w.life, id, wire.Fail{Fence: g.Fence, Error: wire.RunError{Type: "boom"}, Retryable: retryable})
		return out.Status, err
	})
}

// suspending gives a run back until a moment and doesn't wait.
func (w *world) suspending(g wire.Grant, until flow.Instant) *call[string] {
	return begin(func() (string, error) {
		id, err := flow.ParseRunID(g.RunID)
		if err != nil {
			return "", err
		}
		out, err := w.Suspend(w.life, id, wire.Suspend{Fence: g.Fence, Until: wire.Until{AtMS: new(until.Millis())}})
		return out.Status, err
	})
}

// beating sends a heartbeat of worker w1 and doesn't wait.
func (w *world) beating(grants ...wire.Grant) *call[[]wire.BeatResult] {
	h := wire.Heartbeat{Worker: "w1"}
	for _, g := range grants {
		h.Runs = append(h.Runs, wire.Beat{RunID: g.RunID, Fence: g.Fence})
	}
	return begin(func() ([]wire.BeatResult, error) {
		out, err := w.Heartbeat(w.life, h)
		return out.Runs, err
	})
}

// beat renews the lease of one grant and returns the answer.
func (w *world) beat(g wire.Grant) wire.BeatResult {
	w.Helper()
	return await(w, w.beating(g))[0]
}

// cancelling asks for a run's end and doesn't wait.
func (w *world) cancelling(id flow.RunID) *call[string] {
	return begin(func() (string, error) {
		out, err := w.Cancel(w.life, id, "enough")
		return out.Status, err
	})
}

// cancel asks for a run's end and returns where it stands.
func (w *world) cancel(id flow.RunID) string {
	w.Helper()
	return await(w, w.cancelling(id))
}

// terminate ends a run and returns where it stands.
func (w *world) terminate(id flow.RunID) string {
	w.Helper()
	return await(w, w.terminating(id))
}

// terminating ends a run and doesn't wait.
func (w *world) terminating(id flow.RunID) *call[string] {
	return begin(func() (string, error) {
		out, err := w.Terminate(w.life, id, "enough")
		return out.Status, err
	})
}

// waitingFor reads a run after its end, or after the wait.
func (w *world) waitingFor(id flow.RunID, wait time.Duration) *call[wire.Run] {
	return begin(func() (wire.Run, error) { return w.Node.Run(w.life, id, wait) })
}

// claimAll claims all of the runs.
func (w *world) claimAll(workflow string, ids []flow.RunID) []wire.Grant {
	w.Helper()
	var all []wire.Grant
	for len(all) < len(ids) {
		g := w.claim(workflow, "1", len(ids)-len(all))
		if len(g) == 0 {
			w.Fatalf("%d of %d runs were granted", len(all), len(ids))
		}
		all = append(all, g...)
	}
	return all
}

// reading reads a run and doesn't wait.
func (w *world) reading(id flow.RunID) *call[wire.Run] {
	return begin(func() (wire.Run, error) { return w.Node.Run(w.life, id, 0) })
}

// status is the run's status object.
func (w *world) status(id flow.RunID) wire.Run {
	w.Helper()
	return await(w, w.reading(id))
}

// why says why a run waits.
func (w *world) why(id flow.RunID) wire.Why {
	w.Helper()
	return await(w, begin(func() (wire.Why, error) { return w.Why(w.life, id) }))
}

// whyText is why in one line, for messages.
func (w *world) whyText(id flow.RunID) string {
	w.Helper()
	y := w.why(id)
	return y.Status + ": " + y.Text
}

// key is a key as its endpoint shows it.
func (w *world) key(workflow, value string) wire.KeyView {
	w.Helper()
	return await(w, begin(func() (wire.KeyView, error) { return w.Key(w.life, workflow, value) }))
}

// used fails unless so many slots of a key are taken.
func (w *world) used(workflow, value string, want int64) {
	w.Helper()
	if v := w.key(workflow, value); v.Used != want {
		w.Fatalf("%s key %q: %d slots are used, want %d: %+v", workflow, value, v.Used, want, v)
	}
}

// is fails unless a run has the status.
func (w *world) is(id flow.RunID, want string) {
	w.Helper()
	if got := w.status(id).Status; got != want {
		w.Fatalf("run %s is %s, want %s", id, got, want)
	}
}

// count is the number of events of one type in a run's own journal.
func (w *world) count(id flow.RunID, event string) int {
	w.Helper()
	out := await(w, begin(func() (wire.Events, error) { return w.Events(w.life, id) }))
	n := 0
	for _, e := range out.Events {
		if e.Type == event {
			n++
		}
	}
	return n
}

// shardOf is where a key lives.
func (w *world) shardOf(workflow, value string) engine.ShardID {
	p := flow.KeyID{Workflow: workflow, Value: value}.Partition()
	return engine.ShardID(int(p) % w.shards)
}

// keyIn is a key value of a workflow that lives in the shard; prefix makes it
// another than those of other prefixes.
func (w *world) keyIn(s engine.ShardID, workflow, prefix string) string {
	for i := 0; ; i++ {
		if v := fmt.Sprintf("%s%d", prefix, i); w.shardOf(workflow, v) == s {
			return v
		}
	}
}

// entry is one entry of a shard's log, decoded.
type entry struct {
	engine.Entry
	records []flow.Record
}

// entries is the log of a shard, and how many of its entries are durable.
func (w *world) entries(s engine.ShardID) (all []entry, durable int) {
	w.Helper()
	raw, durable := w.mem.Entries(s)
	r := flow.NewReader()
	for _, e := range raw {
		if err := r.Reset(e.Body); err != nil {
			w.Fatal(err)
		}
		d := entry{Entry: e}
		for r.More() {
			var rec flow.Record
			if err := r.Record(&rec); err != nil {
				w.Fatal(err)
			}
			d.records = append(d.records, rec)
		}
		all = append(all, d)
	}
	return all, durable
}

// kinds are the kinds of an entry's records of one run; a zero run means all.
func (e *entry) kinds(run flow.RunID) []flow.RecordKind {
	var out []flow.RecordKind
	for i := range e.records {
		if run.IsZero() || e.records[i].Run == run {
			out = append(out, e.records[i].Kind)
		}
	}
	return out
}

// actorsStats keeps the lines short.
type actorsStats = actors.Stats

// lentUnits are the units of credit at the shards. At rest the claims, the shards and
// the keys agree on them.
func lentUnits(w *world) int64 {
	w.Helper()
	w.settle()
	byClaim, byShard, byKey := actors.Credit(w.Node)
	if byClaim != byShard {
		w.Errorf("claims have lent %d units, shards were lent %d", byClaim, byShard)
	}
	if byKey > byShard {
		w.Errorf("keys were lent %d units, shards %d", byKey, byShard)
	}
	return byShard
}

// replayAt is what entries of a shard make, as they stand at the present moment.
func replayAt(w *world, entries []engine.Entry) (string, error) {
	return actors.Replay(w.shards, nil, entries, w.clock.Wall())
}

// breakSlots frees the slot of a held run behind the back of its shard.
func breakSlots(w *world, id flow.RunID, fence uint64) {
	w.Helper()
	if err := actors.FreeBehindItsBack(w.Context(), w.Node, id, fence); err != nil {
		w.Fatal(err)
	}
}

// quote is a text as JSON.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// journal reads a run's own journal and doesn't wait.
func (w *world) journal(id flow.RunID) *call[wire.Events] {
	return begin(func() (wire.Events, error) { return w.Events(w.life, id) })
}

// tokens are the instants, by shard time, at which the tokens of admitted runs were
// taken, by the Rate's key and in order: what a Rate promises is counted by them (R3).
func (w *world) tokens() map[flow.KeyID][]time.Duration {
	w.Helper()
	type token struct {
		key flow.KeyID
		at  flow.Instant
	}
	given, homes, admitted := map[flow.RunID]token{}, map[flow.RunID]flow.KeyID{}, map[flow.RunID]bool{}
	for s := range engine.ShardID(w.shards) {
		all, _ := w.entries(s)
		for i := range all {
			for j := range all[i].records {
				r := &all[i].records[j]
				at := flow.Instant(all[i].Wall)
				switch taken := r.Kind == flow.RecAdmitted && r.Flags.Has(flow.FlagToken); {
				case r.Kind == flow.RecSubmitted:
					homes[r.Run] = r.Stamp.Home(r.Workflow)
				case r.Kind == flow.RecTokenGiven:
					given[r.Run] = token{r.Key, at}
				case taken && r.After != 0:
					given[r.Run], admitted[r.Run] = token{homes[r.Run], at}, true
				case taken:
					admitted[r.Run] = true
				}
			}
		}
	}
	out := map[flow.KeyID][]time.Duration{}
	for run := range admitted {
		t := given[run]
		out[t.key] = append(out[t.key], time.Duration(t.at))
	}
	for _, at := range out {
		slices.Sort(at)
	}
	return out
}

// starts are the tokens of the world's one Rate key.
func (w *world) starts() []time.Duration {
	w.Helper()
	for _, at := range w.tokens() {
		return at
	}
	return nil
}

func shardID(s int) engine.ShardID { return engine.ShardID(s) }

// countAll is the number of records of a kind in all logs.
func (w *world) countAll(k flow.RecordKind) int {
	w.Helper()
	n := 0
	for s := range engine.ShardID(w.shards) {
		all, _ := w.entries(s)
		n += countKind(all, k)
	}
	return n
}
