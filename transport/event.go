package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// eventForm is how events stand in a request.
type eventForm uint8

const (
	formPlain      eventForm = iota // one event: the body
	formBinary                      // one CloudEvent: the body is its data, headers say the rest
	formStructured                  // one CloudEvent as JSON
	formBatch                       // a JSON array of CloudEvents
	formLines                       // one event on each line
)

// many says whether a form holds a list of events, so that its answer is one too.
func (f eventForm) many() bool { return f == formBatch || f == formLines }

// lineTypes are the names of one media type that nobody has registered.
var lineTypes = []string{wire.ContentNDJSON, "application/ndjson", "application/jsonl", "application/x-jsonlines", "application/jsonlines"}

// sendEvents serves POST /v1/workflows/{name}/events and POST /{name}/events (P35, P87).
// All events are checked before the first is handed on (R22).
func (x *exchange) sendEvents() error {
	name, err := x.workflow()
	if err != nil {
		return err
	}
	form, err := x.eventForm()
	if err != nil {
		return err
	}
	key, err := x.resolvedKey()
	if err != nil {
		return err
	}
	if err := x.receive(); err != nil {
		return err
	}
	if len(x.in) == 0 {
		return noBody()
	}
	events, err := x.takeEvents(form)
	if err != nil {
		return err
	}
	if len(events) == 0 { // an empty batch of CloudEvents is a legal one
		return x.answerEvents(form, nil, nil)
	}
	got, errs := x.s.node.Trigger(x.r.Context(), name, key, events)
	if n := len(events); len(got) != n || len(errs) != n {
		return shortAnswer("trigger", n, len(got), len(errs))
	}
	return x.answerEvents(form, got, errs)
}

// eventForm reads the form off the headers alone.
func (x *exchange) eventForm() (eventForm, error) {
	if err := x.checkEncoding(); err != nil {
		return 0, err
	}
	mediaType := x.r.Header.Get("Content-Type")
	if mediaType != "" && mediaType != wire.ContentNDJSON && mediaType != wire.ContentJSON {
		var err error
		if mediaType, _, err = mime.ParseMediaType(mediaType); err != nil {
			return 0, problem(wire.CodeMediaType, "the Content-Type can't be read: "+err.Error())
		}
	}
	binary := x.hasCloudHeader()
	switch {
	case mediaType == wire.ContentCloudEvent:
		return formStructured, nil
	case mediaType == wire.ContentCloudEventBatch:
		return formBatch, nil
	case strings.HasPrefix(mediaType, "application/cloudevents"):
		return 0, problem(wire.CodeMediaType, "of the formats of CloudEvents, JSON alone is taken: "+wire.ContentCloudEvent+" or "+wire.ContentCloudEventBatch)
	case binary && (x.isPlain(mediaType) || isJSON(mediaType)):
		return formBinary, nil
	case binary:
		return 0, problem(wire.CodeMediaType, "the Content-Type beside ce- headers is that of the event's data, and must be application/json or end in +json")
	case slices.Contains(lineTypes, mediaType):
		return formLines, nil
	case x.isPlain(mediaType):
		return formPlain, nil
	}
	return 0, problem(wire.CodeMediaType, "the Content-Type of events must be application/json, "+wire.ContentNDJSON+", "+
		wire.ContentCloudEvent+" or "+wire.ContentCloudEventBatch)
}

// resolvedKey is the header with the key that the caller resolved; nil without one. What
// is empty is the empty key.
func (x *exchange) resolvedKey() (*string, error) {
	sent := x.r.Header[wire.HeaderKey]
	switch len(sent) {
	case 0:
		return nil, nil
	case 1:
	default:
		return nil, flow.Invalid(wire.HeaderKey, "must not stand twice")
	}
	key, ok := percentDecoded(strings.Trim(sent[0], " \t"))
	if !ok {
		return nil, flow.Invalid(wire.HeaderKey, `must be UTF-8 with percent-encoding, where "%" itself is %25`)
	}
	return &key, flow.CheckKey(wire.HeaderKey, key)
}

// The ids of events are told apart by their first byte: those of CloudEvents, which are
// their source's, and the keys that other senders chose.
const (
	idOfKey   = 'k' // the key; on line n of many the key, "#" and n
	idOfCloud = 'c' // the length of the source, ":", the source and the id
)

// eventKey is the header Idempotency-Key, which makes a repeat known; "" without one.
func (x *exchange) eventKey(form eventForm) (string, error) {
	key, err := x.keyOf("", nil)
	switch {
	case err != nil || key == nil:
		return "", err
	case form != formPlain && form != formLines:
		return "", flow.Invalid(headerKey, "must be left out: source and id make a repeat of a CloudEvent known")
	case *key == "" || len(*key) > flow.MaxIdempotencyKeyBytes:
		return "", flow.Invalid(headerKey, fmt.Sprintf("must be 1 to %d bytes", flow.MaxIdempotencyKeyBytes))
	}
	return *key, nil
}

