package transport

import (
	"context"
	"net/http"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// cancel serves POST /v1/runs/{id}/cancel, terminate its sibling.
func (x *exchange) cancel() error { return x.stop(x.s.node.Cancel) }

func (x *exchange) terminate() error { return x.stop(x.s.node.Terminate) }

func (x *exchange) stop(end func(context.Context, flow.RunID, string) (wire.Stopped, error)) error {
	id, err := x.runID()
	if err != nil {
		return err
	}
	s, err := optional(x, (*reader).stop)
	if err != nil {
		return err
	}
	got, err := end(x.r.Context(), id, s.Reason)
	if err != nil {
		return err
	}
	status := http.StatusAccepted
	if s, ok := flow.ParseStatus(got.Status); ok && s.Ended() && !got.Changed {
		status = http.StatusOK // it had ended before
	}
	return x.json(status, got)
}

// nullPayload is that of a signal that is sent without a body; never changed.
var nullPayload = []byte("null")

// signal serves POST /v1/runs/{id}/signals/{signal}: the body is the payload, any JSON.
func (x *exchange) signal() error {
	id, err := x.runID()
	if err != nil {
		return err
	}
	s := wire.SignalRequest{Name: x.vars[1], Payload: nullPayload}
	if s.RequestID, err = x.requestID("", ""); err != nil {
		return err
	}
	if err := x.readBody(); err != nil {
		return err
	}
	if len(x.in) > 0 {
		x.reader.reset(x.in)
		raw := x.reader.raw()
		if err := x.reader.end(); err != nil {
			return err
		}
		if raw != nil {
			s.Payload = raw
		}
	}
	if err := s.Check(); err != nil {
		return err
	}
	got, err := x.s.node.Signal(x.r.Context(), id, s)
	if err != nil {
		return err
	}
	return x.json(http.StatusAccepted, got)
}

// retry serves POST /v1/runs/{id}/retry.
func (x *exchange) retry() error {
	id, err := x.runID()
	if err != nil {
		return err
	}
	r, err := optional(x, (*reader).retry)
	if err != nil {
		return err
	}
	if r.RequestID, err = x.requestID("request_id", r.RequestID); err != nil {
		return err
	}
	if err := r.Check(); err != nil {
		return err
	}
	got, err := x.s.node.Retry(x.r.Context(), id, *r)
	if err != nil {
		return err
	}
	x.out = appendSubmitted(x.out[:0], &got)
	return x.send(http.StatusAccepted)
}
