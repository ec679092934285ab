package keyexpr

import (
	"errors"
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
)

// program is a compiled expression.
type program struct {
	run   cel.Program
	tree  *ast.AST
	needs *need // of the object
	paths []path
}

// compile makes a program of an expression. The error's text is what would be right.
func compile(env *cel.Env, expression string) (p *program, err error) {
	defer func() {
		// Expressions are foreign input to the parser, the checker and the planner, and those
		// are large. A fault in them must cost one refusal and not the node.
		if fault := recover(); fault != nil {
			p, err = nil, errors.New(noExpression+oneLine(fmt.Sprint("it can't be compiled: ", fault)))
		}
	}()
	parsed, issues := env.Parse(expression)
	if issues.Err() != nil {
		return nil, errors.New(noExpression + unreadable(expression, issues))
	}
	if err := checkShape(parsed.NativeRep()); err != nil {
		return nil, err
	}
	checked, issues := env.Check(parsed)
	if issues.Err() != nil {
		return nil, errors.New(noExpression + unreadable(expression, issues))
	}
	if err := checkResult(checked.OutputType()); err != nil {
		return nil, err
	}
	run, err := env.Program(checked, programOptions()...)
	if err != nil {
		return nil, errors.New(noExpression + oneLine(err.Error()))
	}
	p = &program{run: run, tree: checked.NativeRep()}
	p.paths = pathsOf(p.tree)
	p.needs = needsOf(p.paths)
	return p, nil
}

// checkShape refuses what has no bound or no order, before types are worked out: those of a
// map of maps of maps double with each level.
func checkShape(tree *ast.AST) error {
	loops := 0
	for _, node := range ast.MatchDescendants(ast.NavigateAST(tree), ast.AllMatcher()) {
		kind, why := node.Kind(), ""
		if kind == ast.ComprehensionKind {
			loops++
		}
		switch {
		case loops > maxLoops:
			why = fmt.Sprintf("an expression must have at most %d loops", maxLoops)
		case kind == ast.MapKind && !isLookedUp(node):
			why = `a map must be looked up where it is written, {"a": "b"}[params.c]`
		case kind == ast.StructKind:
			why = "there are no messages, only JSON"
		case kind == ast.CallKind && node.AsCall().FunctionName() == overloads.Matches && !isText(node.AsCall().Args()):
			why = "the pattern of matches must be written out as a string"
		}
		if why != "" {
			return errors.New(noExpression + place(tree.SourceInfo().GetStartLocation(node.ID())) + why)
		}
	}
	return nil
}

func isLookedUp(node ast.NavigableExpr) bool {
	parent, ok := node.Parent()
	if !ok || parent.Kind() != ast.CallKind {
		return false
	}
	args := parent.AsCall().Args()
	switch parent.AsCall().FunctionName() {
	case operators.Index, operators.OptIndex:
		return args[0].ID() == node.ID()
	case operators.In:
		return args[1].ID() == node.ID()
	}
	return false
}

// isText says that the last argument is a string that is written out.
func isText(args []ast.Expr) bool {
	return len(args) > 0 && args[len(args)-1].Kind() == ast.LiteralKind && args[len(args)-1].AsLiteral().Type() == types.StringType
}

// checkResult refuses a result that can't be a key, by its type.
func checkResult(t *cel.Type) error {
	hint := ""
	switch t.Kind() {
	case types.StringKind, types.IntKind, types.UintKind, types.BoolKind, types.DoubleKind, types.NullTypeKind, types.DynKind:
		return nil
	case types.OpaqueKind:
		if t.TypeName() == types.OptionalType.TypeName() {
			hint = `; end it with .orValue("")`
		}
	case types.ListKind, types.MapKind:
		hint = "; take one value out of it"
	case types.BytesKind, types.TimestampKind, types.DurationKind:
		hint = "; put it into string()"
	default: // a type, or nothing at all
	}
	return errors.New("must be a CEL expression that gives a string, a number, a bool or null: it gives " + oneLine(t.String()) + hint)
}
