package tidy

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// module is the tree under test: the text of every file and the syntax of every
// Go file. It is read once and never changed.
type module struct {
	path  string            // module path of go.mod
	texts map[string][]byte // every file by its slash path from the root
	names []string          // keys of texts, sorted
	fset  *token.FileSet
	files []*goFile // Go files outside of testdata, by name
	bad   []string  // files that don't parse
}

// goFile is one parsed Go file.
type goFile struct {
	name string // slash path from the module's root
	dir  string // "." for the root
	src  []byte
	ast  *ast.File
	test bool // the name ends in _test.go
}

// repository is the tree that this test file stands in.
var repository = sync.OnceValues(func() (*module, error) {
	root, err := findRoot()
	if err != nil {
		return nil, err
	}
	names, err := listFiles(root)
	if err != nil {
		return nil, err
	}
	texts := make(map[string][]byte, len(names))
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrNotExist) {
			continue // known to git, removed from disk
		}
		if err != nil {
			return nil, fmt.Errorf("read the tree: %w", err)
		}
		texts[name] = text
	}
	if err := touchDirs(root, names); err != nil {
		return nil, err
	}
	return parseModule(texts)
})

// touchDirs opens every directory of the tree. The go command keeps a test's
// result until a file or directory that the test has opened changes, so this is
// what makes a new file be seen.
func touchDirs(root string, names []string) error {
	seen := map[string]bool{}
	for _, name := range names {
		for dir := path.Dir(name); !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			_, err := os.ReadDir(filepath.Join(root, filepath.FromSlash(dir)))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("read the tree: %w", err)
			}
		}
	}
	return nil
}

func loadRepository(t *testing.T) *module {
	t.Helper()
	m, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// findRoot walks up to the directory that holds go.mod.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the module's root: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("find the module's root: no go.mod above the working directory")
		}
		dir = up
	}
}

// listFiles names what git knows or would add. Where there is no git, or no
// repository, it is every file outside of hidden directories.
func listFiles(root string) ([]string, error) {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	if out, err := cmd.Output(); err == nil {
		return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 }), nil
	}
	var names []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != root && strings.HasPrefix(d.Name(), ".") && d.Name() != ".ci":
			return filepath.SkipDir
		case d.Type().IsRegular():
			rel, err := filepath.Rel(root, p)
			if err != nil {
				return err
			}
			names = append(names, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("walk the tree: %w", err)
	}
	return names, nil
}

var moduleLine = regexp.MustCompile(`(?m)^module\s+(\S+)`)

// parseModule makes a module of a tree given as texts.
func parseModule(texts map[string][]byte) (*module, error) {
	line := moduleLine.FindSubmatch(texts["go.mod"])
	if line == nil {
		return nil, errors.New("go.mod names no module")
	}
	m := &module{path: string(line[1]), texts: texts, fset: token.NewFileSet()}
	for name := range texts {
		m.names = append(m.names, name)
	}
	slices.Sort(m.names)
	for _, name := range m.names {
		if !strings.HasSuffix(name, ".go") || slices.Contains(strings.Split(name, "/"), "testdata") {
			continue
		}
		src := bytes.ReplaceAll(texts[name], []byte("\r\n"), []byte("\n"))
		tree, err := parser.ParseFile(m.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			m.bad = append(m.bad, err.Error())
			continue
		}
		m.files = append(m.files, &goFile{
			name: name, dir: path.Dir(name), src: src, ast: tree, test: strings.HasSuffix(name, "_test.go"),
		})
	}
	return m, nil
}

// at writes a place as file:line.
func (m *module) at(pos token.Pos) string {
	p := m.fset.Position(pos)
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// line is the line number of a place.
func (m *module) line(pos token.Pos) int { return m.fset.Position(pos).Line }

// isUnder says whether dir is room or lies below it.
func isUnder(dir, room string) bool {
	return dir == room || strings.HasPrefix(dir, room+"/")
}

// importPath is the unquoted path of an import.
func importPath(spec *ast.ImportSpec) string { return strings.Trim(spec.Path.Value, "`\"") }

// report fails the test once for each problem.
func report(t *testing.T, problems []string) {
	t.Helper()
	for _, p := range problems {
		t.Error(p)
	}
}

// fixture makes a module of the given files, for tests of the rules themselves.
func fixture(t *testing.T, files map[string]string) *module {
	t.Helper()
	texts := map[string][]byte{"go.mod": []byte("module example.test/m\n")}
	for name, text := range files {
		texts[name] = []byte(text)
	}
	m, err := parseModule(texts)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.bad) > 0 {
		t.Fatalf("fixture doesn't parse: %v", m.bad)
	}
	return m
}

// expect compares problems with what each must contain, in order.
func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("missing a problem with %q", want[i])
		case i >= len(want):
			t.Errorf("unexpected problem %q", got[i])
		case !strings.Contains(got[i], want[i]):
			t.Errorf("problem %d is %q, want it to contain %q", i, got[i], want[i])
		}
	}
}

// TestTreeParses fails for a Go file with a syntax error: the other tests can't
// see into it.
func TestTreeParses(t *testing.T) {
	report(t, loadRepository(t).bad)
}
