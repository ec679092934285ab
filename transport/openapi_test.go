package transport_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/transport"
)

// shapes are all structs of flow/wire that stand in a body.
var shapes = []any{
	wire.Batch{}, wire.BatchResult{}, wire.Beat{}, wire.BeatResult{}, wire.Claim{}, wire.ClaimWorkflow{}, wire.Claimed{}, wire.Complete{},
	wire.CompleteBatch{}, wire.CompleteBatchResult{}, wire.CompleteResult{}, wire.Completion{}, wire.Declaration{}, wire.Declared{}, wire.Ended{},
	wire.Event{}, wire.Events{}, wire.Fail{}, wire.Gate{}, wire.Grant{}, wire.Heartbeat{}, wire.HeartbeatResult{}, wire.Holder{}, wire.KeyView{},
	wire.Limit{}, wire.Live{}, wire.Node{}, wire.NodeShard{}, wire.Problem{}, wire.ProblemType{}, wire.Provenance{}, wire.Rate{}, wire.RateState{},
	wire.Ready{}, wire.ReadyCheck{}, wire.Recovery{}, wire.Result{}, wire.Run{}, wire.RunError{}, wire.RunList{}, wire.ShortSubmitted{}, wire.Signal{},
	wire.Source{}, wire.Stamp{}, wire.StampKeys{}, wire.Step{}, wire.Stop{}, wire.Stopped{}, wire.Submit{}, wire.Submitted{}, wire.Suspend{},
	wire.Until{}, wire.Wait{}, wire.Why{}, wire.WhyGate{}, wire.Workflow{}, wire.WorkflowList{}, wire.WorkflowVersion{},
	wire.Candidate{}, wire.Kafka{}, wire.ChildGroup{}, wire.ChildRun{}, wire.Children{}, wire.ChildrenStarted{}, wire.History{}, wire.Outcome{}, wire.Recorded{},
	wire.Resolution{}, wire.Resolve{}, wire.Resolved{}, wire.ResolvedRun{}, wire.Retry{}, wire.Schedule{}, wire.ScheduleDeleted{}, wire.ScheduleList{},
	wire.ScheduleView{}, wire.SignalTake{}, wire.Signalled{}, wire.Steps{}, wire.WaitEnd{},
	wire.Trigger{}, wire.Collect{}, wire.Debounce{}, wire.Triggered{}, wire.EventsResult{}, wire.OpenBatch{},
}

// notInBodies are those that don't: Key is written by hand, ListQuery is a query, of
// SignalRequest only the payload is the body, and a TriggerEvent stands in several forms.
var notInBodies = []string{"Key", "ListQuery", "SignalRequest", "TriggerEvent"}

// notShapes are schemas of no struct.
var notShapes = []string{"RunID", "RunStatus", "ProblemCode", "CloudEvent"}

// schema is what the tests read of a schema.
type schema struct {
	Ref         string            `json:"$ref"`
	Type        typeNames         `json:"type"`
	Enum        []any             `json:"enum"`
	OneOf       []schema          `json:"oneOf"`
	AnyOf       []schema          `json:"anyOf"`
	AllOf       []schema          `json:"allOf"`
	Items       *schema           `json:"items"`
	Required    []string          `json:"required"`
	Properties  map[string]schema `json:"properties"`
	Additional  *bool             `json:"additionalProperties"`
	Description string            `json:"description"`
}

// typeNames is the keyword type: one name or several.
type typeNames []string

func (n *typeNames) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		*n = make(typeNames, 1)
		return json.Unmarshal(b, &(*n)[0])
	}
	return json.Unmarshal(b, (*[]string)(n))
}

type openAPI struct {
	Paths      map[string]map[string]json.RawMessage `json:"paths"`
	Components struct {
		Schemas map[string]schema `json:"schemas"`
	} `json:"components"`
}

