package transport

import (
	"net/http"
	"slices"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// describe serves GET /v1/node.
func (x *exchange) describe() error {
	got, err := x.s.node.Describe(x.r.Context())
	if err != nil {
		return err
	}
	got.Shards = filled(got.Shards)
	return x.json(http.StatusOK, got)
}

// live serves GET /livez and /healthz. It asks nobody: a node that reads its
// journal back is alive, and restarting it would begin that anew.
func (x *exchange) live() error { return x.json(http.StatusOK, wire.Live{Live: true}) }

// ready serves GET /readyz. The checks stand only when ?verbose asks for them.
func (x *exchange) ready() error {
	r := x.s.node.Ready(x.r.Context())
	r.Checks = append(slices.Clip(r.Checks), x.s.ownCheck())
	if r.Ready && x.s.polls.over() {
		r.Ready, r.Reason = false, shuttingDown
	}
	if !x.query.Has("verbose") {
		r.Checks = nil
	}
	if !r.Ready {
		return x.json(http.StatusServiceUnavailable, r)
	}
	return x.json(http.StatusOK, r)
}

const shuttingDown = "the node is shutting down"

func (s *Server) ownCheck() wire.ReadyCheck {
	c := wire.ReadyCheck{Name: "http", OK: !s.polls.over()}
	if !c.OK {
		c.Reason = shuttingDown
	}
	return c
}

// describeProblem serves GET /v1/problems/{code}, the type of every problem.
func (x *exchange) describeProblem() error {
	t, ok := Describe(x.vars[0])
	if !ok {
		return problem(wire.CodeNotFound, "no problem has this code")
	}
	return x.json(http.StatusOK, t)
}

// metrics serves GET /metrics.
func (x *exchange) metrics() error {
	x.status = http.StatusOK
	x.s.stats.handler.ServeHTTP(x.w, x.r)
	return nil
}

// openAPI serves GET /openapi.json.
func (x *exchange) openAPI() error {
	x.out = append(x.out[:0], document...)
	return x.send(http.StatusOK)
}
