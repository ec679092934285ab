package transport

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// Every route is in the document, and every operation of the document is a route,
// with the same query parameters.
func TestRoutesAreInTheDocument(t *testing.T) {
	type parameter struct {
		Name string
		In   string
	}
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(document, &doc); err != nil {
		t.Fatal(err)
	}
	described := map[string][]string{}
	for path, item := range doc.Paths {
		for method, raw := range item {
			if method == "parameters" {
				continue
			}
			var op struct{ Parameters []json.RawMessage }
			if err := json.Unmarshal(raw, &op); err != nil {
				t.Fatalf("%s %s: %v", method, path, err)
			}
			query := []string{}
			for _, raw := range op.Parameters {
				var p parameter
				if err := json.Unmarshal(raw, &p); err != nil {
					t.Fatal(err)
				}
				switch {
				case p.In == "query":
					query = append(query, p.Name)
				case strings.Contains(string(raw), "parameters/waitMS"):
					query = append(query, "wait_ms")
				}
			}
			described[strings.ToUpper(method)+" "+path] = query
		}
	}
	for _, r := range routes {
		label := r.method + " " + r.pattern
		query, ok := described[label]
		delete(described, label)
		switch {
		case !ok:
			t.Errorf("%s isn't in the document", label)
		case r.class == classProbe:
			// Probes may ask with anything; the document names what means something.
		case !slices.Equal(query, r.query) && len(query)+len(r.query) > 0:
			t.Errorf("%s takes the parameters %v, the document has %v", label, r.query, query)
		}
	}
	for label := range described {
		t.Errorf("%s is in the document and no route", label)
	}
}

// The routes that a table forgets would be found by nobody.
func TestRoutesAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range routes {
		label := r.method + " " + r.pattern
		if seen[label] {
			t.Errorf("%s stands twice", label)
		}
		seen[label] = true
		if n := strings.Count(r.pattern, "/"); n > maxSegments {
			t.Errorf("%s has %d segments, more than %d", label, n, maxSegments)
		}
	}
}
