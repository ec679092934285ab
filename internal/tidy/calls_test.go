package tidy

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

func checkCalls(m *module) []string {
	var problems []string
	for _, f := range m.files {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if why := wrongCall(m, f, n); why != "" {
				problems = append(problems, m.at(n.Pos())+": "+why)
			}
			return true
		})
	}
	return problems
}

// wrongCall says what is wrong with a node, or nothing.
func wrongCall(m *module, f *goFile, n ast.Node) string {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		if f.test && selected(f, n) == "time.Sleep" {
			return "a test doesn't sleep: wait for a channel, or use virtual time"
		}
	case *ast.AssignStmt:
		if isDiscard(n) && !commented(m, f, n) {
			return "a result is thrown away without a comment that says why"
		}
	case *ast.CallExpr:
		if f.test && skipsSilently(n) {
			return "a skipped test says why"
		}
	}
	return ""
}

// isDiscard says whether all that a statement does with its values is to drop
// them.
func isDiscard(n *ast.AssignStmt) bool {
	return n.Tok == token.ASSIGN && !slices.ContainsFunc(n.Lhs, func(e ast.Expr) bool {
		id, ok := e.(*ast.Ident)
		return !ok || id.Name != "_"
	})
}

// commented says whether a comment ends on the line above a node or stands on its
// last line.
func commented(m *module, f *goFile, n ast.Node) bool {
	first, last := m.line(n.Pos()), m.line(n.End())
	return slices.ContainsFunc(f.ast.Comments, func(c *ast.CommentGroup) bool {
		return m.line(c.End()) == first-1 || m.line(c.Pos()) == last && c.Pos() >= n.End()
	})
}

// testers are the names that the parameter of a test goes by.
var testers = []string{"b", "f", "rt", "t", "tb"}

// skipsSilently finds a call that skips a test and gives no reason.
func skipsSilently(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok || !slices.Contains(testers, x.Name) {
		return false
	}
	switch sel.Sel.Name {
	case "SkipNow":
		return true
	case "Skip", "Skipf":
		if len(call.Args) == 0 {
			return true
		}
		text, ok := call.Args[0].(*ast.BasicLit)
		return ok && len(strings.Trim(text.Value, "\"` ")) == 0
	}
	return false
}

// TestCalls fails for a sleep in a test, a result that is dropped without a word,
// and a skipped test without a reason.
func TestCalls(t *testing.T) {
	report(t, checkCalls(loadRepository(t)))
}

func TestCallsCatches(t *testing.T) {
	body := `package a

import (
	"testing"
	clock "time"
)

func TestX(t *testing.T) {
	clock.Sleep(1)
	t.Skip()
	t.Skip("")
	t.Skip("no disk here")
	t.SkipNow()
	_ = t.Name()
	_ = t.Name() // the name is of no use

	// The name is of no use.
	_ = t.Name()
	_, _ = t.Output().Write(
		nil,
	) // it can't fail
	_, err := t.Output().Write(nil)
	var _ testing.TB = t
	for _ = range 3 {
	}
	func() { _ = err }()
}
`
	m := fixture(t, map[string]string{"a/a_test.go": body, "a/a.go": body})
	expect(t, checkCalls(m),
		"a/a.go:14: a result", "a/a.go:26: a result",
		"a/a_test.go:9: a test doesn't sleep", "a/a_test.go:10: a skipped test", "a/a_test.go:11: a skipped test",
		"a/a_test.go:13: a skipped test", "a/a_test.go:14: a result", "a/a_test.go:26: a result",
	)
}
