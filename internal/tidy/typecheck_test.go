package tidy

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// checked is one package with its types known.
type checked struct {
	dir   string
	files []*goFile
	pkg   *types.Package
	info  *types.Info
}

// typeChecker knows the types of the pure packages: their own from source, the
// rest from what the go command has compiled. So it works on a tree of which
// other packages don't build.
type typeChecker struct {
	m        *module
	build    *build.Context
	outside  types.Importer
	packages map[string]*checked
	problems []string
}

// pureTags are the build tags under which the pure packages are looked at once
// more, since some of their files may be in one build and not in the other.
var pureTags = [][]string{nil, {"invariants", "torture"}}

func newTypeChecker(m *module, tags []string) (*typeChecker, error) {
	ctx := build.Default
	ctx.BuildTags = tags
	tc := &typeChecker{m: m, build: &ctx, packages: map[string]*checked{}}
	ctx.OpenFile = func(name string) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(string(m.texts[name]))), nil
	}
	exports, err := exportData(tc.outsideImports())
	if err != nil {
		return nil, err
	}
	tc.outside = importer.ForCompiler(m.fset, "gc", func(p string) (io.ReadCloser, error) {
		file, ok := exports[p]
		if !ok {
			return nil, fmt.Errorf("no export data for %s", p)
		}
		return os.Open(file)
	})
	return tc, nil
}

// outsideImports are the packages of others that the pure rooms import.
func (tc *typeChecker) outsideImports() []string {
	var paths []string
	for _, f := range tc.m.files {
		if f.test || !isPure(f.dir) {
			continue
		}
		for _, spec := range f.ast.Imports {
			p := importPath(spec)
			if !strings.HasPrefix(p, tc.m.path+"/") && p != "C" && p != "unsafe" {
				paths = append(paths, p)
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// exportData asks the go command for the compiled form of packages and of
// everything below them. The race build is asked for in a race test, since that
// is the one the build cache already has.
func exportData(paths []string) (map[string]string, error) {
	exports := map[string]string{}
	if len(paths) == 0 {
		return exports, nil
	}
	args := append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"}, raceFlag...)
	out, err := exec.Command("go", append(append(args, "--"), paths...)...).Output()
	if err != nil {
		detail := ""
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			detail = string(exit.Stderr)
		}
		return nil, fmt.Errorf("go list -export: %w\n%s", err, detail)
	}
	for line := range strings.Lines(string(out)) {
		if p, file, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			exports[p] = file
		}
	}
	return exports, nil
}

// Import lets the checker be the importer of the packages it checks.
func (tc *typeChecker) Import(p string) (*types.Package, error) {
	dir, own := strings.CutPrefix(p, tc.m.path+"/")
	if !own {
		return tc.outside.Import(p)
	}
	c := tc.check(dir)
	if c == nil || c.pkg == nil {
		return nil, fmt.Errorf("%s has no Go files, or imports itself", dir)
	}
	return c.pkg, nil
}

// check finds the types of one package of the module, and of those it imports.
func (tc *typeChecker) check(dir string) *checked {
	if c, ok := tc.packages[dir]; ok {
		return c
	}
	c := &checked{dir: dir, info: &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{},
	}}
	tc.packages[dir] = c // found again with no package: an import cycle
	var trees []*ast.File
	for _, f := range tc.m.files {
		if f.dir == dir && !f.test && tc.isBuilt(f) {
			c.files = append(c.files, f)
			trees = append(trees, f.ast)
		}
	}
	if len(trees) == 0 {
		return nil
	}
	conf := types.Config{Importer: tc, Error: func(err error) {
		tc.problems = append(tc.problems, strings.Replace(err.Error(), ": ", ": has no type: ", 1))
	}}
	pkg, err := conf.Check(path.Join(tc.m.path, dir), tc.m.fset, trees, c.info)
	if pkg == nil {
		tc.problems = append(tc.problems, fmt.Sprintf("%s:1: %v", c.files[0].name, err))
	}
	c.pkg = pkg
	return c
}

func (tc *typeChecker) isBuilt(f *goFile) bool {
	match, err := tc.build.MatchFile(".", f.name)
	if err != nil {
		tc.problems = append(tc.problems, fmt.Sprintf("%s:1: %v", f.name, err))
	}
	return match
}
