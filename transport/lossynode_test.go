package transport_test

import (
	"context"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/transport"
)

// lossyNode forgets the answers of a list.
type lossyNode struct{ *fakeNode }

func (lossyNode) Submit(context.Context, []wire.Submit) ([]wire.Submitted, []error) {
	return nil, nil
}

func (lossyNode) Complete(context.Context, []wire.Completion) ([]wire.CompleteResult, []error) {
	return nil, nil
}

func (lossyNode) Trigger(context.Context, string, *string, []wire.TriggerEvent) ([]wire.Triggered, []error) {
	return nil, nil
}

func configOf(n transport.Node) transport.Config { return transport.Config{Node: n} }
