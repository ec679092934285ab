// Package apitest holds answers of the HTTP API against its OpenAPI document, for
// tests that talk to a server: of this module's handlers, and of a whole node.
//
// A Checker says whether an answer is one that the document promises for its path,
// method and status, and whether a request that was taken is one that the document
// allows. So the document can't fall behind the code unseen.
//
// It knows the document alone, and nothing about what an answer should be.
package apitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/transport"
)

// Checker knows the compiled document. Its methods may be called concurrently.
type Checker struct {
	paths   []path
	fixed   []string // first segments of paths that are no workflow's name
	problem *jsonschema.Schema
}

type path struct {
	segments   []string // a parameter is ""
	operations map[string]*operation
}

type operation struct {
	id        string
	requests  map[string]*jsonschema.Schema            // media type
	responses map[string]map[string]*jsonschema.Schema // status or "default" -> media type
}

// document is what is read of the OpenAPI document beside its schemas.
type document struct {
	Paths map[string]map[string]json.RawMessage `json:"paths"`
}

type operationObject struct {
	OperationID string                     `json:"operationId"`
	RequestBody json.RawMessage            `json:"requestBody"`
	Responses   map[string]json.RawMessage `json:"responses"`
}

type contentObject struct {
	Ref     string                     `json:"$ref"`
	Content map[string]json.RawMessage `json:"content"`
}

// methods are the keys of a path item that are operations.
var methods = []string{"get", "put", "post", "delete", "patch", "head", "options"}

const schemaURL = "https://pyrula.invalid/openapi.json"

// New compiles the document of this build.
func New() (*Checker, error) { return newChecker(transport.OpenAPI()) }

func newChecker(text []byte) (*Checker, error) {
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	c := compiler{Compiler: jsonschema.NewCompiler(), text: text}
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource(schemaURL, parsed); err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	ck := &Checker{}
	if ck.problem, err = c.Compile(schemaURL + "#/components/schemas/Problem"); err != nil {
		return nil, fmt.Errorf("compile the document: %w", err)
	}
	var doc document
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	for template, item := range doc.Paths {
		p, err := c.path(template, item)
		if err != nil {
			return nil, fmt.Errorf("compile %s: %w", template, err)
		}
		ck.paths = append(ck.paths, p)
		if p.segments[0] != "" {
			ck.fixed = append(ck.fixed, p.segments[0])
		}
	}
	slices.SortFunc(ck.paths, func(a, b path) int { return a.parameters() - b.parameters() })
	return ck, nil
}

func (p path) parameters() int {
	n := 0
	for _, s := range p.segments {
		if s == "" {
			n++
		}
	}
	return n
}

// compiler adds the walk over operations to the compiler of schemas.
type compiler struct {
	*jsonschema.Compiler
	text []byte
}

func (c *compiler) path(template string, item map[string]json.RawMessage) (path, error) {
	p := path{segments: strings.Split(template[1:], "/"), operations: map[string]*operation{}}
	for i, s := range p.segments {
		if strings.HasPrefix(s, "{") {
			p.segments[i] = ""
		}
	}
	for _, m := range methods {
		raw, ok := item[m]
		if !ok {
			continue
		}
		op, err := c.operation(pointer("#/paths", template, m), raw)
		if err != nil {
			return p, fmt.Errorf("%s: %w", m, err)
		}
		p.operations[strings.ToUpper(m)] = op
	}
	return p, nil
}

func (c *compiler) operation(at string, raw json.RawMessage) (*operation, error) {
	var o operationObject
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, err
	}
	op := &operation{id: o.OperationID, responses: map[string]map[string]*jsonschema.Schema{}}
	if o.RequestBody != nil {
		byType, err := c.content(pointer(at, "requestBody"), o.RequestBody)
		if err != nil {
			return nil, err
		}
		op.requests = byType
	}
	for status, response := range o.Responses {
		byType, err := c.content(pointer(at, "responses", status), response)
		if err != nil {
			return nil, err
		}
		op.responses[status] = byType
	}
	return op, nil
}

// content compiles the schemas of a response or a request body by media type.
func (c *compiler) content(at string, raw json.RawMessage) (map[string]*jsonschema.Schema, error) {
	var o contentObject
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, err
	}
	if o.Ref != "" {
		target, err := c.resolve(o.Ref)
		if err != nil {
			return nil, err
		}
		return c.content(o.Ref, target)
	}
	byType := map[string]*jsonschema.Schema{}
	for mediaType := range o.Content {
		s, err := c.Compile(schemaURL + pointer(at, "content", mediaType, "schema"))
		if err != nil {
			return nil, err
		}
		byType[mediaType] = s
	}
	return byType, nil
}

// resolve reads what a reference into the document points at.
func (c *compiler) resolve(ref string) (json.RawMessage, error) {
	at := json.RawMessage(c.text)
	for token := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(at, &object); err != nil {
			return nil, fmt.Errorf("follow %s: %w", ref, err)
		}
		if at = object[token]; at == nil {
			return nil, fmt.Errorf("follow %s: it points at nothing", ref)
		}
	}
	return at, nil
}

// pointer adds steps to a JSON pointer in a URL's fragment.
func pointer(at string, steps ...string) string {
	for _, s := range steps {
		s = strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
		at += "/" + url.PathEscape(s)
	}
	return at
}

