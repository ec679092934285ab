package pyrula

import (
	"context"
	"fmt"
	"net/http"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// Declared is what the node keeps of a declaration.
type Declared = wire.Declared

// Declare records the policies of workflows at the node, in order, and stops at the
// first error. The same declaration again changes nothing. A worker declares what it
// serves by itself; a program that only submits needs this when it comes first
// (P22). Error: [ErrConfiguration].
func (c *Client) Declare(ctx context.Context, workflows ...Definition) ([]Declared, error) {
	var all []Declared
	for _, w := range workflows {
		d := w.definition()
		if d.err != nil {
			return all, d.err
		}
		done, err := c.DeclareWire(ctx, d.name, d.declaration())
		if err != nil {
			return all, err
		}
		all = append(all, *done)
	}
	return all, nil
}

// DeclareWire records a declaration that isn't in this program's code, say one that
// was read from a file. The node checks it. Error: [ErrConfiguration].
func (c *Client) DeclareWire(ctx context.Context, name string, declaration wire.Declaration) (*Declared, error) {
	var done Declared
	req := request{method: http.MethodPut, path: path(wire.PathWorkflows, name), body: declaration}
	if err := c.call(ctx, &req, &done); err != nil {
		return nil, fmt.Errorf("declare workflow %q: %w", name, err)
	}
	return &done, nil
}
