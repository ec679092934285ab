package pyrula

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// What a node answers, as package wire has it.
type (
	// RunStatus is a run as it stands: its gates, what it waits for, its result.
	RunStatus = wire.Run
	// Event is one entry of a run's own journal.
	Event = wire.Event
	// Why says what a run waits for: its gates in order, who holds the slots, and one
	// sentence for a person.
	Why = wire.Why
	// ListQuery filters a list of runs.
	ListQuery = wire.ListQuery
	// RunList is one page of runs, newest first.
	RunList = wire.RunList
	// KeyView is a key as it stands: its slots, bucket and queue.
	KeyView = wire.KeyView
	// NodeInfo is what a node says of itself.
	NodeInfo = wire.Node
	// WorkflowInfo is a workflow with its declarations.
	WorkflowInfo = wire.Workflow
)

// waitFor is how long one request asks the node to hold its answer back. A longer
// wait is several requests.
const waitFor = 20 * time.Second

// Status is a run as it stands now. Of a run that was handed on it is the
// successor's, with RequestedRunID set. Error: [ErrUnknownRun].
func (c *Client) Status(ctx context.Context, runID string) (*RunStatus, error) {
	return get[RunStatus](ctx, c, path(wire.PathRuns, runID))
}

// Wait waits for a run's end and returns how it stands then; a failed or cancelled
// run is no error here. Error: [ErrUnknownRun].
func (c *Client) Wait(ctx context.Context, runID string) (*RunStatus, error) {
	return await(ctx, c, path(wire.PathRuns, runID), func(run *RunStatus) bool { return ended(run.Status) })
}

// Result waits for a run's end and returns its result as JSON. A run that failed
// gives *[RunFailed], a cancelled one [ErrRunCancelled], a terminated one
// [ErrRunTerminated].
func (c *Client) Result(ctx context.Context, runID string) (json.RawMessage, error) {
	over := func(r *wire.Result) bool { return ended(r.Status) }
	done, err := await(ctx, c, path(wire.PathRuns, runID, "result"), over)
	if err != nil {
		return nil, err
	}
	return resultOf(runID, done)
}

func resultOf(runID string, done *wire.Result) (json.RawMessage, error) {
	switch status, _ := flow.ParseStatus(done.Status); status {
	case flow.StatusCompleted:
		return done.Result, nil
	case flow.StatusFailed:
		failed := &RunFailed{RunID: runID}
		if done.Error != nil {
			failed.Type, failed.Message = done.Error.Type, done.Error.Message
		}
		return nil, failed
	case flow.StatusCancelled:
		return nil, fmt.Errorf("run %s: %w", runID, ErrRunCancelled)
	case flow.StatusTerminated:
		return nil, fmt.Errorf("run %s: %w", runID, ErrRunTerminated)
	default: // no end that this client knows
		return nil, fmt.Errorf("run %s: %w: it ended %q", runID, ErrBadAnswer, done.Status)
	}
}

func ended(status string) bool {
	s, known := flow.ParseStatus(status)
	return known && s.Ended()
}

// Events is a run's own journal, oldest first: of this id alone, also when the run
// was handed on (P26).
func (c *Client) Events(ctx context.Context, runID string) ([]Event, error) {
	all, err := get[wire.Events](ctx, c, path(wire.PathRuns, runID, "events"))
	if err != nil {
		return nil, err
	}
	return all.Events, nil
}

// Why says what a run waits for. A run that doesn't wait has a nil Wait.
func (c *Client) Why(ctx context.Context, runID string) (*Why, error) {
	return get[Why](ctx, c, path(wire.PathRuns, runID, "why"))
}

// List is one page of runs, newest first. The next page is asked for with the
// NextCursor of this one.
func (c *Client) List(ctx context.Context, q ListQuery) (*RunList, error) {
	query := url.Values{}
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	set("workflow", q.Workflow)
	set("status", q.Status)
	set("cursor", q.Cursor)
	if q.Limit != 0 {
		query.Set("limit", strconv.Itoa(q.Limit))
	}
	if q.Key != nil {
		query.Set("key", *q.Key)
	}
	var page RunList
	if err := c.call(ctx, &request{method: http.MethodGet, path: wire.PathRuns, query: query}, &page); err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	return &page, nil
}

// Cancel asks for a run's end, with a reason of at most 1 KiB for its journal. A
// queued run ends at once; an executing one when its worker has stopped the body
// (P63). Cancelling a run that has ended changes nothing and is no error.
func (c *Client) Cancel(ctx context.Context, runID, reason string) error {
	return c.stop(ctx, runID, "cancel", reason)
}

// Terminate ends a run at once, whatever its body does. Its slot stays taken until
// its worker has let go or the lease has run out (P63). Terminating a run that has
// ended changes nothing and is no error.
func (c *Client) Terminate(ctx context.Context, runID, reason string) error {
	return c.stop(ctx, runID, "terminate", reason)
}

func (c *Client) stop(ctx context.Context, runID, verb, reason string) error {
	req := request{method: http.MethodPost, path: path(wire.PathRuns, runID, verb), body: wire.Stop{Reason: reason}}
	if err := c.call(ctx, &req, nil); err != nil {
		return fmt.Errorf("%s run %s: %w", verb, runID, err)
	}
	return nil
}

// Key is a key of a workflow as it stands: slots with their holders, token state,
// queue. Any text is a key, the empty one too. A key that nobody uses is all zeros.
func (c *Client) Key(ctx context.Context, workflow, key string) (*KeyView, error) {
	return get[KeyView](ctx, c, path(wire.PathKeys, workflow, key))
}

// Node is what the node says of itself.
func (c *Client) Node(ctx context.Context) (*NodeInfo, error) {
	return get[NodeInfo](ctx, c, wire.PathNode)
}

// Workflows are all declared workflows, sorted by name.
func (c *Client) Workflows(ctx context.Context) ([]WorkflowInfo, error) {
	all, err := get[wire.WorkflowList](ctx, c, wire.PathWorkflows)
	if err != nil {
		return nil, err
	}
	return all.Workflows, nil
}

// Workflow is one workflow with its declarations, oldest first. Error:
// [ErrUnknownWorkflow].
func (c *Client) Workflow(ctx context.Context, name string) (*WorkflowInfo, error) {
	return get[WorkflowInfo](ctx, c, path(wire.PathWorkflows, name))
}

// get reads what stands at a path.
func get[T any](ctx context.Context, c *Client, path string) (*T, error) {
	out := new(T)
	if err := c.call(ctx, &request{method: http.MethodGet, path: path}, out); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return out, nil
}

// await reads what stands at a path of a run until it is over. The node is asked to
// answer at the run's end.
func await[T any](ctx context.Context, c *Client, path string, over func(*T) bool) (*T, error) {
	query := url.Values{"wait_ms": {strconv.FormatInt(waitFor.Milliseconds(), 10)}}
	for {
		out := new(T)
		if err := c.call(ctx, &request{method: http.MethodGet, path: path, query: query, wait: waitFor}, out); err != nil {
			return nil, fmt.Errorf("wait on %s: %w", path, err)
		}
		if over(out) {
			return out, nil
		}
		// A node that shuts down answers early: don't ask it in a tight loop.
		if err := pause(ctx, backoffFirst); err != nil {
			return nil, fmt.Errorf("wait on %s: %w", path, err)
		}
	}
}
