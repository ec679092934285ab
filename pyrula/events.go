package pyrula

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// TriggerOption is a setting of one event, or of one batch of them.
type TriggerOption func(*triggering)

type triggering struct {
	id  string
	key *string
}

// EventID is the event's own id, 1 to 256 characters of printable ASCII, say that of a
// webhook delivery: an event with an id that its key has taken before counts once, whoever
// sends it, and is answered like the first. A key remembers the ids of its open batch, and
// the node those of the 10 minutes before, at most 65,536 in each shard; after that a repeat
// is a new event. Without it each call draws an id of its own, so that a repeat for want of
// an answer, which the SDK sends by itself, can't count twice.
//
// For [Client.TriggerBatch] it is the id of the whole batch: the n-th event of it, counted
// from 1, has the id with "#" and n behind it.
func EventID(id string) TriggerOption { return func(t *triggering) { t.id = id } }

// EventKey is the event's key where the caller has resolved it, at most 1,024 bytes: that
// of a workflow whose trigger's key is a function, which the node can't compute (P20).
// [Trigger] does it by itself. Any other trigger refuses it.
func EventKey(key string) TriggerOption { return func(t *triggering) { t.key = &key } }

// Trigger sends an event to a workflow with a [Collect] or a [Debounce] and returns as soon
// as the node has it durably. The handle is that of the run which this event has made: one
// that filled a Collect batch (P37), also when the run then waits at a gate (P69). Otherwise
// it is nil, and the run is made later, by the node on behalf of a worker that is alive
// (P38): workers have nothing to do for that but to run.
//
// Like [Workflow.Start], the first event of a workflow through a client asks whether the
// node knows it, and declares it if not. A function key is computed here; when it panics or
// fails that is a *[ConfigurationError], and nothing is sent (P20, P60).
//
// Errors match: [ErrConfiguration] when the declaration or a key is wrong, or the workflow
// as the node knows it has no trigger (P75); [ErrInvalid] when the event isn't a JSON
// object; [ErrTooLarge] for one over 785,920 bytes; [ErrBufferFull]; and what the node
// refuses. A full buffer has room when its batch fires: the SDK waits for that as it does
// for an overloaded node, but not where it takes longer than [WithRetryFor]. Then it
// returns at once, and [APIError.RetryAfter] says how long it takes.
func Trigger[E, Out any](ctx context.Context, c *Client, w *Workflow[Batch[E], Out], event E, opts ...TriggerOption) (*Handle[Out], error) {
	if w.d.err != nil {
		return nil, w.d.err
	}
	if w.d.trigger == nil {
		return nil, w.d.wrong("trigger", "must be declared: a Collect or a Debounce (P75)")
	}
	t := triggeringOf(opts)
	if f := keyOf[E](w.d.triggerKey); f != nil && t.key == nil {
		key, err := w.d.keyText("trigger."+w.d.trigger.Kind.String()+".key", func() (string, error) { return f(event) })
		if err != nil {
			return nil, err
		}
		t.key = &key
	}
	run, err := c.trigger(ctx, sending{w.d, w.d.name, t}, event)
	if err != nil || run == "" {
		return nil, err
	}
	h := w.Handle(c, run)
	h.Created = true
	return h, nil
}

// Trigger sends an event to a workflow by name, without its code. The event encodes as a
// JSON object, of which the workflow's trigger takes the key. It is [Trigger] in everything
// else, but for two errors: a workflow whose key is a function is refused with
// [ErrConfiguration] unless the caller gives the key, with [EventKey] (P20), and one that
// nobody has declared with an error that is both [ErrUnknownWorkflow] and
// [ErrConfiguration]: there is no policy yet by which to gather events (P75).
func (c *Client) Trigger(ctx context.Context, workflow string, event any, opts ...TriggerOption) (*Handle[json.RawMessage], error) {
	run, err := c.trigger(ctx, sending{nil, workflow, triggeringOf(opts)}, event)
	if err != nil || run == "" {
		return nil, err
	}
	return &Handle[json.RawMessage]{ID: run, Created: true, client: c}, nil
}

// TriggerResult is what became of one event of a batch. RunID is the run that it made
// by filling a [Collect] batch, else empty; Err is why it was refused.
type TriggerResult struct {
	RunID string
	Err   error
}

// TriggerBatch sends 1 to 1,000 events to a workflow by name, in one request and in their
// order. The results stand in the order of events, each with its own error; [EventKey] is
// the key of them all. The error beside them is of the request: one event that can't be
// right refuses them all, and then nothing was taken. The events may have 1 MiB together,
// as JSON and with a line end for each: more is [ErrTooLarge], and the caller makes two
// calls of it.
//
// One id is drawn for the call unless [EventID] gives one, so that a repeat for want of an
// answer counts each event once. An event that was refused is not sent again by itself: the
// caller decides what becomes of its place in the order.
func (c *Client) TriggerBatch(ctx context.Context, workflow string, events []any, opts ...TriggerOption) ([]TriggerResult, error) {
	results, err := c.triggerBatch(ctx, sending{nil, workflow, triggeringOf(opts)}, events)
	if err != nil {
		return nil, fmt.Errorf("send %d events to workflow %q: %w", len(events), workflow, err)
	}
	return results, nil
}

