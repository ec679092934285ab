package actors

import (
	"context"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// Declare takes a declaration and answers when it is durable and in this node's
// cache (R17).
func (n *Node) Declare(ctx context.Context, name string, d wire.Declaration) (wire.Declared, error) {
	def, err := d.Definition(name)
	if err != nil {
		return wire.Declared{}, err
	}
	if err := n.checkExpressions(def); err != nil {
		return wire.Declared{}, err
	}
	if err := n.takesNewWork(); err != nil {
		return wire.Declared{}, err
	}
	q := n.asks.open(1)
	n.shards[0].box.tell(&declareMsg{def: def, ask: q.id})
	a := n.await(ctx, q)[0]
	if a.err != nil {
		return wire.Declared{}, a.err
	}
	v := a.value.(declared)
	return declaredOf(v.def, v.changed), nil
}

func declaredOf(d *flow.Definition, changed bool) wire.Declared {
	return wire.Declared{
		Workflow: d.Workflow, Version: d.Version, VersionRank: d.Rank(),
		DefinitionHash: d.Hash, GatesHash: d.GatesHash, Changed: changed,
	}
}

// Workflows lists every workflow by name.
func (n *Node) Workflows(context.Context) (wire.WorkflowList, error) {
	out := wire.WorkflowList{Workflows: []wire.Workflow{}}
	if err := n.serving(); err != nil {
		return out, err
	}
	for _, name := range n.registry.names() {
		out.Workflows = append(out.Workflows, workflowOf(name, n.registry.list(name)))
	}
	return out, nil
}

// Workflow is one workflow with its declarations. Error: flow.ErrUnknownWorkflow.
func (n *Node) Workflow(_ context.Context, name string) (wire.Workflow, error) {
	if err := n.serving(); err != nil {
		return wire.Workflow{}, err
	}
	list := n.registry.list(name)
	if len(list) == 0 {
		return wire.Workflow{}, fmt.Errorf("workflow %q: %w", name, flow.ErrUnknownWorkflow)
	}
	return workflowOf(name, list), nil
}

func workflowOf(name string, list []*flow.Definition) wire.Workflow {
	w := wire.Workflow{Name: name, Versions: make([]wire.WorkflowVersion, 0, len(list))}
	current := currentOf(list)
	for _, d := range list {
		l, r := wire.PoliciesOf(d)
		w.Versions = append(w.Versions, wire.WorkflowVersion{
			Declared: declaredOf(d, false), Limit: l, Rate: r, Trigger: wire.TriggerOf(d.Trigger), Kafka: wire.KafkaOf(d), MaxAttempts: d.Attempts,
			RetryBackoffSeconds: wire.Seconds(d.Backoff), LeaseSeconds: wire.Seconds(d.Lease),
			DeclaredAt: d.At.Millis(), Current: d == current,
		})
	}
	return w
}

// Submit takes runs, each on its own: errs[i] says why run i was refused, and is
// nil when it is durable. Both slices have one entry for each run.
func (n *Node) Submit(ctx context.Context, runs []wire.Submit) ([]wire.Submitted, []error) {
	out, errs := make([]wire.Submitted, len(runs)), make([]error, len(runs))
	refused := n.takesNewWork()
	if refused == nil {
		refused = n.roomForRuns(len(runs))
	}
	q := n.asks.open(len(runs))
	for i := range runs {
		if errs[i] = refused; refused == nil {
			errs[i] = n.submitOne(&runs[i], command{ask: q.id, item: i, counted: true})
		}
		if errs[i] != nil {
			q.put(answer{ask: q.id, item: i, err: errs[i]})
		}
	}
	for i, a := range n.await(ctx, q) {
		if errs[i] = a.err; a.err != nil {
			continue
		}
		out[i] = n.submitted(ctx, &a)
	}
	return out, errs
}

// submitted is what a submit that was taken answers.
func (n *Node) submitted(ctx context.Context, a *answer) wire.Submitted {
	s := wire.Submitted{RunID: a.run.String(), Status: flow.StatusQueued.String(), Created: !a.flags.Has(flow.FlagRepeat)}
	if !s.Created {
		s.Status = n.statusName(ctx, a.run)
	}
	return s
}

// submitRun sends one run that is stamped already, and waits until it is durable or
// refused.
func (n *Node) submitRun(ctx context.Context, in flow.Input) (answer, error) {
	q := n.asks.open(1)
	if err := n.tell(n.submitShard(&in), &command{in: in, ask: q.id, counted: true}); err != nil {
		q.put(answer{err: err})
	}
	a := n.await(ctx, q)[0]
	return a, a.err
}

// statusName is where a run that was known already stands now; empty for one whose
// retention is over, or that can't be read.
func (n *Node) statusName(ctx context.Context, id flow.RunID) string {
	v, err := n.view(ctx, id)
	if err != nil {
		return ""
	}
	return v.Status.String()
}

// submitOne checks, stamps and sends one run.
func (n *Node) submitOne(w *wire.Submit, c command) error {
	in, err := n.newRun(w)
	if err != nil {
		return err
	}
	c.in = in
	return n.tell(n.submitShard(&in), &c)
}

// submitShard is where a submit is decided: at its idempotency key, else at its
// home.
func (n *Node) submitShard(in *flow.Input) engine.ShardID {
	if in.IdempotencyKey != "" {
		return n.shardOf(flow.TextPartition(in.IdempotencyKey))
	}
	return n.shardOf(in.Run.Partition())
}

// newRun turns a submit into the input that makes its run. The id is chosen here,
// with the partition of the run's home key (P14).
func (n *Node) newRun(w *wire.Submit) (flow.Input, error) {
	in := flow.Input{Kind: flow.InSubmit}
	if err := flow.CheckWorkflowName(w.Workflow); err != nil {
		return in, err
	}
	if len(w.Budget) > 0 && string(w.Budget) != "null" {
		return in, flow.Invalid("budget", "must be left out: this version does not serve it yet")
	}
	in.Workflow, in.Payload, in.RequestID = w.Workflow, w.Params, w.RequestID
	if len(in.Payload) == 0 || string(in.Payload) == "null" {
		in.Payload = []byte("{}")
	}
	if len(in.Payload) > flow.MaxPayloadBytes {
		return in, flow.Invalid("params", fmt.Sprintf("must be at most %d bytes", flow.MaxPayloadBytes))
	}
	if len(w.RequestID) > flow.MaxRequestIDBytes {
		return in, flow.Invalid("request_id", fmt.Sprintf("must be at most %d bytes", flow.MaxRequestIDBytes))
	}
	if err := idempotencyKey(w, &in); err != nil {
		return in, err
	}
	if err := trigger(w, &in); err != nil {
		return in, err
	}
	stamp, err := n.stamp(w, in.Payload)
	if err != nil {
		return in, err
	}
	in.Stamp = stamp
	e := n.cfg.Entropy()
	in.Run = flow.NewRunID(n.cfg.Clock.Wall(), homePartition(&in, e), e)
	return in, nil
}

// homePartition is the partition of a run's home key. An ungated run has no such
// key and goes anywhere; with a request id always to the same place, where the
// repeat is known (R10).
func homePartition(in *flow.Input, e flow.Entropy) flow.Partition {
	home := in.Stamp.Home(in.Workflow)
	switch {
	case home.Kind != flow.KeyOfValue && in.RequestID != "":
		return flow.TextPartition(in.RequestID)
	case home.Kind != flow.KeyOfValue:
		return flow.Partition(uint16(e[1])<<2 | uint16(e[0])>>6) // the bits that the id itself doesn't use
	}
	return home.Partition()
}

func idempotencyKey(w *wire.Submit, in *flow.Input) error {
	if w.IdempotencyKey == nil {
		return nil
	}
	key := strings.TrimSpace(*w.IdempotencyKey)
	if key == "" || len(key) > flow.MaxIdempotencyKeyBytes {
		return flow.Invalid("idempotency_key", fmt.Sprintf("must be 1 to %d bytes after trimming", flow.MaxIdempotencyKeyBytes))
	}
	in.IdempotencyKey = key
	return nil
}

func trigger(w *wire.Submit, in *flow.Input) error {
	switch in.Trigger = w.Trigger; w.Trigger {
	case "":
		in.Trigger = "client"
	case "client", "case", "replay", "eval":
	default:
		return flow.Invalid("trigger", `must be "client", "case", "replay" or "eval"`)
	}
	return nil
}

// stamp is the stamp of a new run: of the version that the caller names, else of
// the newest one (P16, P18); unknown when nobody has declared the workflow (P22).
func (n *Node) stamp(w *wire.Submit, params []byte) (*flow.Stamp, error) {
	keys := flow.Keys{Eval: n.evaluate}
	def := currentOf(n.registry.list(w.Workflow))
	if w.Stamp != nil {
		var err error
		if def, err = n.registry.find(w.Workflow, w.Stamp.Version, ""); err != nil {
			return nil, err
		}
		if k := w.Stamp.Keys; k != nil {
			keys.Limit, keys.Rate = k.Limit, k.Rate
		}
	}
	switch {
	case def == nil:
		return &flow.Stamp{Unknown: true}, nil
	case def.Trigger != nil && !gjson.GetBytes(params, flow.BatchKey).Exists():
		// An event that lost its way: the body would find no batch in it.
		return nil, flow.Invalid("params", fmt.Sprintf("must be those of a batch, with \"key\", \"events\" and \"count\": "+
			"workflow %q is made of events, which go to POST /v1/workflows/{name}/events", w.Workflow))
	}
	return def.Stamp(params, keys)
}
