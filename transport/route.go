package transport

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// class says when a route is refused because too much is under way.
type class uint8

const (
	classNew   class = iota // asks for new work or for a view: refused first
	classEnd                // renews, records, ends or stops work: refused last (R7)
	classProbe              // asked by probes and Prometheus: never refused
)

// route is one method of one path.
type route struct {
	method  string
	pattern string // "{name}" is one segment, any text, percent-decoded
	class   class
	query   []string // the query parameters it takes
	serve   func(*exchange) error
	label   string // in metrics: method and pattern; newRouter fills it in
}

// routes are all paths of the API.
var routes = []route{
	{method: "GET", pattern: "/v1/workflows", serve: (*exchange).listWorkflows},
	{method: "GET", pattern: "/v1/workflows/{name}", serve: (*exchange).readWorkflow},
	{method: "PUT", pattern: "/v1/workflows/{name}", serve: (*exchange).declare},
	{method: "POST", pattern: "/v1/workflows/{name}/runs", serve: (*exchange).submitOne},
	{method: "POST", pattern: "/v1/workflows/{name}/events", serve: (*exchange).sendEvents},
	{method: "POST", pattern: "/v1/runs:batch", serve: (*exchange).submitBatch},
	{method: "POST", pattern: "/v1/runs:complete", class: classEnd, serve: (*exchange).completeBatch},
	{method: "POST", pattern: "/v1/claims", serve: (*exchange).claims},
	{method: "POST", pattern: "/v1/heartbeats", class: classEnd, serve: (*exchange).heartbeats},
	{method: "GET", pattern: "/v1/runs", query: []string{"workflow", "key", "status", "limit", "cursor"}, serve: (*exchange).listRuns},
	{method: "GET", pattern: "/v1/runs/{id}", query: []string{"wait_ms"}, serve: (*exchange).readRun},
	{method: "GET", pattern: "/v1/runs/{id}/result", query: []string{"wait_ms"}, serve: (*exchange).readResult},
	{method: "GET", pattern: "/v1/runs/{id}/events", serve: (*exchange).readEvents},
	{method: "GET", pattern: "/v1/runs/{id}/why", serve: (*exchange).readWhy},
	{method: "POST", pattern: "/v1/runs/{id}/complete", class: classEnd, serve: (*exchange).completeOne},
	{method: "POST", pattern: "/v1/runs/{id}/fail", class: classEnd, serve: (*exchange).failOne},
	{method: "POST", pattern: "/v1/runs/{id}/suspend", class: classEnd, serve: (*exchange).suspendOne},
	{method: "POST", pattern: "/v1/runs/{id}/cancel", class: classEnd, serve: (*exchange).cancel},
	{method: "POST", pattern: "/v1/runs/{id}/terminate", class: classEnd, serve: (*exchange).terminate},
	{method: "GET", pattern: "/v1/runs/{id}/steps", class: classEnd, query: []string{"after"}, serve: (*exchange).readHistory},
	{method: "POST", pattern: "/v1/runs/{id}/steps", class: classEnd, serve: (*exchange).recordSteps},
	{method: "POST", pattern: "/v1/runs/{id}/children", class: classEnd, serve: (*exchange).startChildren},
	{method: "POST", pattern: "/v1/runs/{id}/retry", serve: (*exchange).retry},
	{method: "POST", pattern: "/v1/runs/{id}/signals/{signal}", class: classEnd, serve: (*exchange).signal},
	{method: "POST", pattern: "/v1/resolutions", class: classEnd, serve: (*exchange).resolutions},
	{method: "GET", pattern: "/v1/schedules", serve: (*exchange).listSchedules},
	{method: "POST", pattern: "/v1/schedules", serve: (*exchange).createSchedule},
	{method: "GET", pattern: "/v1/schedules/{name}", serve: (*exchange).readSchedule},
	{method: "PUT", pattern: "/v1/schedules/{name}", serve: (*exchange).putSchedule},
	{method: "DELETE", pattern: "/v1/schedules/{name}", serve: (*exchange).deleteSchedule},
	{method: "GET", pattern: "/v1/keys/{workflow}/{key}", serve: (*exchange).readKey},
	{method: "GET", pattern: "/v1/node", serve: (*exchange).describe},
	{method: "GET", pattern: "/v1/problems/{code}", class: classProbe, serve: (*exchange).describeProblem},
	{method: "GET", pattern: "/livez", class: classProbe, serve: (*exchange).live},
	{method: "GET", pattern: "/healthz", class: classProbe, serve: (*exchange).live},
	{method: "GET", pattern: "/readyz", class: classProbe, serve: (*exchange).ready},
	{method: "GET", pattern: "/metrics", class: classProbe, serve: (*exchange).metrics},
	{method: "GET", pattern: "/openapi.json", class: classProbe, serve: (*exchange).openAPI},
	{method: "POST", pattern: "/{name}", serve: (*exchange).submitShort},
	{method: "POST", pattern: "/{name}/events", serve: (*exchange).sendEvents},
}

