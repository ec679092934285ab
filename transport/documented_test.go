package transport_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// fullBodies have every field that this version serves, by the schema and the path
// that takes it. RUN stands for a run that is held under the fence 1, ENDED for one that
// has ended. A schema of which one of several things must be said has a body for each.
var fullBodies = []struct{ schema, target, body string }{
	{"Declaration", "PUT /v1/workflows/w", `{"version":"1","limit":{"key":"k","max":1},"rate":{"key":{"function":"f"},"per_second":1,"burst":1},"max_attempts":2,"retry_backoff_seconds":1.5,"lease_seconds":2}`},
	{"Declaration", "PUT /v1/workflows/w", `{"kafka":{"topic":"t"}}`},
	{"Declaration", "PUT /v1/workflows/w", `{"limit":{"key":"key","max":1},"trigger":{"collect":{"key":"k","max_events":2,"window_seconds":1.5,"max_bytes":3}}}`},
	{"Declaration", "PUT /v1/workflows/w", `{"rate":{"key":"key","per_second":1},"trigger":{"debounce":{"key":{"function":"f"},"window_seconds":1,"max_wait_seconds":2.5}}}`},
	{"Submit", "POST /v1/workflows/w/runs", `{"workflow":"w","params":{"a":1},"idempotency_key":"k","request_id":"r","trigger":"case","stamp":{"version":"1","keys":{"limit":"a","rate":"b"}}}`},
	{"Batch", "POST /v1/runs:batch", `{"runs":[{"workflow":"w","params":{"a":1},"idempotency_key":"k","request_id":"r","trigger":"case","stamp":{"version":"1","keys":{"limit":"a","rate":"b"}}}]}`},
	{"Claim", "POST /v1/claims", `{"worker":"w1","workflows":[{"name":"w","version":"1","gates_hash":"h"}],"credit":1,"wait_ms":0}`},
	{"Heartbeat", "POST /v1/heartbeats", `{"worker":"w1","runs":[{"run_id":"RUN","fence":1}]}`},
	{"Complete", "POST /v1/runs/RUN/complete", `{"fence":1,"result":1,"claim":{"worker":"w1","workflows":[{"name":"x","version":"1","gates_hash":"h"}],"credit":1,"wait_ms":0}}`},
	{"CompleteBatch", "POST /v1/runs:complete", `{"runs":[{"run_id":"RUN","fence":1,"result":1}],"claim":{"worker":"w1","workflows":[{"name":"x"}],"credit":1}}`},
	{"Fail", "POST /v1/runs/RUN/fail", `{"fence":1,"error":{"type":"T","message":"m"},"retryable":false,"claim":{"worker":"w1","workflows":[{"name":"x"}],"credit":1}}`},
	{"Suspend", "POST /v1/runs/RUN/suspend", `{"fence":1,"until":{"at_ms":1},"step":"s","visit":2,"claim":{"worker":"w1","workflows":[{"name":"x"}],"credit":1}}`},
	{"Suspend", "POST /v1/runs/RUN/suspend", `{"fence":1,"until":{"signal":"s","timeout_seconds":1.5}}`},
	{"Suspend", "POST /v1/runs/RUN/suspend", `{"fence":1,"until":{"runs":["RUN"]}}`},
	{"Steps", "POST /v1/runs/RUN/steps", `{"fence":1,"steps":[{"name":"s","visit":2,"result":{"a":1},"cost_units":3},{"name":"t","error":{"type":"T","message":"m"}}],"signals":[{"name":"go","visit":1}],"state":{"a":1},"claim":{"worker":"w1","workflows":[{"name":"x"}],"credit":1}}`},
	{"Children", "POST /v1/runs/RUN/children", `{"fence":1,"kind":"workflow","step":"s","visit":2,"runs":[{"workflow":"x","params":{"a":1},"idempotency_key":"k","stamp":{"version":"1","keys":{"limit":"a","rate":"b"}}}],"claim":{"worker":"w1","workflows":[{"name":"y"}],"credit":1}}`},
	{"Resolve", "POST /v1/resolutions", `{"worker":"w1","runs":[{"run_id":"RUN","version":"2","gates_hash":"h","keys":{"limit":"a","rate":"b"}}]}`},
	{"Resolve", "POST /v1/resolutions", `{"worker":"w1","runs":[{"run_id":"RUN","version":"2","gates_hash":"h","problem":"no"}]}`},
	{"Retry", "POST /v1/runs/ENDED/retry", `{"request_id":"r"}`},
	{"Schedule", "PUT /v1/schedules/s", `{"name":"s","workflow":"w","params":{"a":1},"cron":"0 3 * * *","catch_up":"all","paused":true}`},
	{"Schedule", "PUT /v1/schedules/s", `{"name":"s","workflow":"w","every_seconds":0.5,"start_ms":1}`},
	{"Schedule", "PUT /v1/schedules/s", `{"name":"s","workflow":"w","at_ms":1}`},
	{"Stop", "POST /v1/runs/RUN/cancel", `{"reason":"r"}`},
}

