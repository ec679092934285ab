package transport_test

import (
	"context"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// listSpy keeps the last query of a list.
type listSpy struct {
	*fakeNode
	last wire.ListQuery
}

func (s *listSpy) List(ctx context.Context, q wire.ListQuery) (wire.RunList, error) {
	s.last = q
	return s.fakeNode.List(ctx, q)
}
