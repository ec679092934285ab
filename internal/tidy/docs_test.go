package tidy

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// privateRooms have no reader outside of the module: only their packages need a
// comment, not their names.
var privateRooms = []string{"bench", "cmd", "internal"}

func isPublic(dir string) bool {
	return !slices.ContainsFunc(privateRooms, func(room string) bool { return isUnder(dir, room) })
}

func checkDocs(m *module) []string {
	var problems []string
	packages := map[string]*ast.CommentGroup{}
	first := map[string]*goFile{}
	for _, f := range m.files {
		if f.test {
			continue
		}
		if first[f.dir] == nil {
			first[f.dir] = f
		}
		if f.ast.Doc != nil {
			packages[f.dir] = f.ast.Doc
		}
		if isPublic(f.dir) {
			problems = append(problems, checkNames(m, f)...)
		}
	}
	for dir, f := range first {
		name := f.ast.Name.Name
		begins := "Package " + name + " "
		if name == "main" {
			begins = "Command "
		}
		switch doc := packages[dir]; {
		case doc == nil:
			problems = append(problems, fmt.Sprintf("%s:1: package %s has no comment", f.name, dir))
		case !strings.HasPrefix(doc.Text(), begins):
			problems = append(problems, fmt.Sprintf("%s: the comment of package %s doesn't begin with %q", m.at(doc.Pos()), dir, begins))
		}
	}
	slices.Sort(problems)
	return byPlace(problems)
}

// checkNames looks at the exported names that a file declares.
func checkNames(m *module, f *goFile) []string {
	var problems []string
	need := func(id *ast.Ident, doc *ast.CommentGroup) {
		if why := undocumented(id.Name, doc); id.IsExported() && why != "" {
			problems = append(problems, fmt.Sprintf("%s: %s %s", m.at(id.Pos()), id.Name, why))
		}
	}
	for _, d := range f.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || ast.IsExported(receiver(d)) {
				need(d.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					need(spec.Name, firstDoc(spec.Doc, d.Doc))
					if face, ok := spec.Type.(*ast.InterfaceType); ok && spec.Name.IsExported() {
						problems = append(problems, checkMethods(m, spec.Name.Name, face)...)
					}
				case *ast.ValueSpec:
					for _, id := range spec.Names {
						if d.Lparen.IsValid() {
							problems = append(problems, checkMember(m, id, spec, d)...)
						} else {
							need(id, firstDoc(spec.Doc, d.Doc))
						}
					}
				}
			}
		}
	}
	return problems
}

// checkMember looks at one constant or variable of a group: a comment of its own,
// at the end of its line, or the group's will do.
func checkMember(m *module, id *ast.Ident, spec *ast.ValueSpec, group *ast.GenDecl) []string {
	if !id.IsExported() || firstDoc(spec.Doc, spec.Comment, group.Doc) != nil {
		return nil
	}
	return []string{fmt.Sprintf("%s: %s has no comment, and its group has none", m.at(id.Pos()), id.Name)}
}

// checkMethods looks at the methods of an interface. One comment may stand above
// several methods when it names each.
func checkMethods(m *module, face string, typ *ast.InterfaceType) []string {
	var problems []string
	var last *ast.CommentGroup
	for _, field := range typ.Methods.List {
		if field.Doc != nil {
			last = field.Doc
		}
		for _, id := range field.Names {
			shared := field.Doc == nil && last != nil && namesWord(last.Text(), id.Name)
			if why := undocumented(id.Name, field.Doc); id.IsExported() && why != "" && !shared {
				problems = append(problems, fmt.Sprintf("%s: %s.%s %s", m.at(id.Pos()), face, id.Name, why))
			}
		}
	}
	return problems
}

// namesWord says whether the first sentence of a text has the word.
func namesWord(text, word string) bool {
	sentence, _, _ := strings.Cut(text, ".")
	return slices.Contains(strings.FieldsFunc(sentence, func(r rune) bool { return r == ' ' || r == ',' || r == '\n' }), word)
}

// undocumented says what is wrong with the comment of a name, or nothing.
func undocumented(name string, doc *ast.CommentGroup) string {
	if doc == nil || strings.TrimSpace(doc.Text()) == "" {
		return "has no comment"
	}
	words := strings.Fields(doc.Text())
	if len(words) > 1 && slices.Contains([]string{"A", "An", "The"}, words[0]) {
		words = words[1:]
	}
	if strings.TrimRight(words[0], ",:;.") == name {
		return ""
	}
	return "has a comment that doesn't begin with its name"
}

func firstDoc(docs ...*ast.CommentGroup) *ast.CommentGroup {
	for _, doc := range docs {
		if doc != nil {
			return doc
		}
	}
	return nil
}

// receiver is the name of a method's type.
func receiver(fn *ast.FuncDecl) string {
	typ := fn.Recv.List[0].Type
	for {
		switch t := typ.(type) {
		case *ast.StarExpr:
			typ = t.X
		case *ast.IndexExpr:
			typ = t.X
		case *ast.IndexListExpr:
			typ = t.X
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
}

// TestDocs fails for a package or an exported name that nobody explains.
func TestDocs(t *testing.T) {
	report(t, checkDocs(loadRepository(t)))
}

func TestDocsCatches(t *testing.T) {
	m := fixture(t, map[string]string{
		"flow/a.go": `// Package flow is documented.
package flow

type Bare int

// This is wrong.
type Wrong int

// A Run is right.
type Run[T any] struct{ Field int }

// Stop is right.
func (*Run[T]) Stop() {}

func (Run[T]) Bare() {}

type hidden int

func (hidden) String() string { return "" }

// Kinds of things.
const (
	One = iota
	Two
)

const (
	Three = iota
	Four  // Four has a comment
)

// Max bounds something.
const Max = 1

var Open = 2

// Log is a log.
type Log interface {
	// Add and Remove change it.
	Add()
	Remove()
	Other()
	// It closes.
	Close()
}
`,
		"flow/a_test.go": "package flow\nfunc Exported() {}\n",
		"actors/a.go":    "package actors\n",
		"limiter/a.go":   "// Limiter things.\npackage limiter\n",
		"cmd/x/main.go":  "// Command x does it.\npackage main\nfunc Exported() {}\n",
	})
	expect(t, checkDocs(m),
		"actors/a.go:1: package actors has no comment",
		"flow/a.go:4: Bare has no comment",
		"flow/a.go:7: Wrong has a comment that doesn't begin with its name",
		"flow/a.go:15: Bare has no comment",
		"flow/a.go:28: Three has no comment, and its group has none",
		"flow/a.go:35: Open has no comment",
		"flow/a.go:42: Log.Other has no comment",
		"flow/a.go:44: Log.Close has a comment that doesn't begin with its name",
		"limiter/a.go:1: the comment of package limiter doesn't begin with",
	)
}