// maxSegments is the number of segments of the longest path.
const maxSegments = 5

// branch is one path with its methods.
type branch struct {
	segments []string // a wildcard is ""
	methods  []*route
	allow    string
}

// router finds the route of a path. http.ServeMux isn't it: it cleans "..", joins
// "//" and redirects, and a key may be "", ".." or "a/b" (S99).
type router struct {
	bySegments [maxSegments + 1][]*branch // fewest wildcards first
	fixed      []string                   // first segments that are no workflow's name
}

func newRouter(all []route) *router {
	rt := &router{}
	all = slices.Clone(all)
	for i := range all {
		all[i].label = all[i].method + " " + all[i].pattern
		rt.add(&all[i])
	}
	for _, same := range rt.bySegments {
		slices.SortStableFunc(same, func(a, b *branch) int { return a.wildcards() - b.wildcards() })
		for _, b := range same {
			b.allow = b.allowed()
			if b.segments[0] != "" {
				rt.fixed = append(rt.fixed, b.segments[0])
			}
		}
	}
	slices.Sort(rt.fixed)
	rt.fixed = slices.Compact(rt.fixed)
	return rt
}

func (rt *router) add(r *route) {
	segments := strings.Split(r.pattern[1:], "/")
	for i, s := range segments {
		if s[0] == '{' {
			segments[i] = ""
		}
	}
	same := rt.bySegments[len(segments)]
	i := slices.IndexFunc(same, func(b *branch) bool { return slices.Equal(b.segments, segments) })
	if i < 0 {
		same = append(same, &branch{segments: segments})
		i = len(same) - 1
		rt.bySegments[len(segments)] = same
	}
	same[i].methods = append(same[i].methods, r)
}

func (b *branch) wildcards() int {
	n := 0
	for _, s := range b.segments {
		if s == "" {
			n++
		}
	}
	return n
}

// allowed is the header Allow of the path.
func (b *branch) allowed() string {
	var methods []string
	for _, r := range b.methods {
		methods = append(methods, r.method)
		if r.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
	}
	return strings.Join(methods, ", ")
}

// route is the one that serves a method; HEAD is served where GET is.
func (b *branch) route(method string) *route {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for _, r := range b.methods {
		if r.method == method {
			return r
		}
	}
	return nil
}

// find gives the path's branch, or nil, and writes the texts of its wildcards to
// vars.
func (rt *router) find(u *url.URL, vars *[maxSegments]string) *branch {
	var segments [maxSegments]string
	n, ok := split(u, &segments)
	if !ok {
		return nil
	}
	for _, b := range rt.bySegments[n] {
		if rt.matches(b, segments[:n]) {
			v := 0
			for i, s := range b.segments {
				if s == "" {
					vars[v] = segments[i]
					v++
				}
			}
			return b
		}
	}
	return nil
}

func (rt *router) matches(b *branch, segments []string) bool {
	for i, s := range b.segments {
		if s != "" && s != segments[i] {
			return false
		}
	}
	if b.segments[0] == "" {
		_, taken := slices.BinarySearch(rt.fixed, segments[0])
		return !taken && segments[0] != ""
	}
	return true
}

// split cuts a path into its segments and undoes their escapes, in this order: an
// escaped slash is part of its segment.
func split(u *url.URL, segments *[maxSegments]string) (int, bool) {
	// Without RawPath the path has no escape that could matter: url.Parse keeps it
	// whenever the default escaping isn't what was sent.
	path, escaped := u.Path, u.RawPath != ""
	if escaped {
		path = u.EscapedPath()
	}
	if path == "" || path[0] != '/' {
		return 0, false
	}
	n, rest := 0, path[1:]
	for more := true; more; n++ {
		if n == maxSegments {
			return 0, false
		}
		segments[n], rest, more = strings.Cut(rest, "/")
		if escaped {
			s, err := url.PathUnescape(segments[n])
			if err != nil {
				return 0, false
			}
			segments[n] = s
		}
	}
	return n, true
}
