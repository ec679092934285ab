package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// Claim waits up to the claim's wait for runs that the worker may execute. A claim
// whose ctx ends is withdrawn, and what was granted meanwhile is handed back.
func (n *Node) Claim(ctx context.Context, c wire.Claim) (wire.Claimed, error) {
	out := wire.Claimed{Runs: []wire.Grant{}}
	if err := n.takesNewWork(); err != nil {
		return out, err
	}
	if !n.allHeard() {
		return out, fmt.Errorf("the dispatcher does not know every shard yet: %w", flow.ErrNotReady)
	}
	serves := make([]*flow.Definition, 0, len(c.Workflows))
	for i, w := range c.Workflows {
		def, err := n.registry.find(w.Name, w.Version, w.GatesHash)
		if err != nil {
			return out, flow.At(fmt.Sprintf("workflows[%d].", i), err)
		}
		serves = append(serves, def)
	}
	if len(serves) == 0 {
		return out, nil
	}
	if c.Credit <= 0 {
		c.Credit, c.WaitMS = 0, 0 // the worker lives and takes nothing
	}
	wait, over, err := n.waitForOldLeases(ctx, flow.Span(c.WaitMS)*flow.Millisecond)
	if !over {
		return out, err
	}
	q := n.asks.open(1)
	n.dispatcher.box.tell(&claimMsg{
		ask: q.id, worker: c.Worker, serves: serves, credit: c.Credit,
		wait: wait, plain: c.Plain,
	})
	select {
	case <-q.done:
	case <-ctx.Done():
		n.dispatcher.box.tell(unclaimMsg{q.id})
		n.handAllBack(n.await(context.WithoutCancel(ctx), q)[0])
		return out, ctx.Err()
	}
	a := q.wait(ctx)[0]
	if ctx.Err() != nil { // it left in the moment of the answer
		n.handAllBack(a)
		return out, ctx.Err()
	}
	if a.err != nil {
		return out, a.err
	}
	got := a.value.(claimed)
	for i := range got.candidates {
		out.Resolve = append(out.Resolve, candidateOf(&got.candidates[i]))
	}
	bytes := 0
	for _, g := range got.grants {
		if bytes += g.size(); bytes > maxClaimBytes && len(out.Runs) > 0 {
			n.handBack(g) // the next claim gets it, without another token
			continue
		}
		out.Runs = append(out.Runs, grantOf(g))
	}
	return out, nil
}

// maxClaimBytes bounds the params in one answer; a single run may be larger.
const maxClaimBytes = 8 << 20

// handAllBack returns what a claim was granted in the moment its asker left.
func (n *Node) handAllBack(a answer) {
	got, ok := a.value.(claimed)
	if !ok {
		return
	}
	for _, g := range got.grants {
		n.handBack(g)
	}
}

func candidateOf(c *Candidate) wire.Candidate {
	return wire.Candidate{
		RunID: c.Run.String(), Workflow: c.Def.Workflow, Version: c.Def.Version, GatesHash: c.Def.GatesHash, Params: c.Params,
	}
}

// size is about what a grant takes in an answer.
func (g *Grant) size() int {
	n := len(g.Params) + len(g.State)
	for i := range g.Signals {
		n += len(g.Signals[i].Payload)
	}
	return n + g.History.size()
}

func grantOf(g *Grant) wire.Grant {
	h := historyOf(g.History)
	w := wire.Grant{
		RunID: g.Run.String(), Workflow: g.Workflow, Version: g.Version, Key: g.Key,
		Params: g.Params, Attempt: g.Attempt, Fence: g.Fence, LeaseSeconds: wire.Seconds(g.Lease),
		Steps: h.Steps, Signals: signalsOf(g.Signals), Waits: h.Waits, Children: h.Children, HistoryNext: h.Next,
		State: json.RawMessage("{}"), CancelRequested: g.Cancelled,
	}
	if len(g.State) > 0 {
		w.State = g.State
	}
	return w
}