func readOpenAPI(t *testing.T) openAPI {
	t.Helper()
	var doc openAPI
	if err := json.Unmarshal(transport.OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// nullable says whether null fits.
func (s schema) nullable() bool {
	if len(s.OneOf) > 0 && len(s.Properties) == 0 {
		return slices.ContainsFunc(s.OneOf, func(o schema) bool { return slices.Contains(o.Type, "null") })
	}
	return s.any() || slices.Contains(s.Type, "null") || slices.Contains(s.Enum, nil)
}

// any says whether everything fits.
func (s schema) any() bool {
	return s.Ref == "" && len(s.Type) == 0 && len(s.Enum) == 0 && len(s.OneOf) == 0 && len(s.AllOf) == 0
}

// some is the schema of a value that isn't null.
func (s schema) some() schema {
	for _, o := range s.OneOf {
		if !slices.Contains(o.Type, "null") && o.Ref != "" {
			return o
		}
	}
	return s
}

// field is a field of a struct as it stands in JSON.
type field struct {
	name     string
	typ      reflect.Type
	optional bool
}

func fieldsOf(t reflect.Type) []field {
	var all []field
	for f := range t.Fields() {
		if f.Anonymous {
			all = append(all, fieldsOf(f.Type)...)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" { // not of the wire
			continue
		}
		all = append(all, field{name, f.Type, options == "omitempty"})
	}
	return all
}

// isRequest says whether a schema is of a body that clients send: those are closed.
func (s schema) isRequest() bool { return s.Additional != nil && !*s.Additional }

func TestSchemasAreTheShapes(t *testing.T) {
	doc := readOpenAPI(t)
	for _, shape := range shapes {
		typ := reflect.TypeOf(shape)
		s, ok := doc.Components.Schemas[typ.Name()]
		if !ok {
			t.Errorf("%s has no schema", typ.Name())
			continue
		}
		fields := fieldsOf(typ)
		if len(fields) != len(s.Properties) {
			t.Errorf("%s has %d fields, its schema %d properties", typ.Name(), len(fields), len(s.Properties))
		}
		for _, f := range fields {
			p, ok := s.Properties[f.name]
			if !ok {
				t.Errorf("%s.%s isn't in its schema", typ.Name(), f.name)
				continue
			}
			if !fits(f.typ, p) {
				t.Errorf("%s.%s is a %v, its schema says %+v", typ.Name(), f.name, f.typ, p)
			}
			if s.isRequest() {
				continue // TestRequestsAreAsDocumented asks the code
			}
			if required := slices.Contains(s.Required, f.name); required == f.optional {
				t.Errorf("%s.%s is required: %v, and may be left out: %v", typ.Name(), f.name, required, f.optional)
			}
			if null := f.typ.Kind() == reflect.Pointer && !f.optional; null != p.nullable() && !p.any() {
				t.Errorf("%s.%s may be null: %v, its schema says %v", typ.Name(), f.name, null, p.nullable())
			}
		}
	}
}

var rawMessage = reflect.TypeFor[json.RawMessage]()

// fits says whether a schema describes values of a type.
func fits(typ reflect.Type, s schema) bool {
	if typ.Kind() == reflect.Pointer {
		return fits(typ.Elem(), s.some())
	}
	is := func(name string) bool { return slices.Contains(s.Type, name) }
	switch {
	case typ == rawMessage:
		return s.any() || is("object") || s.some().Ref != ""
	case typ.Kind() == reflect.Struct:
		return s.Ref == "#/components/schemas/"+typ.Name()
	case typ.Kind() == reflect.Slice:
		if !is("array") {
			return false
		}
		if items := *s.Items; len(items.AllOf) > 0 {
			return fits(typ.Elem(), items.AllOf[0])
		}
		return fits(typ.Elem(), *s.Items)
	case typ.Kind() == reflect.String:
		return is("string") || len(s.Enum) > 0 || slices.Contains([]string{"RunID", "RunStatus", "ProblemCode"}, strings.TrimPrefix(s.Ref, "#/components/schemas/"))
	case typ.Kind() == reflect.Bool:
		return is("boolean")
	case typ.Kind() == reflect.Float64:
		return is("number")
	}
	return is("integer")
}

// No struct of flow/wire is forgotten, and no schema is left over.
func TestShapesAreAllThereAre(t *testing.T) {
	var declared, known []string
	names, err := filepath.Glob("../flow/wire/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && spec.Name.IsExported() {
				declared = append(declared, spec.Name.Name)
			}
			return true
		})
	}
	for _, s := range shapes {
		known = append(known, reflect.TypeOf(s).Name())
	}
	known = append(known, notInBodies...)
	slices.Sort(declared)
	slices.Sort(known)
	if !slices.Equal(declared, known) {
		t.Errorf("flow/wire has %v\nthe test knows %v", declared, known)
	}
	for name := range readOpenAPI(t).Components.Schemas {
		if !slices.Contains(known, name) && !slices.Contains(notShapes, name) {
			t.Errorf("the schema %s is of no shape", name)
		}
	}
}

func TestProblemCodesAreInTheDocument(t *testing.T) {
	var codes []string
	for _, v := range readOpenAPI(t).Components.Schemas["ProblemCode"].Enum {
		codes = append(codes, v.(string))
	}
	if !slices.Equal(codes, transport.Codes()) {
		t.Errorf("the document has the codes %v, the table %v", codes, transport.Codes())
	}
}