func triggeringOf(opts []TriggerOption) triggering {
	drawn := uuid.New()
	t := triggering{id: base64.RawURLEncoding.EncodeToString(drawn[:])} // short: a batch keeps it with the event
	for _, set := range opts {
		set(&t)
	}
	return t
}

func (t *triggering) check() error {
	if len(t.id) < 1 || len(t.id) > flow.MaxIdempotencyKeyBytes || !printable(t.id) {
		return fmt.Errorf("%w: an event's id must be 1 to %d characters of printable ASCII", ErrInvalid, flow.MaxIdempotencyKeyBytes)
	}
	if t.key != nil && (len(*t.key) > flow.MaxKeyBytes || !utf8.ValidString(*t.key)) {
		return fmt.Errorf("%w: an event's key must be at most %d bytes of UTF-8", ErrInvalid, flow.MaxKeyBytes)
	}
	return nil
}

// sending says where events go. d is nil by name.
type sending struct {
	d        *definition
	workflow string
	triggering
}

func (s *sending) request(body []byte) *request {
	return &request{
		method: http.MethodPost, path: path(wire.PathWorkflows, s.workflow, "events"), encoded: body,
		idempotencyKey: s.id, eventKey: s.key,
	}
}

// trigger sends an event and returns the run that it has made, or "".
func (c *Client) trigger(ctx context.Context, s sending, event any) (string, error) {
	failed := func(err error) error { return fmt.Errorf("send an event to workflow %q: %w", s.workflow, err) }
	body, err := encodeEvent(event)
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return "", failed(err)
	}
	if err := c.introduce(ctx, s.d); err != nil {
		return "", failed(err)
	}
	var done wire.Triggered
	req := s.request(body)
	err = c.call(ctx, req, &done)
	if s.d != nil && errors.Is(err, ErrUnknownWorkflow) {
		// The node has lost what it knew, say a trial node that began anew.
		c.known.Delete(s.d)
		if err = c.introduce(ctx, s.d); err == nil {
			err = c.call(ctx, req, &done)
		}
	}
	if err != nil {
		return "", failed(unpolicied(err))
	}
	if done.RunID == nil {
		return "", nil
	}
	return *done.RunID, nil
}

func (c *Client) triggerBatch(ctx context.Context, s sending, events []any) ([]TriggerResult, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if len(events) == 0 || len(events) > wire.MaxEvents {
		return nil, fmt.Errorf("%w: a batch has 1 to %d events", ErrInvalid, wire.MaxEvents)
	}
	body, err := encodeLines(events)
	if err != nil {
		return nil, err
	}
	req := s.request(body)
	req.contentType = wire.ContentNDJSON
	var answer []byte
	if err := c.call(ctx, req, &answer); err != nil {
		return nil, unpolicied(err)
	}
	lines, err := decodeLines(answer)
	switch {
	case err != nil:
		return nil, err
	case len(lines) != len(events):
		return nil, fmt.Errorf("%w: %d results for %d events", ErrBadAnswer, len(lines), len(events))
	}
	results := make([]TriggerResult, len(lines))
	for i, line := range lines {
		if line.Problem != nil {
			results[i].Err = &APIError{Problem: *line.Problem}
		} else if line.RunID != nil {
			results[i].RunID = *line.RunID
		}
	}
	return results, nil
}

// unpolicied makes an unknown workflow a configuration error too: the event came before
// the policy that says what to do with it (P75).
func unpolicied(err error) error {
	if errors.Is(err, ErrUnknownWorkflow) {
		return fmt.Errorf("%w: %w", ErrConfiguration, err)
	}
	return err
}

// encodeEvent encodes what must be a JSON object.
func encodeEvent(event any) (json.RawMessage, error) {
	raw, err := json.Marshal(event)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	case raw[0] != '{':
		return nil, fmt.Errorf("%w: an event must be a JSON object, and %T is none", ErrInvalid, event)
	case len(raw) > flow.MaxEventBytes:
		return nil, fmt.Errorf("%w: an event must be at most %d bytes, not %d", ErrTooLarge, flow.MaxEventBytes, len(raw))
	}
	return raw, nil
}

// encodeLines encodes events, one a line.
func encodeLines(events []any) ([]byte, error) {
	var body bytes.Buffer
	for i, event := range events {
		raw, err := encodeEvent(event)
		if err != nil {
			return nil, fmt.Errorf("events[%d]: %w", i, err)
		}
		body.Write(raw)
		body.WriteByte('\n')
		if body.Len() > wire.MaxBodyBytes {
			return nil, fmt.Errorf("events[%d]: %w: the events up to this one have %d bytes, and one request has room for %d",
				i, ErrTooLarge, body.Len(), wire.MaxBodyBytes)
		}
	}
	return body.Bytes(), nil
}

// decodeLines reads the results of events, one a line.
func decodeLines(answer []byte) ([]wire.Triggered, error) {
	var all []wire.Triggered
	for lines := json.NewDecoder(bytes.NewReader(answer)); ; {
		var line wire.Triggered
		switch err := lines.Decode(&line); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("%w: result %d: %w", ErrBadAnswer, len(all), err)
		}
		all = append(all, line)
	}
}