// Heartbeat renews leases. A run that the worker doesn't hold is answered without
// OK; that is no error. The worker counts as alive for what it is known to serve, and for
// the workflows of the runs that it has renewed (R16).
func (n *Node) Heartbeat(ctx context.Context, h wire.Heartbeat) (wire.HeartbeatResult, error) {
	out := wire.HeartbeatResult{Runs: make([]wire.BeatResult, len(h.Runs))}
	if err := n.serving(); err != nil {
		return out, err
	}
	q := n.asks.open(len(h.Runs))
	sent := make([]flow.Input, len(h.Runs))
	for i, b := range h.Runs {
		out.Runs[i].RunID = b.RunID
		id, err := flow.ParseRunID(b.RunID)
		if err != nil {
			q.put(answer{item: i, err: flow.ErrUnknownRun})
			continue
		}
		sent[i] = flow.Input{Kind: flow.InHeartbeat, Fields: flow.Fields{Run: id, Fence: b.Fence}}
		n.shards[n.shardOf(id.Partition())].box.tell(&command{in: sent[i], ask: q.id, item: i})
	}
	n.dispatcher.box.tell(seenMsg{h.Worker})
	var unknown error
	var serves []*flow.Definition
	for i, a := range n.await(ctx, q) {
		a = n.afterwards(&sent[i], a)
		if a.err != nil && !errors.Is(a.err, flow.ErrUnknownRun) {
			unknown = a.err
		}
		out.Runs[i].OK = a.err == nil && a.flags.Has(flow.FlagOK)
		out.Runs[i].CancelRequested = a.flags.Has(flow.FlagCancel)
		if out.Runs[i].OK {
			serves = n.servesToo(serves, a.value)
		}
	}
	if len(serves) > 0 && n.oldLeases() == 0 { // until then a run that seems to wait may have started (R18)
		n.dispatcher.box.tell(renewedMsg{h.Worker, serves})
	}
	return out, unknown
}

// Complete ends runs with results, each on its own.
func (n *Node) Complete(ctx context.Context, runs []wire.Completion) ([]wire.CompleteResult, []error) {
	out, errs := make([]wire.CompleteResult, len(runs)), make([]error, len(runs))
	sent := make([]flow.Input, len(runs))
	refused := n.serving()
	q := n.asks.open(len(runs))
	for i := range runs {
		out[i].RunID = runs[i].RunID
		in, err := completion(&runs[i])
		if refused != nil {
			err = refused
		}
		if err != nil {
			q.put(answer{item: i, err: err})
			continue
		}
		sent[i] = in
		n.shards[n.shardOf(in.Run.Partition())].box.tell(&command{in: in, ask: q.id, item: i})
	}
	for i, a := range n.await(ctx, q) {
		a = n.afterwards(&sent[i], a)
		if errs[i] = a.err; a.err == nil {
			out[i].Status = statusOf(a)
		}
	}
	return out, errs
}

func completion(c *wire.Completion) (flow.Input, error) {
	id, err := flow.ParseRunID(c.RunID)
	if err != nil {
		return flow.Input{}, fmt.Errorf("%w: %w", flow.ErrUnknownRun, err)
	}
	result := []byte(c.Result)
	if len(result) == 0 {
		result = []byte("null")
	}
	if len(result) > flow.MaxPayloadBytes {
		return flow.Input{}, flow.Invalid("result", fmt.Sprintf("must be at most %d bytes", flow.MaxPayloadBytes))
	}
	return flow.Input{Kind: flow.InComplete, Fields: flow.Fields{Run: id, Fence: c.Fence, Payload: result}}, nil
}

func statusOf(a answer) string {
	s, ok := a.value.(flow.Status)
	if !ok {
		return ""
	}
	return s.String()
}

