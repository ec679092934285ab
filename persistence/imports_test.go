package persistence

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestR21ImportsStayInside fails when a package of this tree imports another one of
// the module, or package engine anything but its three packages of the standard
// library: a host must be able to import the types without an engine.
func TestR21ImportsStayInside(t *testing.T) {
	const module = "github.com/pyrula/pyrula-node/"
	for _, dir := range []string{".", "engine", "enginetest", "vfs"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, name := range files {
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, spec := range f.Imports {
				path, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				if strings.HasPrefix(path, module) && !strings.HasPrefix(path, module+"persistence") {
					t.Errorf("%s imports %s", name, path)
				}
				if dir == "engine" && !slices.Contains([]string{"context", "errors", "io"}, path) {
					t.Errorf("%s imports %s", name, path)
				}
			}
		}
	}
}
