package tidy

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// room is one row of the import table: what a package and those below it may
// import. A package may always import those below its own room.
type room struct {
	own    []string // packages of this module; "x/..." adds those below x
	banned []string // standard packages, each with those below it
	third  []string // when closed: the modules of others that may be imported
	closed bool
}

// pureBans are the doors to the outside world. A package that can't open them
// computes the same thing on every machine, live and in replay.
var pureBans = []string{
	"C", "context", "crypto/rand", "io/ioutil", "log", "math/rand", "net", "os", "plugin", "runtime", "sync", "syscall",
	"testing", "time", "unsafe",
}

// pureThird do no I/O, read no clock and draw no number: a hash, a tree without
// its locks, an encoder, a reader of JSON.
var pureThird = []string{
	"github.com/zeebo/xxh3", "github.com/tidwall/btree", "github.com/vmihailenco/msgpack/v5", "github.com/tidwall/gjson",
}

// rooms is the import table. The longest row that holds a package counts.
var rooms = map[string]room{
	"flow":      {banned: pureBans, third: pureThird, closed: true},
	"flow/pack": {banned: pureBans, third: pureThird, closed: true},
	"flow/wire": {own: []string{"flow"}, banned: pureBans, third: pureThird, closed: true},
	"keyactor":  {own: []string{"flow", "flow/pack"}, banned: pureBans, third: pureThird, closed: true},
	"runactor":  {own: []string{"flow", "flow/pack"}, banned: pureBans, third: pureThird, closed: true},
	// Calendars are sums of dates, so this room has the types of package time; its clock
	// and its timers stay shut by TestPurity.
	"schedule": {
		own: []string{"flow", "flow/pack"}, closed: true, third: append(slices.Clone(pureThird), "github.com/netresearch/go-cron"),
		banned: slices.DeleteFunc(slices.Clone(pureBans), func(p string) bool { return p == "time" }),
	},
	"actors": {own: []string{"flow", "flow/wire", "keyactor", "runactor", "schedule", "persistence/engine"}, banned: []string{"net", "os"}},
	// Expressions of keys are computed by the server alone; CEL, which is large, stays here.
	"actors/keyexpr": {
		own: []string{"flow"}, banned: []string{"net", "os"}, closed: true,
		third: []string{"cel.dev/cel-go", "github.com/tidwall/gjson"},
	},
	"persistence":            {own: []string{"persistence/..."}, banned: []string{"net"}},
	"persistence/engine":     {},
	"persistence/replicated": {own: []string{"persistence/..."}},
	"transport":              {own: []string{"flow", "flow/wire"}, banned: []string{"os"}},
	"transport/link":         {own: []string{"flow", "flow/wire"}, banned: []string{"os"}},
	"limiter":                {own: []string{"flow"}},
	"pyrula": {own: []string{"flow", "flow/wire", "limiter", "transport/link"}, closed: true, third: []string{
		"github.com/vmihailenco/msgpack/v5", "github.com/google/uuid",
		"go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/codes", "go.opentelemetry.io/otel/propagation", "go.opentelemetry.io/otel/trace",
	}},
	// The node in process: the same host and the same face, over memory and without a socket.
	"pyrula/inline": {
		own:    []string{"pyrula", "actors/...", "flow", "flow/wire", "persistence/engine", "persistence/volatile", "transport"},
		banned: []string{"net"},
	},
	"pyrula/inline/internal/loopback": {own: []string{}},
	"pyrula/pyrulatest":               {own: []string{"pyrula", "pyrula/inline"}, banned: []string{"net"}},
	"kafka":                           {own: []string{"pyrula", "flow", "flow/wire"}, closed: true, third: []string{"github.com/twmb/franz-go"}},
	"cmd":                             {own: []string{"..."}},
	"bench":                           {own: []string{"actors/...", "flow/...", "keyactor/...", "limiter/...", "persistence/...", "pyrula/...", "runactor/...", "transport/..."}},
	// The server under load is a process of its own, put together like the product.
	"bench/server": {own: []string{"cmd/pyrula-node/node", "persistence/..."}},
	// Programs of users: the public SDK, and the files that the demo embeds.
	"examples":            {own: []string{"pyrula/..."}},
	"internal/invariants": {},
	"internal/sim":        {own: []string{"..."}},
	"internal/tidy":       {},
}

