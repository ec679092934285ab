package tidy

import (
	"cmp"
	"fmt"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// markerKinds are the exceptions that doc.go lists.
var markerKinds = []string{"clock", "long", "ordered", "params"}

const markerPrefix = "//tidy:"

// marker is one comment that allows an exception.
type marker struct {
	kind   string
	reason string
	file   string
	line   int
	used   bool
}

// markers are those of one kind in a module.
type markers struct {
	all []*marker
}

// markersOf collects the markers of one kind.
func markersOf(m *module, kind string) *markers {
	ms := &markers{}
	for _, mk := range allMarkers(m) {
		if mk.kind == kind {
			ms.all = append(ms.all, mk)
		}
	}
	return ms
}

func allMarkers(m *module) []*marker {
	var all []*marker
	for _, f := range m.files {
		for _, group := range f.ast.Comments {
			for _, c := range group.List {
				rest, ok := strings.CutPrefix(c.Text, markerPrefix)
				if !ok {
					continue
				}
				kind, reason, _ := strings.Cut(rest, " ")
				all = append(all, &marker{
					kind: kind, reason: strings.TrimSpace(reason), file: f.name, line: m.line(c.Pos()),
				})
			}
		}
	}
	return all
}

// excuse says whether a marker stands on one of the lines first to last of the
// file, and counts it as used.
func (ms *markers) excuse(file string, first, last int) bool {
	found := false
	for _, mk := range ms.all {
		if mk.file == file && first <= mk.line && mk.line <= last {
			mk.used = true
			found = true
		}
	}
	return found
}

// excuseAt asks for the line of a place and the line above it.
func (ms *markers) excuseAt(m *module, pos token.Pos) bool {
	p := m.fset.Position(pos)
	return ms.excuse(p.Filename, p.Line-1, p.Line)
}

// unused are the markers that excused nothing.
func (ms *markers) unused() []string {
	var problems []string
	for _, mk := range ms.all {
		if !mk.used {
			problems = append(problems, fmt.Sprintf("%s:%d: the marker tidy:%s excuses nothing here", mk.file, mk.line, mk.kind))
		}
	}
	return problems
}

func checkMarkers(m *module) []string {
	var problems []string
	for _, mk := range allMarkers(m) {
		switch {
		case !slices.Contains(markerKinds, mk.kind):
			problems = append(problems, fmt.Sprintf("%s:%d: there is no marker tidy:%s", mk.file, mk.line, mk.kind))
		case len(strings.Fields(mk.reason)) < 2:
			problems = append(problems, fmt.Sprintf("%s:%d: the marker tidy:%s gives no reason", mk.file, mk.line, mk.kind))
		}
	}
	return problems
}

// byPlace sorts problems by file and line number.
func byPlace(problems []string) []string {
	slices.SortStableFunc(problems, func(a, b string) int {
		fileA, lineA := splitPlace(a)
		fileB, lineB := splitPlace(b)
		return cmp.Or(cmp.Compare(fileA, fileB), cmp.Compare(lineA, lineB))
	})
	return problems
}

func splitPlace(problem string) (file string, line int) {
	file, rest, _ := strings.Cut(problem, ":")
	number, _, _ := strings.Cut(rest, ":")
	for _, r := range number {
		if r < '0' || r > '9' {
			return file, 0
		}
		line = line*10 + int(r-'0')
	}
	return file, line
}

// TestMarkers fails for an exception without a reason or of an unknown kind.
func TestMarkers(t *testing.T) {
	report(t, checkMarkers(loadRepository(t)))
}

func TestMarkersCatches(t *testing.T) {
	m := fixture(t, map[string]string{"a/a.go": `package a

//tidy:ordered
//tidy:order it is sorted below
//tidy:ordered it is sorted below
var x int
`})
	expect(t, checkMarkers(m), "a/a.go:3: the marker tidy:ordered gives no reason", "a/a.go:4: there is no marker tidy:order")

	ordered := markersOf(m, "ordered")
	if ordered.excuse("a/a.go", 3, 3); len(ordered.unused()) != 1 {
		t.Errorf("unused = %q, want the one of line 5", ordered.unused())
	}
	expect(t, byPlace([]string{"b:1: x", "a:10: x", "a:9: x"}), "a:9", "a:10", "b:1")
}
