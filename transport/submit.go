package transport

import (
	"fmt"
	"net/http"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// submitOne serves POST /v1/workflows/{name}/runs.
func (x *exchange) submitOne() error {
	name, err := x.workflow()
	if err != nil {
		return err
	}
	run, err := decode(x, (*reader).submit)
	if err != nil {
		return err
	}
	if run.Workflow != "" && run.Workflow != name {
		return flow.Invalid("workflow", "must be left out, or be the name in the path")
	}
	run.Workflow = name
	got, err := x.submitted(run)
	if err != nil {
		return err
	}
	x.out = appendSubmitted(x.out[:0], &got)
	return x.send(http.StatusAccepted)
}

// submitShort serves POST /{name}: the body is the params (P87).
func (x *exchange) submitShort() error {
	name, err := x.workflow()
	if err != nil {
		return err
	}
	params, err := decode(x, (*reader).params)
	if err != nil {
		return err
	}
	got, err := x.submitted(wire.Submit{Workflow: name, Params: params})
	if err != nil {
		return err
	}
	x.out = appendShort(x.out[:0], got.RunID)
	return x.send(http.StatusAccepted)
}

// emptyParams are those of a run that was given none; never changed.
var emptyParams = []byte("{}")

// submitted hands one run to the Node.
func (x *exchange) submitted(run wire.Submit) (wire.Submitted, error) {
	var none wire.Submitted
	key, err := x.keyOf("idempotency_key", run.IdempotencyKey)
	if err != nil {
		return none, err
	}
	run.IdempotencyKey = key
	if err := run.Check(); err != nil {
		return none, err
	}
	if run.Params == nil {
		run.Params = emptyParams
	}
	got, errs := x.s.node.Submit(x.r.Context(), []wire.Submit{run})
	if len(got) != 1 || len(errs) != 1 {
		return none, shortAnswer("submit", 1, len(got), len(errs))
	}
	return got[0], errs[0]
}

// shortAnswer is a Node that breaks its promise of one result for each entry.
func shortAnswer(what string, asked, results, errs int) error {
	return fmt.Errorf("%s of %d entries: the node answered %d results and %d errors", what, asked, results, errs)
}

// submitBatch serves POST /v1/runs:batch. All entries are checked before the first
// is sent; then each has its own result, and the answer is 202 whatever they are.
func (x *exchange) submitBatch() error {
	if err := x.refuseKeyHeader(); err != nil {
		return err
	}
	batch, err := checked(x, (*reader).batch)
	if err != nil {
		return err
	}
	for i := range batch.Runs {
		if batch.Runs[i].Params == nil {
			batch.Runs[i].Params = emptyParams
		}
	}
	got, errs := x.s.node.Submit(x.r.Context(), batch.Runs)
	if n := len(batch.Runs); len(got) != n || len(errs) != n {
		return shortAnswer("submit", n, len(got), len(errs))
	}
	for i, err := range errs {
		if err != nil {
			got[i] = wire.Submitted{Problem: x.problemFor(err)}
		}
	}
	x.out = appendBatchResult(x.out[:0], got)
	return x.send(http.StatusAccepted)
}