// neverImported are doors that stay shut for everyone.
var neverImported = map[string]string{
	"github.com/anthdm/hollywood/remote":  "nodes speak the project's own link",
	"github.com/anthdm/hollywood/cluster": "it can give one id two owners",
}

// never are pairs that don't meet, in tests neither: they speak through records
// and effects that actors carries.
var never = map[string]string{"keyactor": "runactor", "runactor": "keyactor"}

// roomOf is the longest row of the table that holds a directory.
func roomOf(dir string) (string, bool) {
	best, found := "", false
	for name := range rooms {
		if isUnder(dir, name) && len(name) > len(best) {
			best, found = name, true
		}
	}
	return best, found
}

func (r room) admits(name, target string) bool {
	if isUnder(target, name) {
		return true
	}
	return slices.ContainsFunc(r.own, func(allowed string) bool {
		if tree, ok := strings.CutSuffix(allowed, "..."); ok {
			return tree == "" || isUnder(target, strings.TrimSuffix(tree, "/"))
		}
		return target == allowed
	})
}

func checkImports(m *module) []string {
	var problems []string
	for _, f := range m.files {
		name, ok := roomOf(f.dir)
		if !ok {
			problems = append(problems, fmt.Sprintf("%s:1: package %s has no room in the import table", f.name, f.dir))
			continue
		}
		for _, spec := range f.ast.Imports {
			if why := refused(m, f, name, spec); why != "" {
				problems = append(problems, fmt.Sprintf("%s: %s may not import %s: %s", m.at(spec.Pos()), f.dir, importPath(spec), why))
			}
		}
	}
	return problems
}

// refused says why a file may not import, or nothing. Tests may import more than
// the package they test.
func refused(m *module, f *goFile, name string, spec *ast.ImportSpec) string {
	p := importPath(spec)
	for shut, why := range neverImported {
		if isUnder(p, shut) {
			return why
		}
	}
	target, own := strings.CutPrefix(p, m.path+"/")
	if other, ok := never[name]; ok && own && isUnder(target, other) {
		return "the two meet only through records and effects"
	}
	if f.test {
		return ""
	}
	r := rooms[name]
	switch {
	case own:
		if !r.admits(name, target) {
			return "the import table doesn't have it"
		}
	case spec.Name != nil && spec.Name.Name == ".":
		return "a dot import hides where a name comes from"
	case slices.ContainsFunc(r.banned, func(ban string) bool { return isUnder(p, ban) }):
		return "it is a door to the outside that this room keeps shut"
	case r.closed && isThird(p) && !slices.ContainsFunc(r.third, func(ok string) bool { return isUnder(p, ok) }):
		return "this room lists the modules of others that it uses"
	}
	return ""
}

// isThird says whether a path belongs to neither this module nor the standard
// library: its first element has a dot.
func isThird(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return strings.Contains(first, ".")
}

// TestImports fails for an import that the table doesn't have, and for a new
// package that has no room in it.
func TestImports(t *testing.T) {
	report(t, checkImports(loadRepository(t)))
}

