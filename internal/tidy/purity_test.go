package tidy

import (
	"fmt"
	"go/ast"
	"go/types"
	"path"
	"slices"
	"strings"
	"testing"
)

// pureRooms decide and compute, and touch nothing: the same input gives the same
// result live, in replay and on another machine. What they may not import stands
// in the import table.
var pureRooms = []string{"flow", "keyactor", "runactor", "schedule"}

// floatTypes may have a float in a field, for the reason given. A name that ends
// in "*" stands for all types of a package.
var floatTypes = map[string]string{
	"flow.Rate":     "a declaration says 0.5 a second; it is kept as whole nanoseconds",
	"flow.Collect":  "a declaration says its window in seconds; it is kept as whole nanoseconds",
	"flow.Debounce": "a declaration says its window in seconds; it is kept as whole nanoseconds",
	"flow/wire.*":   "the shapes of requests and answers hold the numbers that people write",
}

func isPure(dir string) bool {
	return slices.ContainsFunc(pureRooms, func(room string) bool { return isUnder(dir, room) })
}

func checkPurity(m *module) ([]string, error) {
	problems := checkGoroutines(m)
	// Elsewhere the marker is a comment like any other.
	ordered := markersOf(m, "ordered")
	ordered.all = slices.DeleteFunc(ordered.all, func(mk *marker) bool { return !isPure(path.Dir(mk.file)) })
	for _, tags := range pureTags {
		tc, err := newTypeChecker(m, tags)
		if err != nil {
			return nil, err
		}
		seen := map[string]bool{}
		for _, f := range m.files {
			if f.test || !isPure(f.dir) || seen[f.dir] {
				continue
			}
			seen[f.dir] = true
			if c := tc.check(f.dir); c != nil {
				problems = append(problems, checkOrder(m, c, ordered)...)
				problems = append(problems, checkFloats(m, c)...)
			}
		}
		problems = append(problems, tc.problems...)
	}
	problems = append(problems, ordered.unused()...)
	slices.Sort(problems)
	return byPlace(slices.Compact(problems)), nil
}

// checkGoroutines finds go statements and channels.
func checkGoroutines(m *module) []string {
	var problems []string
	for _, f := range m.files {
		if f.test || !isPure(f.dir) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				problems = append(problems, m.at(n.Pos())+": a pure package starts no goroutine")
			case *ast.ChanType:
				problems = append(problems, m.at(n.Pos())+": a pure package has no channel")
			}
			return true
		})
	}
	return problems
}

// checkOrder finds iterations whose order changes from run to run: a range over a
// map, and the iterators of package maps unless they are sorted on the spot.
func checkOrder(m *module, c *checked, ordered *markers) []string {
	var problems []string
	flag := func(n ast.Node, what string) {
		if !ordered.excuseAt(m, n.Pos()) {
			problems = append(problems, fmt.Sprintf("%s: %s has no order: sort it, or say with //tidy:ordered why nobody can see it", m.at(n.Pos()), what))
		}
	}
	sorted := map[ast.Expr]bool{}
	for _, f := range c.files {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.RangeStmt:
				if isMap(c.info.TypeOf(n.X)) {
					flag(n, "a range over a map")
				}
			case *ast.CallExpr:
				name := calledFunc(c.info, n)
				if strings.HasPrefix(name, "slices.Sorted") && len(n.Args) > 0 {
					sorted[n.Args[0]] = true
				}
				if slices.Contains([]string{"maps.All", "maps.Keys", "maps.Values"}, name) && !sorted[n] {
					flag(n, name)
				}
			}
			return true
		})
	}
	return problems
}

// isMap says whether ranging over a value of the type is ranging over a map; a
// type parameter counts when one of its types is a map.
func isMap(t types.Type) bool {
	if t == nil {
		return false
	}
	if p, ok := types.Unalias(t).(*types.TypeParam); ok {
		return someTerm(p.Constraint().Underlying(), isMap)
	}
	_, ok := t.Underlying().(*types.Map)
	return ok
}

// someTerm says whether a constraint has a term with the property.
func someTerm(constraint types.Type, is func(types.Type) bool) bool {
	face, ok := constraint.(*types.Interface)
	if !ok {
		return false
	}
	for e := range face.EmbeddedTypes() {
		switch e := types.Unalias(e).(type) {
		case *types.Union:
			for term := range e.Terms() {
				if is(term.Type()) {
					return true
				}
			}
		default:
			if is(e) || someTerm(e.Underlying(), is) {
				return true
			}
		}
	}
	return false
}

// calledFunc is the package and name of a called package-level function.
func calledFunc(info *types.Info, call *ast.CallExpr) string {
	fun := ast.Unparen(call.Fun)
	if index, ok := fun.(*ast.IndexExpr); ok {
		fun = index.X
	}
	sel, ok := fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	fn, ok := info.Uses[sel.Sel].(*types.Func)
	if !ok || fn.Pkg() == nil || fn.Signature().Recv() != nil {
		return ""
	}
	return fn.Pkg().Path() + "." + fn.Name()
}

