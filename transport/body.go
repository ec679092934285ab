package transport

import (
	"net/http"
	"strconv"

	"github.com/pyrula/pyrula-node/flow"
)

// recordSteps serves POST /v1/runs/{id}/steps.
func (x *exchange) recordSteps() error {
	id, err := x.runID()
	if err != nil {
		return err
	}
	s, err := checked(x, (*reader).stepsOf)
	if err != nil {
		return err
	}
	got, err := x.s.node.Steps(x.r.Context(), id, *s)
	if err != nil {
		return unheld(err, s.Fence)
	}
	got.Runs, got.ClaimProblem = x.claimAfter(s.Claim)
	x.out = appendRecorded(x.out[:0], &got)
	return x.send(http.StatusOK)
}

// startChildren serves POST /v1/runs/{id}/children.
func (x *exchange) startChildren() error {
	id, err := x.runID()
	if err != nil {
		return err
	}
	if err := x.refuseKeyHeader(); err != nil {
		return err
	}
	c, err := checked(x, (*reader).children)
	if err != nil {
		return err
	}
	for i := range c.Runs {
		if c.Runs[i].Params == nil {
			c.Runs[i].Params = emptyParams
		}
	}
	got, err := x.s.node.Children(x.r.Context(), id, *c)
	if err != nil {
		return unheld(err, c.Fence)
	}
	got.Runs, got.ClaimProblem = x.claimAfter(c.Claim)
	x.out = appendChildrenStarted(x.out[:0], &got)
	return x.send(http.StatusAccepted)
}

// readHistory serves GET /v1/runs/{id}/steps, a page of what the run has recorded.
func (x *exchange) readHistory() error {
	id, err := x.runID()
	if err != nil {
		return err
	}
	after := int64(0)
	if x.query.Has("after") {
		after, err = strconv.ParseInt(x.query.Get("after"), 10, 64)
		if err != nil || after < 0 {
			return flow.Invalid("after", "must be the history_next of a grant, or the next of the page before")
		}
	}
	got, err := x.s.node.History(x.r.Context(), id, after)
	if err != nil {
		return err
	}
	x.out = appendHistory(x.out[:0], &got)
	return x.send(http.StatusOK)
}

// resolutions serves POST /v1/resolutions.
func (x *exchange) resolutions() error {
	r, err := checked(x, (*reader).resolve)
	if err != nil {
		return err
	}
	got, err := x.s.node.Resolve(x.r.Context(), *r)
	if err != nil {
		return err
	}
	got.Runs = filled(got.Runs)
	return x.json(http.StatusOK, got)
}
