package transport

import (
	"net/http"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
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

// eventsNotServed, stepsNotServed and the others answer for paths that the API has
// and this version doesn't serve. Only the path is looked at.
func (x *exchange) eventsNotServed() error {
	if _, err := x.workflow(); err != nil {
		return err
	}
	return unsupported("events")
}

func (x *exchange) stepsNotServed() error { return x.ofRunNotServed("steps") }

func (x *exchange) childrenNotServed() error { return x.ofRunNotServed("children") }

func (x *exchange) retryNotServed() error { return x.ofRunNotServed("retry") }

func (x *exchange) signalsNotServed() error {
	if _, err := x.runID(); err != nil {
		return err
	}
	if !flow.ValidName(x.vars[1]) {
		return flow.Invalid("signal", "must be "+flow.NameRule)
	}
	return unsupported("signals")
}

func (x *exchange) ofRunNotServed(what string) error {
	if _, err := x.runID(); err != nil {
		return err
	}
	return unsupported(what)
}

func unsupported(what string) error {
	return problem(wire.CodeNotSupported, "this version of the node doesn't serve "+what)
}