// variant is a body that differs from a full one in one field.
type variant struct {
	what  string
	body  any
	taken bool
}

// TestRequestsAreAsDocumented takes every field of every request away, sets it to
// null, and adds one that nobody knows: the code must take exactly what the
// document allows.
func TestRequestsAreAsDocumented(t *testing.T) {
	doc := readOpenAPI(t)
	for _, full := range fullBodies {
		var body any
		if err := json.Unmarshal([]byte(full.body), &body); err != nil {
			t.Fatal(err)
		}
		s := doc.Components.Schemas[full.schema]
		all := append(doc.variants(body, s, full.schema), variant{"as it is", body, true})
		for _, v := range all {
			a := newAPI(t)
			g := a.hold("w")
			ended := a.submit("ended")
			a.node.held(t, ended).Status = "failed"
			text, err := json.Marshal(v.body)
			if err != nil {
				t.Fatal(err)
			}
			names := strings.NewReplacer("RUN", g.RunID, "ENDED", ended)
			method, path, _ := strings.Cut(names.Replace(full.target), " ")
			w := a.send(method, path, names.Replace(string(text)))
			if taken := w.Code < 300; taken != v.taken {
				t.Errorf("%s: taken %v, the document says %v: %s", v.what, taken, v.taken, w.Body)
			}
		}
	}
}

// variants are those of one value and of all inside it.
func (d openAPI) variants(body any, s schema, at string) []variant {
	s = d.resolve(s)
	switch body := body.(type) {
	case []any:
		var all []variant
		for i, item := range body {
			for _, v := range d.variants(item, *s.Items, at+"[]") {
				other := slices.Clone(body)
				other[i] = v.body
				all = append(all, variant{v.what, other, v.taken})
			}
		}
		return all
	case map[string]any:
		return d.objectVariants(body, s, at)
	}
	return nil
}

func (d openAPI) objectVariants(body map[string]any, s schema, at string) []variant {
	if !s.isRequest() {
		return nil // params, a result: anything goes
	}
	with := func(name string, value any) map[string]any {
		other := maps.Clone(body)
		other[name] = value
		return other
	}
	all := []variant{{at + " with another field", with("another", 1.0), false}}
	for _, name := range slices.Sorted(maps.Keys(body)) {
		p := s.Properties[name]
		without := maps.Clone(body)
		delete(without, name)
		enough := s.saysEnough(without)
		all = append(all, variant{at + "." + name + " null", with(name, nil), p.nullable() && enough})
		all = append(all, variant{at + " without " + name, without, !slices.Contains(s.Required, name) && enough})
		for _, v := range d.variants(body[name], p, at+"."+name) {
			all = append(all, variant{v.what, with(name, v.body), v.taken})
		}
	}
	return all
}

// saysEnough says whether a body has one of the things of which one must be said: what
// the alternatives of an object require.
func (s schema) saysEnough(body map[string]any) bool {
	alternatives := slices.Concat(s.OneOf, s.AnyOf)
	if len(alternatives) == 0 {
		return true
	}
	return slices.ContainsFunc(alternatives, func(alternative schema) bool {
		return !slices.ContainsFunc(alternative.Required, func(name string) bool { return body[name] == nil })
	})
}

// resolve follows references to the schema of an object or a list.
func (d openAPI) resolve(s schema) schema {
	for {
		switch {
		case len(s.AllOf) > 0:
			merged := d.resolve(s.AllOf[0])
			merged.Properties = maps.Clone(merged.Properties)
			for _, more := range s.AllOf[1:] {
				merged.Required = append(slices.Clone(merged.Required), more.Required...)
				maps.Copy(merged.Properties, more.Properties)
			}
			return merged
		case s.Ref != "":
			s = d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
		case len(s.OneOf) > 0 && len(s.Properties) == 0:
			i := slices.IndexFunc(s.OneOf, func(o schema) bool { return o.Ref != "" || o.isRequest() })
			s = s.OneOf[i]
		default:
			return s
		}
	}
}
