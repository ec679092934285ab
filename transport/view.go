package transport

import (
	"net/http"
	"strconv"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// readRun serves GET /v1/runs/{id}.
func (x *exchange) readRun() error {
	run, err := x.awaitRun()
	if err != nil {
		return err
	}
	return x.json(http.StatusOK, run)
}

// readResult serves GET /v1/runs/{id}/result: 202 says that there is none yet.
func (x *exchange) readResult() error {
	run, err := x.awaitRun()
	if err != nil {
		return err
	}
	status := http.StatusAccepted
	if s, ok := flow.ParseStatus(run.Status); ok && s.Ended() {
		status = http.StatusOK
	}
	return x.json(status, wire.Result{
		RunID: run.RunID, RequestedRunID: run.RequestedRunID, Status: run.Status, Result: run.Result, Error: run.Error,
	})
}

// awaitRun reads the run of the path, after its end or the wait. A wait that
// draining cuts short answers what there is.
func (x *exchange) awaitRun() (wire.Run, error) {
	id, err := x.runID()
	if err != nil {
		return wire.Run{}, err
	}
	wait, err := x.wait()
	if err != nil {
		return wire.Run{}, err
	}
	run, err := x.waitForRun(id, wait)
	run.Gates = filled(run.Gates)
	return run, err
}

func (x *exchange) waitForRun(id flow.RunID, wait time.Duration) (wire.Run, error) {
	ctx := x.r.Context()
	if wait > 0 && !x.s.polls.over() {
		waiting, done := x.s.polls.begin(ctx)
		defer done()
		run, err := x.s.node.Run(waiting, id, wait)
		if err == nil || waiting.Err() == nil || ctx.Err() != nil {
			return run, err
		}
	}
	return x.s.node.Run(ctx, id, 0)
}

// filled makes an empty list of none: a list is never null in a response.
func filled[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// readEvents serves GET /v1/runs/{id}/events.
func (x *exchange) readEvents() error {
	id, err := x.runID()
	if err != nil {
		return err
	}
	got, err := x.s.node.Events(x.r.Context(), id)
	if err != nil {
		return err
	}
	got.Events = filled(got.Events)
	return x.json(http.StatusOK, got)
}

// readWhy serves GET /v1/runs/{id}/why.
func (x *exchange) readWhy() error {
	id, err := x.runID()
	if err != nil {
		return err
	}
	got, err := x.s.node.Why(x.r.Context(), id)
	if err != nil {
		return err
	}
	got.Gates, got.Holders = filled(got.Gates), filled(got.Holders)
	return x.json(http.StatusOK, got)
}

// listRuns serves GET /v1/runs.
func (x *exchange) listRuns() error {
	q := wire.ListQuery{
		Workflow: x.query.Get("workflow"), Status: x.query.Get("status"), Cursor: x.query.Get("cursor"),
	}
	if x.query.Has("key") {
		q.Key = new(x.query.Get("key"))
	}
	if x.query.Has("limit") {
		n, err := strconv.Atoi(x.query.Get("limit"))
		if err != nil || n < 1 {
			n = wire.MaxListLimit + 1 // refused below, like every number out of bounds
		}
		q.Limit = n
	}
	if err := q.Check(); err != nil {
		return err
	}
	got, err := x.s.node.List(x.r.Context(), q)
	if err != nil {
		return err
	}
	got.Runs = filled(got.Runs)
	for i := range got.Runs {
		got.Runs[i].Gates = filled(got.Runs[i].Gates)
	}
	return x.json(http.StatusOK, got)
}

// readKey serves GET /v1/keys/{workflow}/{key}. Any text is a key (S99).
func (x *exchange) readKey() error {
	workflow, err := x.workflow()
	if err != nil {
		return err
	}
	key := x.vars[1]
	if err := flow.CheckKey("key", key); err != nil {
		return err
	}
	got, err := x.s.node.Key(x.r.Context(), workflow, key)
	if err != nil {
		return err
	}
	got.Holders = filled(got.Holders)
	return x.json(http.StatusOK, got)
}
