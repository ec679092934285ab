package pyrula

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// StartOption is a setting of one submit.
type StartOption func(*wire.Submit)

// OnceKey is an idempotency key, at most 256 bytes: the first submit with it makes
// the run, and every later one, whatever it carries, answers that run (Q6). Keys are
// global over all workflows and are never forgotten.
func OnceKey(key string) StartOption {
	return func(s *wire.Submit) { s.IdempotencyKey = &key }
}

// TriggeredBy says what makes the run: "client" (the default), "case", "replay" or
// "eval". Runs of the last three keep the gates they are stamped with (P31).
func TriggeredBy(trigger string) StartOption {
	return func(s *wire.Submit) { s.Trigger = trigger }
}

// Submission is one run to be made. Programs that have the workflow's code make it
// with [Workflow.Submission], which also resolves function keys.
type Submission struct {
	Workflow string
	Params   any // encodes as a JSON object; nil means {}
	Options  []StartOption

	d     *definition // nil: by name
	stamp *wire.Stamp // nil: the node resolves the keys
}

// Submitted is a run that the node has durably.
type Submitted struct {
	RunID   string
	Status  string // "queued", or where an earlier run with the idempotency key stands; empty when its retention is over
	Created bool   // false when the idempotency key named an earlier run
}

// BatchResult is what became of one entry of a batch: a run, or the error that
// refused it.
type BatchResult struct {
	Submitted
	Err error
}

// Submit makes a run of a workflow by name, without its code (P18). Params encode as
// a JSON object; nil means {}. A workflow that nobody has declared yet takes runs too
// (P22). A workflow whose key is a function is refused with [ErrConfiguration] (P20).
//
// A submit that gets no answer is repeated with the same request id, so it makes one
// run however often it is sent (R10).
func (c *Client) Submit(ctx context.Context, workflow string, params any, opts ...StartOption) (Submitted, error) {
	return c.submit(ctx, Submission{Workflow: workflow, Params: params, Options: opts})
}

func (c *Client) submit(ctx context.Context, sub Submission) (Submitted, error) {
	body, err := sub.encode()
	if err != nil {
		return Submitted{}, err
	}
	if err := c.introduce(ctx, sub.d); err != nil {
		return Submitted{}, err
	}
	body.Workflow = "" // it stands in the path
	var done wire.Submitted
	req := request{method: http.MethodPost, path: path(wire.PathWorkflows, sub.Workflow, "runs"), body: body}
	err = c.call(ctx, &req, &done)
	if sub.d != nil && errors.Is(err, ErrNotDeclared) {
		// The node has lost what it knew, say a trial node that began anew.
		c.known.Delete(sub.d)
		if err = c.introduce(ctx, sub.d); err == nil {
			err = c.call(ctx, &req, &done)
		}
	}
	if err != nil {
		return Submitted{}, fmt.Errorf("submit a run of workflow %q: %w", sub.Workflow, err)
	}
	return submitted(done), nil
}

// SubmitBatch makes up to 256 runs in one request. The results stand in the order of
// runs, each with its own error. The error beside them is of the request: one entry
// that can't be right refuses them all, and then nothing was made. Entries that the
// node can't take now are repeated like a single submit.
func (c *Client) SubmitBatch(ctx context.Context, runs []Submission) ([]BatchResult, error) {
	if len(runs) == 0 {
		return nil, nil
	}
	if len(runs) > wire.MaxBatch {
		return nil, fmt.Errorf("submit a batch: %w: runs must be at most %d, not %d", ErrInvalid, wire.MaxBatch, len(runs))
	}
	results := make([]BatchResult, len(runs))
	entries := make([]wire.Submit, len(runs))
	open := make([]int, 0, len(runs)) // entries that have no final result
	for i, sub := range runs {
		body, err := sub.encode()
		if err != nil {
			return nil, fmt.Errorf("submit a batch: runs[%d]: %w", i, err)
		}
		entries[i] = body
		open = append(open, i)
	}
	for _, sub := range runs {
		if err := c.introduce(ctx, sub.d); err != nil {
			return nil, fmt.Errorf("submit a batch: %w", err)
		}
	}
	retry := c.newRetry()
	for len(open) > 0 {
		rest, err := c.submitOpen(ctx, entries, open, results)
		if err != nil {
			return nil, fmt.Errorf("submit a batch of %d runs: %w", len(runs), err)
		}
		if len(rest) == 0 {
			break
		}
		wait, ok := retry.next(results[rest[0]].Err)
		if !ok || pause(ctx, wait) != nil {
			break // each entry that is still open keeps its own error
		}
		open = rest
	}
	return results, nil //nolint:nilerr // each entry has its own error
}

// submitOpen sends the entries that have no final result and returns those that
// still have none.
func (c *Client) submitOpen(ctx context.Context, entries []wire.Submit, open []int, results []BatchResult) ([]int, error) {
	batch := wire.Batch{Runs: make([]wire.Submit, len(open))}
	for i, at := range open {
		batch.Runs[i] = entries[at]
	}
	var done wire.BatchResult
	req := request{method: http.MethodPost, path: wire.PathBatch, body: batch}
	if err := c.call(ctx, &req, &done); err != nil {
		return nil, err
	}
	if len(done.Runs) != len(open) {
		return nil, fmt.Errorf("%w: %d results for %d runs", ErrBadAnswer, len(done.Runs), len(open))
	}
	var rest []int
	for i, at := range open {
		results[at] = BatchResult{Submitted: submitted(done.Runs[i])}
		if p := done.Runs[i].Problem; p != nil {
			results[at].Err = &APIError{Problem: *p}
			if retryable(results[at].Err) {
				rest = append(rest, at)
			}
		}
	}
	return rest, nil
}

func submitted(w wire.Submitted) Submitted {
	return Submitted{RunID: w.RunID, Status: w.Status, Created: w.Created}
}

// encode is the submission on the wire. Its request id is drawn here, once: repeats
// send the same.
func (s Submission) encode() (wire.Submit, error) {
	params, err := encodeParams(s.Params)
	if err != nil {
		return wire.Submit{}, fmt.Errorf("encode params of workflow %q: %w", s.Workflow, err)
	}
	w := wire.Submit{Workflow: s.Workflow, Params: params, Stamp: s.stamp}
	for _, set := range s.Options {
		set(&w)
	}
	w.RequestID = uuid.NewString()
	return w, nil
}

// encodeParams encodes what must be a JSON object. What encodes as null is {}.
func encodeParams(params any) (json.RawMessage, error) {
	raw, err := json.Marshal(params)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	case bytes.Equal(raw, []byte("null")):
		return json.RawMessage("{}"), nil
	case raw[0] != '{':
		return nil, fmt.Errorf("%w: params must be a JSON object, and %T is none", ErrInvalid, params)
	case len(raw) > flow.MaxPayloadBytes:
		return nil, fmt.Errorf("%w: params must be at most %d bytes, not %d", ErrTooLarge, flow.MaxPayloadBytes, len(raw))
	}
	return raw, nil
}

// errResult marks a result that no attempt can report.
var errResult = errors.New("result can't be kept")

// encodeResult encodes what a body returned.
func encodeResult(out any) (json.RawMessage, error) {
	raw, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errResult, err)
	}
	if len(raw) > flow.MaxPayloadBytes {
		return nil, fmt.Errorf("%w: it has %d bytes, more than %d", errResult, len(raw), flow.MaxPayloadBytes)
	}
	return raw, nil
}
