package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

const (
	fileLinesMax = 500 // of every Go file, tests too
	funcLinesMax = 70  // of every function outside of tests
	paramsMax    = 4   // of every function and interface method outside of tests
)

// switchShare is how much of a long function its one switch must be: four parts
// of five. Then the function only dispatches, and each case reads by itself.
const (
	switchShareOf  = 4
	switchShareAll = 5
)

func checkFiles(m *module) []string {
	var problems []string
	for _, f := range m.files {
		lines := bytes.Count(f.src, []byte("\n"))
		if lines > fileLinesMax {
			problems = append(problems, fmt.Sprintf("%s:%d: the file has %d lines, more than %d: give it one noun", f.name, fileLinesMax+1, lines, fileLinesMax))
		}
	}
	return problems
}

func checkFuncs(m *module) []string {
	var problems []string
	long, params := markersOf(m, "long"), markersOf(m, "params")
	for _, f := range m.files {
		if f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				problems = append(problems, checkLength(m, d, long)...)
				problems = append(problems, checkParams(m, named{d.Name, d.Doc, d.Type}, params)...)
			case *ast.GenDecl:
				for _, method := range interfaceMethods(d) {
					problems = append(problems, checkParams(m, method, params)...)
				}
			}
		}
	}
	problems = append(problems, long.unused()...)
	return byPlace(append(problems, params.unused()...))
}

// named is a function or a method of an interface.
type named struct {
	name *ast.Ident
	doc  *ast.CommentGroup
	typ  *ast.FuncType
}

func interfaceMethods(d *ast.GenDecl) []named {
	var all []named
	ast.Inspect(d, func(n ast.Node) bool {
		face, ok := n.(*ast.InterfaceType)
		if !ok {
			return true
		}
		for _, field := range face.Methods.List {
			if typ, ok := field.Type.(*ast.FuncType); ok && len(field.Names) == 1 {
				all = append(all, named{field.Names[0], field.Doc, typ})
			}
		}
		return true
	})
	return all
}

// above is the first line of a declaration's comment, or the line before it.
func above(m *module, doc *ast.CommentGroup, pos token.Pos) int {
	if doc != nil {
		return m.line(doc.Pos())
	}
	return m.line(pos) - 1
}

func checkLength(m *module, fn *ast.FuncDecl, long *markers) []string {
	first, last := m.line(fn.Pos()), m.line(fn.End())
	lines := last - first + 1
	if lines <= funcLinesMax {
		return nil
	}
	if !long.excuse(m.fset.Position(fn.Pos()).Filename, above(m, fn.Doc, fn.Pos()), first) {
		return []string{fmt.Sprintf("%s: %s has %d lines, more than %d", m.at(fn.Pos()), fn.Name.Name, lines, funcLinesMax)}
	}
	if switchLines(m, fn)*switchShareAll < lines*switchShareOf {
		return []string{fmt.Sprintf("%s: %s has %d lines and is more than a dispatching switch", m.at(fn.Pos()), fn.Name.Name, lines)}
	}
	return nil
}

// switchLines is the length of the longest switch that stands in the function
// itself, not inside another statement.
func switchLines(m *module, fn *ast.FuncDecl) int {
	most := 0
	if fn.Body == nil {
		return most
	}
	for _, stmt := range fn.Body.List {
		switch stmt.(type) {
		case *ast.SwitchStmt, *ast.TypeSwitchStmt:
			most = max(most, m.line(stmt.End())-m.line(stmt.Pos())+1)
		}
	}
	return most
}

// isOptions says whether a parameter is a list of options, which most callers leave out.
func isOptions(typ ast.Expr) bool {
	list, ok := typ.(*ast.Ellipsis)
	if !ok {
		return false
	}
	switch of := list.Elt.(type) {
	case *ast.Ident:
		return strings.HasSuffix(of.Name, "Option")
	case *ast.SelectorExpr:
		return strings.HasSuffix(of.Sel.Name, "Option")
	}
	return false
}

func checkParams(m *module, fn named, marks *markers) []string {
	count := 0
	for _, field := range fn.typ.Params.List {
		if !isOptions(field.Type) {
			count += max(1, len(field.Names))
		}
	}
	if count <= paramsMax {
		return nil
	}
	pos := fn.name.Pos()
	if marks.excuse(m.fset.Position(pos).Filename, above(m, fn.doc, pos), m.line(pos)) {
		return nil
	}
	return []string{fmt.Sprintf("%s: %s has %d parameters, more than %d: give them a struct", m.at(pos), fn.name.Name, count, paramsMax)}
}

// TestFileLength fails for a file that has grown over its noun.
func TestFileLength(t *testing.T) {
	report(t, checkFiles(loadRepository(t)))
}

// TestFunctions fails for a function that is too long or takes too much.
func TestFunctions(t *testing.T) {
	report(t, checkFuncs(loadRepository(t)))
}

func TestFileLengthCatches(t *testing.T) {
	m := fixture(t, map[string]string{
		"a/a.go":      "package a\n" + strings.Repeat("\n", fileLinesMax-1),
		"a/b_test.go": "package a\n" + strings.Repeat("\n", fileLinesMax),
	})
	expect(t, checkFiles(m), "a/b_test.go:501: the file has 501 lines")
}

func TestFunctionsCatches(t *testing.T) {
	statements := strings.Repeat("\tprintln()\n", funcLinesMax-1)
	cases := "\tswitch {\n" + strings.Repeat("\tcase true:\n", funcLinesMax) + "\t}\n"
	m := fixture(t, map[string]string{
		"a/exact.go":  "package a\nfunc f() {\n" + strings.TrimSuffix(statements, "\tprintln()\n") + "}\n",
		"a/long.go":   "package a\nfunc f() {\n" + statements + "}\n",
		"a/mixed.go":  "package a\n//tidy:long it only dispatches\nfunc f() {\n" + statements + cases + "}\n",
		"a/switch.go": "package a\n\n// f dispatches.\n//\n//tidy:long it only dispatches\nfunc f() {\n" + cases + "}\n",
		"a/stale.go":  "package a\n//tidy:long it was long once\nfunc f() {}\n",
		"a/params.go": "package a\nfunc f(a, b int, c ...int) {}\nfunc h(a, b, c, d int, o ...p.RunOption) {}\nfunc g(a, b, c, d, e int) {}\ntype I interface {\n\tM(int, int, int, int, int)\n\t//tidy:params io somebody decides\n\tN(int, int, int, int, int)\n}\n",
		"a/a_test.go": "package a\nfunc f(a, b, c, d, e int) {\n" + statements + "}\n",
	})
	expect(t, checkFuncs(m),
		"a/long.go:2: f has 71 lines, more than 70",
		"a/mixed.go:3: f has 143 lines and is more than a dispatching switch",
		"a/params.go:4: g has 5 parameters",
		"a/params.go:6: M has 5 parameters",
		"a/stale.go:2: the marker tidy:long excuses nothing",
	)
}