func TestImportsCatches(t *testing.T) {
	m := fixture(t, map[string]string{
		"main.go":                   "package m\n",
		"store/a.go":                "package store\n",
		"flow/a.go":                 "package flow\nimport (\n\"example.test/m/flow/wire\"\n\"example.test/m/keyactor\"\n\"log/slog\"\n\"strings\"\n)\n",
		"keyactor/a.go":             "package keyactor\nimport (\n\"example.test/m/flow\"\n\"example.test/m/flow/wire\"\n\"github.com/google/uuid\"\n\"github.com/zeebo/xxh3\"\n)\n",
		"keyactor/a_test.go":        "package keyactor\nimport (\n\"os\"\n\"example.test/m/actors\"\n\"example.test/m/runactor\"\n)\n",
		"actors/a.go":               "package actors\nimport (\n\"example.test/m/persistence/engine\"\n\"example.test/m/persistence\"\n\"net/http\"\n\"time\"\n)\n",
		"persistence/vfs/a.go":      "package vfs\nimport (\n\"example.test/m/persistence/engine\"\n\"example.test/m/flow\"\n. \"strings\"\n)\n",
		"persistence/engine/a.go":   "package engine\nimport \"example.test/m/persistence\"\n",
		"pyrula/inline/a.go":        "package inline\nimport (\n\"example.test/m/actors/local\"\n\"net\"\n)\n",
		"pyrula/a.go":               "package pyrula\nimport (\n\"github.com/google/uuid\"\n\"github.com/spf13/cobra\"\n\"example.test/m/transport\"\n)\n",
		"bench/a.go":                "package main\nimport (\n\"example.test/m/pyrula\"\n\"example.test/m/internal/sim\"\n)\n",
		"cmd/pyrula-node/main.go":   "package main\nimport (\n\"example.test/m/internal/sim\"\n\"github.com/anthdm/hollywood/cluster\"\n)\n",
		"internal/other/a.go":       "package other\n",
		"transport/link/a_test.go":  "package link\nimport \"os\"\n",
		"transport/link/server.go":  "package link\nimport \"os/signal\"\n",
		"keyactorish/not_a_room.go": "package keyactorish\n",
	})
	expect(t, checkImports(m),
		"actors/a.go:4: actors may not import example.test/m/persistence:",
		"actors/a.go:5: actors may not import net/http",
		"bench/a.go:4: bench may not import example.test/m/internal/sim",
		"cmd/pyrula-node/main.go:4: cmd/pyrula-node may not import github.com/anthdm/hollywood/cluster",
		"flow/a.go:4: flow may not import example.test/m/keyactor",
		"flow/a.go:5: flow may not import log/slog",
		"internal/other/a.go:1: package internal/other has no room",
		"keyactor/a.go:4: keyactor may not import example.test/m/flow/wire",
		"keyactor/a.go:5: keyactor may not import github.com/google/uuid",
		"keyactor/a_test.go:5: keyactor may not import example.test/m/runactor",
		"keyactorish/not_a_room.go:1: package keyactorish has no room",
		"main.go:1: package . has no room",
		"persistence/engine/a.go:2: persistence/engine may not import example.test/m/persistence",
		"persistence/vfs/a.go:4: persistence/vfs may not import example.test/m/flow",
		"persistence/vfs/a.go:5: persistence/vfs may not import strings",
		"pyrula/a.go:4: pyrula may not import github.com/spf13/cobra",
		"pyrula/a.go:5: pyrula may not import example.test/m/transport",
		"pyrula/inline/a.go:4: pyrula/inline may not import net",
		"store/a.go:1: package store has no room",
		"transport/link/server.go:2: transport/link may not import os/signal",
	)
}

// TestR21EngineHasTypesOnly fails when the package between shard host and engine
// gets code: then importing it would import an engine.
func TestR21EngineHasTypesOnly(t *testing.T) {
	m := loadRepository(t)
	report(t, checkTypesOnly(m, "persistence/engine"))
	found := slices.ContainsFunc(m.files, func(f *goFile) bool { return f.dir == "persistence/engine" && !f.test })
	if !found {
		t.Error("persistence/engine is gone")
	}
}

func checkTypesOnly(m *module, dir string) []string {
	var problems []string
	for _, f := range m.files {
		if f.dir != dir || f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				problems = append(problems, fmt.Sprintf("%s: %s holds types only, and %s is a function", m.at(fn.Pos()), dir, fn.Name.Name))
			}
		}
	}
	return problems
}

func TestTypesOnlyCatches(t *testing.T) {
	m := fixture(t, map[string]string{"e/a.go": "package e\ntype T int\nfunc (T) M() {}\n", "e/a_test.go": "package e\nfunc f() {}\n"})
	expect(t, checkTypesOnly(m, "e"), "e/a.go:3: e holds types only, and M is a function")
}