// checkFloats finds declared types that hold a float. Floats round, and two
// machines, or live and replay, must not round apart.
func checkFloats(m *module, c *checked) []string {
	var problems []string
	for _, f := range c.files {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if _, allowed := floatTypes[c.dir+"."+spec.Name.Name]; allowed {
				return false
			}
			if _, allowed := floatTypes[c.dir+".*"]; allowed {
				return false
			}
			for _, expr := range heldTypes(spec) {
				if holdsFloat(c.info.TypeOf(expr)) {
					problems = append(problems, fmt.Sprintf("%s: %s.%s holds a float: state is integers and strings", m.at(expr.Pos()), c.dir, spec.Name.Name))
				}
			}
			return true
		})
	}
	return problems
}

// heldTypes are the types of a struct's fields, also of structs inside it, or the
// type itself when it is none.
func heldTypes(spec *ast.TypeSpec) []ast.Expr {
	st, ok := spec.Type.(*ast.StructType)
	if !ok {
		return []ast.Expr{spec.Type}
	}
	var held []ast.Expr
	for _, field := range st.Fields.List {
		held = append(held, field.Type)
	}
	return held
}

// holdsFloat looks through pointers, containers and unnamed structs. A named
// struct answers for itself where it is declared.
func holdsFloat(t types.Type) bool {
	if t == nil {
		return false
	}
	if named, ok := types.Unalias(t).(*types.Named); ok {
		if _, isStruct := named.Underlying().(*types.Struct); isStruct {
			return false
		}
	}
	switch u := t.Underlying().(type) {
	case *types.Basic:
		return u.Info()&(types.IsFloat|types.IsComplex) != 0
	case *types.Pointer:
		return holdsFloat(u.Elem())
	case *types.Slice:
		return holdsFloat(u.Elem())
	case *types.Array:
		return holdsFloat(u.Elem())
	case *types.Map:
		return holdsFloat(u.Key()) || holdsFloat(u.Elem())
	case *types.Struct:
		for field := range u.Fields() {
			if holdsFloat(field.Type()) {
				return true
			}
		}
	}
	return false
}

// TestPurity fails when a pure package starts a goroutine, iterates in an order
// that changes, or keeps a float.
func TestPurity(t *testing.T) {
	problems, err := checkPurity(loadRepository(t))
	if err != nil {
		t.Fatal(err)
	}
	report(t, problems)
}

func TestPurityCatches(t *testing.T) {
	m := fixture(t, map[string]string{
		"flow/a.go": `package flow

import (
	"maps"
	"slices"
)

type Rate struct{ PerSecond float64 }

type Level float32

type Set map[string]int

type Key struct {
	rate  Rate
	names []string
	level *Level
	inner struct{ share map[string]float64 }
}

func order(s Set, names []string) []string {
	for k := range s {
		names = append(names, k)
	}
	for range names {
	}
	for range len(names) {
	}
	//tidy:ordered the sum is the same in every order
	for _, n := range s {
		names[0] += string(rune(n))
	}
	for _, k := range slices.Sorted(maps.Keys(s)) {
		names = append(names, k)
	}
	//tidy:ordered the caller sorts them
	names = slices.Collect(maps.Keys(s))
	return slices.AppendSeq(names, maps.Keys(s))
}

func generic[M map[K]V, K comparable, V any](m M) {
	for range m {
	}
}
`,
		"keyactor/a.go": `package keyactor

import "example.test/m/flow"

func run(s flow.Set) {
	go run(nil)
	done := make(chan bool)
	close(done)
	for range s {
	}
}
`,
		"runactor/a.go":      "//go:build invariants\n\npackage runactor\n\nfunc f(m map[int]int) {\n\tfor range m {\n\t}\n}\n",
		"runactor/b.go":      "//go:build !invariants\n\npackage runactor\n\nfunc f(m map[int]int) {}\n",
		"runactor/a_test.go": "package runactor\nfunc g(m map[int]int) {\n\tfor range m {\n\t}\n\tgo f(nil)\n}\n",
		"flow/wire/a.go":     "package wire\ntype Rate struct{ PerSecond float64 }\n",
		"actors/a.go":        "package actors\nfunc f(m map[int]int) {\n\t//tidy:ordered it sums up\n\tfor range m {\n\t}\n\tgo f(nil)\n}\n",
	})
	problems, err := checkPurity(m)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, problems,
		"flow/a.go:10: flow.Level holds a float",
		"flow/a.go:17: flow.Key holds a float",
		"flow/a.go:18: flow.Key holds a float",
		"flow/a.go:22: a range over a map",
		"flow/a.go:38: maps.Keys",
		"flow/a.go:42: a range over a map",
		"keyactor/a.go:6: a pure package starts no goroutine",
		"keyactor/a.go:7: a pure package has no channel",
		"keyactor/a.go:9: a range over a map",
		"runactor/a.go:6: a range over a map",
	)
}
