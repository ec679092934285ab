package tidy

import (
	"fmt"
	"go/ast"
	"path"
	"strings"
	"testing"
)

// clockFile is the one file of the shard host that may read the clock; the rest
// is told the time.
const clockFile = "clock.go"

// clockReads are the calls that ask the machine for the time.
var clockReads = map[string]bool{"time.Now": true, "time.Since": true, "time.Until": true}

// selected writes a selector of a plain name as pkg.Name, by the name that the
// package has in its path.
func selected(f *goFile, n ast.Node) string {
	sel, ok := n.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok {
		return ""
	}
	for _, spec := range f.ast.Imports {
		p := importPath(spec)
		name := path.Base(p)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == x.Name {
			return path.Base(p) + "." + sel.Sel.Name
		}
	}
	return ""
}

func checkClock(m *module) []string {
	var problems []string
	marks := markersOf(m, "clock")
	for _, f := range m.files {
		if f.test || !isUnder(f.dir, "actors") || path.Base(f.name) == clockFile {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			name := selected(f, n)
			if clockReads[name] && !marks.excuseAt(m, n.Pos()) {
				problems = append(problems, fmt.Sprintf("%s: %s outside of %s: the shard host is told the time", m.at(n.Pos()), name, clockFile))
			}
			return true
		})
	}
	return append(problems, marks.unused()...)
}

// TestClock fails when the shard host reads the clock elsewhere than at its one
// seam, by a call or by handing the function on.
func TestClock(t *testing.T) {
	report(t, checkClock(loadRepository(t)))
}

func TestClockCatches(t *testing.T) {
	body := "func f() {\n\tnow := clock.Now\n\tclock.Since(now())\n\t//tidy:clock it only labels a log line\n\tprintln(now, clock.Now())\n\tprintln(clock.Second)\n}\n"
	file := "package actors\n\nimport clock \"time\"\n\n" + body
	m := fixture(t, map[string]string{
		"actors/host.go": file, "actors/clock.go": strings.ReplaceAll(file, "//tidy:clock it only labels a log line", ""),
		"actors/host_test.go": strings.ReplaceAll(file, "//tidy:clock it only labels a log line", ""),
	})
	expect(t, checkClock(m), "actors/host.go:6: time.Now outside", "actors/host.go:7: time.Since outside")
}