// Fail reports a failed attempt.
func (n *Node) Fail(ctx context.Context, id flow.RunID, f wire.Fail) (wire.Ended, error) {
	switch {
	case len(f.Error.Type) > flow.MaxErrorTypeBytes:
		return wire.Ended{}, flow.Invalid("error.type", fmt.Sprintf("must be at most %d bytes", flow.MaxErrorTypeBytes))
	case len(f.Error.Message) > flow.MaxErrorMessageBytes:
		return wire.Ended{}, flow.Invalid("error.message", fmt.Sprintf("must be at most %d bytes", flow.MaxErrorMessageBytes))
	}
	in := flow.Input{Kind: flow.InFail, Fields: flow.Fields{
		Run: id, Fence: f.Fence, ErrType: f.Error.Type, ErrText: f.Error.Message,
	}}
	if f.Retryable {
		in.Flags |= flow.FlagRetryable
	}
	return n.end(ctx, in)
}

// Suspend gives a run back until a moment, a signal, or the end of other runs. A moment
// that has passed hands it back at once.
func (n *Node) Suspend(ctx context.Context, id flow.RunID, s wire.Suspend) (wire.Ended, error) {
	in := flow.Input{Kind: flow.InSuspend, Fields: flow.Fields{Run: id, Fence: s.Fence, Name: s.Step, Visit: s.Visit}}
	if err := until(&s.Until, &in); err != nil {
		return wire.Ended{}, err
	}
	return n.end(ctx, in)
}

// until fills in what a suspension waits for.
func until(u *wire.Until, in *flow.Input) error {
	switch {
	case u.Signal != "":
		in.Flags, in.Name = flow.FlagSignal, u.Signal
		if u.TimeoutSeconds != nil {
			in.Interval = max(flow.Span(*u.TimeoutSeconds*float64(flow.Second)), 1)
		}
	case len(u.Runs) > 0:
		ids := make([]flow.RunID, len(u.Runs))
		for i, text := range u.Runs {
			id, err := flow.ParseRunID(text)
			if err != nil {
				return flow.Invalid(fmt.Sprintf("until.runs[%d]", i), "must be a run id")
			}
			if id == in.Run {
				return flow.Invalid(fmt.Sprintf("until.runs[%d]", i), "must be another run: this one would wait for itself")
			}
			ids[i] = id
		}
		in.Flags, in.Extra = flow.FlagRuns, flow.EncodeRunIDs(ids)
	case u.AtMS != nil:
		in.Flags, in.Until = flow.FlagAbsolute, max(flow.InstantOfMillis(*u.AtMS), 1)
		if in.Until == flow.MaxInstant {
			return flow.Invalid("until.at_ms", "must be a moment before the year 2262")
		}
		if in.Name != "" {
			in.Flags |= flow.FlagRecorded
		}
	default:
		return flow.Invalid("until.at_ms", "is required, unless signal or runs is given")
	}
	return nil
}

func (n *Node) end(ctx context.Context, in flow.Input) (wire.Ended, error) {
	a, err := n.askRun(ctx, in)
	if err != nil {
		return wire.Ended{}, err
	}
	return wire.Ended{RunID: in.Run.String(), Status: statusOf(a)}, nil
}

// Cancel asks for a run's end; the answer says where it stands.
func (n *Node) Cancel(ctx context.Context, id flow.RunID, reason string) (wire.Stopped, error) {
	return n.stop(ctx, flow.InCancel, id, reason)
}

// Terminate ends a run at once.
func (n *Node) Terminate(ctx context.Context, id flow.RunID, reason string) (wire.Stopped, error) {
	return n.stop(ctx, flow.InTerminate, id, reason)
}

func (n *Node) stop(ctx context.Context, kind flow.InputKind, id flow.RunID, reason string) (wire.Stopped, error) {
	if len(reason) > flow.MaxReasonBytes {
		return wire.Stopped{}, flow.Invalid("reason", fmt.Sprintf("must be at most %d bytes", flow.MaxReasonBytes))
	}
	a, err := n.askChain(ctx, flow.Input{Kind: kind, Fields: flow.Fields{Run: id, Reason: reason}})
	if err != nil {
		return wire.Stopped{}, err
	}
	return wire.Stopped{RunID: a.run.String(), Status: statusOf(a), Changed: !a.flags.Has(flow.FlagRepeat)}, nil
}
