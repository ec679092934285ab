package keyexpr

import (
	"strconv"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// The names of the object.
const (
	paramsName = "params"
	eventName  = "event"
)

// maxPath is how many names of a path are followed: below, everything is read.
const maxPath = 8

// isRoot says whether a name of an expression, which a dot may lead, is the object.
func isRoot(name string) bool {
	name = strings.TrimPrefix(name, ".")
	return name == paramsName || name == eventName
}

// path is a value of the object that an expression reads: params.order.id is the names order
// and id under the root params.
type path struct {
	root  string
	names []string
}

// String is the path as an expression writes it.
func (p path) String() string { return p.text("") }

// text writes the path with a mark before its first name.
func (p path) text(mark string) string {
	var text strings.Builder
	text.WriteString(p.root)
	for _, name := range p.names {
		if isWord(name) {
			text.WriteString("." + mark + name)
		} else {
			text.WriteString("[" + mark + strconv.Quote(name) + "]")
		}
		mark = ""
	}
	return text.String()
}

// isWord says whether a name can stand behind a dot.
func isWord(name string) bool {
	switch name {
	case "in", "true", "false", "null":
		return false
	}
	for i, r := range name {
		if r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

// pathsOf are the paths of an expression in their order. A loop may call its variable like
// the object: then there is a path more, and never one less.
func pathsOf(tree *ast.AST) []path {
	var paths []path
	for _, node := range ast.MatchDescendants(ast.NavigateAST(tree), ast.KindMatcher(ast.IdentKind)) {
		if isRoot(node.AsIdent()) {
			paths = append(paths, pathFrom(node))
		}
	}
	return paths
}

// pathFrom follows the names that are written out behind the object.
func pathFrom(node ast.NavigableExpr) path {
	p := path{root: strings.TrimPrefix(node.AsIdent(), ".")}
	for len(p.names) < maxPath {
		parent, ok := node.Parent()
		if !ok {
			break
		}
		name, ok := nameBehind(parent, node.ID())
		if !ok {
			break
		}
		p.names = append(p.names, name)
		node = parent
	}
	return p
}

// nameBehind is the name by which a node selects from its operand.
func nameBehind(node ast.NavigableExpr, operand int64) (string, bool) {
	if node.Kind() == ast.SelectKind {
		return node.AsSelect().FieldName(), true
	}
	if node.Kind() != ast.CallKind {
		return "", false
	}
	switch node.AsCall().FunctionName() {
	case operators.Index, operators.OptIndex, operators.OptSelect:
		args := node.AsCall().Args()
		if args[0].ID() != operand || args[1].Kind() != ast.LiteralKind {
			return "", false
		}
		name, ok := args[1].AsLiteral().(types.String)
		return string(name), ok
	}
	return "", false
}

// need is what an expression reads of a value: all of it, or some of its names.
type need struct {
	whole bool
	path  path // as the expression calls the value
	names map[string]*need
}

func needsOf(paths []path) *need {
	root := &need{path: path{root: paramsName}}
	for _, p := range paths {
		n := root
		for i, name := range p.names {
			if n.names[name] == nil {
				if n.names == nil {
					n.names = make(map[string]*need)
				}
				n.names[name] = &need{path: path{p.root, p.names[:i+1]}}
			}
			n = n.names[name]
		}
		n.whole = true
	}
	return root
}
