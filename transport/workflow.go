package transport

import (
	"net/http"

	"github.com/pyrula/pyrula-node/flow"
)

// declare serves PUT /v1/workflows/{name}.
func (x *exchange) declare() error {
	name := x.vars[0]
	if err := flow.CheckWorkflowName(name); err != nil {
		return err
	}
	d, err := checked(x, (*reader).declaration)
	if err != nil {
		return err
	}
	got, err := x.s.node.Declare(x.r.Context(), name, *d)
	if err != nil {
		return err
	}
	return x.json(http.StatusOK, got)
}

// listWorkflows serves GET /v1/workflows.
func (x *exchange) listWorkflows() error {
	got, err := x.s.node.Workflows(x.r.Context())
	if err != nil {
		return err
	}
	got.Workflows = filled(got.Workflows)
	for i := range got.Workflows {
		got.Workflows[i].Versions = filled(got.Workflows[i].Versions)
	}
	return x.json(http.StatusOK, got)
}

// readWorkflow serves GET /v1/workflows/{name}.
func (x *exchange) readWorkflow() error {
	name, err := x.workflow()
	if err != nil {
		return err
	}
	got, err := x.s.node.Workflow(x.r.Context(), name)
	if err != nil {
		return err
	}
	got.Versions = filled(got.Versions)
	return x.json(http.StatusOK, got)
}
