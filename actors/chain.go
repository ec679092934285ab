package actors

import (
	"context"
	"errors"
	"fmt"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/runactor"
)

// A request to a run that was handed on is meant for the last of its successors (P32). A
// successor in another shard may still be on its way there when somebody asks for it: the
// letter that makes it is durable, so who asks waits for it.
const (
	arrivalFirst = 1 * flow.Millisecond
	arrivalMost  = 64 * flow.Millisecond
)

// arrival paces the questions for a successor that is on its way.
type arrival struct{ wait flow.Span }

// pause waits a moment. Error: that of ctx, which is bounded.
func (a *arrival) pause(ctx context.Context, c Clock) error {
	a.wait = min(max(2*a.wait, arrivalFirst), arrivalMost)
	return sleep(ctx, c, a.wait)
}

// askChain is askRun for what follows the chain of hand-ons to its end.
func (n *Node) askChain(ctx context.Context, in flow.Input) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var on arrival
	followed := false
	for {
		a, err := n.askRun(ctx, in)
		switch {
		case err == nil && !a.next.IsZero():
			in.Run, on, followed = a.next, arrival{}, !a.old
		case followed && errors.Is(err, flow.ErrUnknownRun):
			if on.pause(ctx, n.cfg.Clock) != nil {
				return a, fmt.Errorf("successor %s is on its way: %w", in.Run, flow.ErrNotReady)
			}
		default:
			return a, err
		}
	}
}

// view is a run as a reader sees it; of one that was handed on the last successor, with
// the id that was asked for (P81).
func (n *Node) view(ctx context.Context, id flow.RunID) (look, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var on arrival
	asked, followed := id, false
	for {
		l, err := n.viewOne(ctx, id)
		switch {
		case err == nil && l.Status == flow.StatusContinued:
			id, on, followed = l.ContinuedTo, arrival{}, !l.old
		case followed && errors.Is(err, flow.ErrUnknownRun):
			if on.pause(ctx, n.cfg.Clock) != nil {
				return l, fmt.Errorf("successor %s is on its way: %w", id, flow.ErrNotReady)
			}
		case err == nil && l.ID != asked:
			l.asked = asked
			return l, nil
		default:
			return l, err
		}
	}
}

// Signal gives a run a signal to keep until a wait gets it. Errors: flow.ErrUnknownRun,
// flow.ErrRunEnded, flow.ErrHistoryTooLarge.
func (n *Node) Signal(ctx context.Context, id flow.RunID, r wire.SignalRequest) (wire.Signalled, error) {
	a, err := n.askChain(ctx, flow.Input{Kind: flow.InSignal, Fields: flow.Fields{
		Run: id, Name: r.Name, Payload: r.Payload, RequestID: r.RequestID,
	}})
	if err != nil {
		return wire.Signalled{}, err
	}
	return wire.Signalled{
		RunID: a.run.String(), Status: statusOf(a), Number: int64(a.number), Created: !a.flags.Has(flow.FlagRepeat),
	}, nil
}

// Retry makes a new run with the workflow and the parameters of an ended one, stamped
// anew by name (P65). Errors: flow.ErrUnknownRun, flow.ErrRunNotEnded, and
// flow.ErrConfiguration for a function key (P20).
func (n *Node) Retry(ctx context.Context, id flow.RunID, r wire.Retry) (wire.Submitted, error) {
	if err := errors.Join(n.takesNewWork(), n.roomForRuns(1)); err != nil {
		return wire.Submitted{}, err
	}
	l, err := n.view(ctx, id)
	if err != nil {
		return wire.Submitted{}, err
	}
	if !l.Status.Ended() {
		return wire.Submitted{}, fmt.Errorf("run %s is %s: %w", l.ID, l.Status, flow.ErrRunNotEnded)
	}
	in, err := n.newRun(&wire.Submit{Workflow: l.Workflow, Params: l.Params, RequestID: r.RequestID})
	if err != nil {
		return wire.Submitted{}, err
	}
	in.Trigger, in.Origin = runactor.TriggerRetry, l.ID.String()
	a, err := n.submitRun(ctx, in)
	if err != nil {
		return wire.Submitted{}, err
	}
	return n.submitted(ctx, &a), nil
}