// takeEvents reads and checks all events of the body. They share one copy of it, since a
// Node keeps them while the buffer is read into again.
func (x *exchange) takeEvents(form eventForm) ([]wire.TriggerEvent, error) {
	key, err := x.eventKey(form)
	if err != nil {
		return nil, err
	}
	r, own, id := &x.reader, bytes.Clone(x.in), ""
	switch form {
	case formLines:
		return r.lines(own, key)
	case formBatch:
		return r.cloudEvents(own)
	case formStructured:
		r.reset(own)
		return alone(r.cloudEvent(), r.end(), "data")
	case formBinary:
		if id, err = x.cloudID(); err != nil {
			return nil, err
		}
	case formPlain:
		if key != "" {
			id = string(idOfKey) + key
		}
	}
	r.reset(own)
	return alone(wire.TriggerEvent{Body: r.event(), ID: id}, r.end(), "body")
}

// alone is the list of one event, once it is read and checked. place is what an error
// calls the event.
func alone(event wire.TriggerEvent, err error, place string) ([]wire.TriggerEvent, error) {
	if err == nil {
		err = misplaced(event.Check(), place)
	}
	if err != nil {
		return nil, err
	}
	return []wire.TriggerEvent{event}, nil
}

// misplaced gives the error of a check another field; nil stays nil.
func misplaced(err error, place string) error {
	if f, ok := errors.AsType[*flow.FieldError](err); ok {
		return &flow.FieldError{Kind: f.Kind, Field: place, Want: f.Want}
	}
	return err
}

// event reads a JSON object, and answers the part of the document that it is.
func (r *reader) event() json.RawMessage {
	if r.peek() != '{' {
		r.mismatch("must be a JSON object")
		return nil
	}
	start := r.i
	if r.skip(0); r.err != nil {
		return nil
	}
	return r.b[start:r.i:r.i]
}

// lines reads one event from each line. LF ends a line, and may be missing from the last;
// a CR before it is white space.
func (r *reader) lines(body []byte, key string) ([]wire.TriggerEvent, error) {
	n := bytes.Count(body, []byte{'\n'})
	if body[len(body)-1] != '\n' {
		n++
	}
	if n > wire.MaxEvents {
		return nil, flow.Invalid("body", fmt.Sprintf("must hold 1 to %d lines", wire.MaxEvents))
	}
	events := make([]wire.TriggerEvent, n)
	var id []byte
	if key != "" {
		id = append(append(id, idOfKey), key...)
		id = append(id, '#')
	}
	for i := range events {
		var line []byte
		line, body, _ = bytes.Cut(body, []byte{'\n'})
		if err := r.line(line, &events[i]); err != nil {
			return nil, inLine(i+1, err)
		}
		if key != "" {
			events[i].ID = string(strconv.AppendInt(id, int64(i)+1, 10))
		}
	}
	return events, nil
}

func (r *reader) line(text []byte, event *wire.TriggerEvent) error {
	r.reset(text)
	if r.space(); r.i == len(text) && r.err == nil {
		return flow.Invalid("body", "must not be empty: each line is a JSON object")
	}
	event.Body = r.event()
	if err := r.end(); err != nil {
		return err
	}
	return event.Check()
}

// inLine says in which line something is wrong. Offsets are those within the line.
func inLine(number int, err error) error {
	place := "line " + strconv.Itoa(number)
	p := *ProblemOf(err)
	if f, ok := errors.AsType[*flow.FieldError](err); ok {
		p.Detail = f.Want
	}
	p.Field, p.Detail = place, place+": "+p.Detail
	return &p
}

// answerEvents answers one event with its result or its refusal, and many with a list.
func (x *exchange) answerEvents(form eventForm, got []wire.Triggered, errs []error) error {
	if !form.many() {
		if errs[0] != nil {
			return errs[0]
		}
		x.out = appendTriggered(x.out[:0], &got[0])
		return x.send(http.StatusAccepted)
	}
	if err := refusedAlike(errs); err != nil {
		return err
	}
	for i, err := range errs {
		if err != nil {
			got[i] = wire.Triggered{Problem: x.problemFor(err)}
		}
	}
	if form == formBatch {
		x.out = appendEventsResult(x.out[:0], got)
		return x.send(http.StatusAccepted)
	}
	x.out = appendLines(x.out[:0], got)
	x.sendAs(http.StatusAccepted, linesType)
	return nil
}

// refusedAlike is the error that all events were refused with, when it isn't about events
// at all: the workflow is unknown, or the node takes nothing now. Then the request is
// refused, so that a sender that looks at the status alone sees it.
func refusedAlike(errs []error) error {
	code := ""
	for _, err := range errs {
		p := ProblemOf(err)
		if p == nil || code != "" && p.Code != code || ofEvent(p) {
			return nil
		}
		code = p.Code
	}
	if code == "" {
		return nil
	}
	return errs[0]
}

// ofEvent says whether another event might have been taken.
func ofEvent(p *wire.Problem) bool {
	switch p.Code {
	case wire.CodeInvalid, wire.CodeBufferFull:
		return true
	case wire.CodeConfiguration:
		return p.Field != "trigger" && p.Field != "key" // what is declared, and the header Pyrula-Key
	}
	return false
}