// Exchange is a request and its answer, as they went over the wire.
type Exchange struct {
	Method      string
	Path        string // percent-encoded, without the query
	Request     []byte // the body; not looked at when the request was refused
	RequestType string // its Content-Type
	Status      int
	ContentType string
	Body        []byte
}

// Check says how the exchange departs from the document: an answer that isn't
// promised, or a request that was taken and isn't allowed.
func (c *Checker) Check(e Exchange) error {
	op := c.find(e.Method, e.Path)
	if op == nil {
		if e.Status < 400 {
			return fmt.Errorf("%s %s answered %d, and the document doesn't have it", e.Method, e.Path, e.Status)
		}
		return c.checkProblem(e)
	}
	schema, err := op.answer(e)
	if err != nil {
		return fmt.Errorf("%s: %w", op.id, err)
	}
	if e.Method == http.MethodHead {
		return nil
	}
	if err := validate(schema, e.ContentType, e.Body); err != nil {
		return fmt.Errorf("%s: the body of %d: %w", op.id, e.Status, err)
	}
	if e.ContentType == wire.ContentProblem {
		return c.checkProblem(e)
	}
	if e.Status < 400 && len(e.Request) > 0 {
		if err := validate(op.request(e.RequestType), e.RequestType, e.Request); err != nil {
			return fmt.Errorf("%s: a request was taken that isn't allowed: %w", op.id, err)
		}
	}
	return nil
}

// request is the schema of a body of a type. A type that the document doesn't have is JSON
// under another name: that of a form, or of the data of an event.
func (o *operation) request(contentType string) *jsonschema.Schema {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if schema, ok := o.requests[mediaType]; ok && err == nil {
		return schema
	}
	return o.requests[wire.ContentJSON]
}

// answer is the schema of the answer's body; nil for text that has none to check.
func (o *operation) answer(e Exchange) (*jsonschema.Schema, error) {
	byType, ok := o.responses[strconv.Itoa(e.Status)]
	if !ok && e.Status >= 400 {
		byType, ok = o.responses["default"]
	}
	if !ok {
		return nil, fmt.Errorf("status %d isn't in the document", e.Status)
	}
	mediaType, _, err := mime.ParseMediaType(e.ContentType)
	if err != nil {
		return nil, fmt.Errorf("content type %q of %d: %w", e.ContentType, e.Status, err)
	}
	schema, ok := byType[mediaType]
	if !ok {
		return nil, fmt.Errorf("content type %q of %d isn't in the document", e.ContentType, e.Status)
	}
	if !strings.HasSuffix(mediaType, "json") {
		return nil, nil
	}
	return schema, nil
}

// isLines says whether a schema is that of each line of a body.
func isLines(contentType string) bool {
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && (strings.HasSuffix(mediaType, "ndjson") || strings.Contains(mediaType, "jsonl"))
}

// checkProblem holds a refusal against the shape of problems, wherever it came from.
func (c *Checker) checkProblem(e Exchange) error {
	if e.ContentType != wire.ContentProblem {
		return fmt.Errorf("%s %s answered %d with content type %q", e.Method, e.Path, e.Status, e.ContentType)
	}
	if e.Method == http.MethodHead {
		return nil
	}
	if err := validate(c.problem, e.ContentType, e.Body); err != nil {
		return fmt.Errorf("%s %s: the problem of %d: %w", e.Method, e.Path, e.Status, err)
	}
	var p wire.Problem
	if err := json.Unmarshal(e.Body, &p); err != nil {
		return fmt.Errorf("%s %s: the problem of %d: %w", e.Method, e.Path, e.Status, err)
	}
	if t, ok := transport.Describe(p.Code); !ok || p.Status != e.Status || t.Status != e.Status {
		return fmt.Errorf("%s %s answered %d with the problem %s of %d", e.Method, e.Path, e.Status, p.Code, p.Status)
	}
	return nil
}

func validate(s *jsonschema.Schema, contentType string, body []byte) error {
	switch {
	case s == nil:
		return nil
	case isLines(contentType):
		for line := range bytes.Lines(body) {
			if err := validate(s, wire.ContentJSON, line); err != nil {
				return err
			}
		}
		return nil
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%q: %w", body, err)
	}
	if err := s.Validate(v); err != nil {
		return fmt.Errorf("%s: %w", body, err)
	}
	return nil
}

func (c *Checker) find(method, escaped string) *operation {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if escaped == "" || escaped[0] != '/' {
		return nil
	}
	segments := strings.Split(escaped[1:], "/")
	for i, s := range segments {
		plain, err := url.PathUnescape(s)
		if err != nil {
			return nil
		}
		segments[i] = plain
	}
	for _, p := range c.paths {
		if op := p.operations[method]; op != nil && c.matches(p, segments) {
			return op
		}
	}
	return nil
}

func (c *Checker) matches(p path, segments []string) bool {
	if len(p.segments) != len(segments) {
		return false
	}
	for i, s := range p.segments {
		if s != "" && s != segments[i] {
			return false
		}
	}
	return p.segments[0] != "" || !slices.Contains(c.fixed, segments[0])
}
