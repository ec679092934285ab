package pyrula

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// Declared is what the node keeps of a declaration.
type Declared = wire.Declared

// Declare records the policies of workflows at the node, in order, and stops at the
// first error. The same declaration again changes nothing. A worker declares what it
// serves by itself, and so does the first [Workflow.Start] where nobody has; a program
// needs this only to make sure early. Error: [ErrConfiguration].
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
		c.known.Store(d, struct{}{})
		all = append(all, *done)
	}
	return all, nil
}

// introduce makes sure that the node knows a workflow before the first run of it is
// submitted through this client. It declares what the node has never heard of, and
// no more: a worker's declaration may be newer than this program's. A version is
// needed only where keys are resolved for it.
func (c *Client) introduce(ctx context.Context, d *definition) error {
	if d == nil {
		return nil
	}
	if _, known := c.known.Load(d); known {
		return nil
	}
	info, err := c.Workflow(ctx, d.name)
	switch {
	case errors.Is(err, ErrUnknownWorkflow):
	case err != nil:
		return err
	case !d.functionKey() || slices.ContainsFunc(info.Versions, func(v wire.WorkflowVersion) bool { return v.Version == d.version }):
		c.known.Store(d, struct{}{})
		return nil
	}
	_, err = c.Declare(ctx, defined{d})
	return err
}

// defined is a bare definition as a Definition.
type defined struct{ d *definition }

func (w defined) definition() *definition { return w.d }

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
