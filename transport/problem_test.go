package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestProblemsGolden(t *testing.T) {
	var got bytes.Buffer
	enc := json.NewEncoder(&got)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	for _, code := range Codes() {
		page, _ := Describe(code)
		doc := struct {
			Document *wire.Problem
			Page     wire.ProblemType
		}{problem(code, "why"), page}
		if err := enc.Encode(doc); err != nil {
			t.Fatal(err)
		}
	}
	const name = "testdata/problems.golden"
	if *update {
		if err := os.WriteFile(name, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("problems changed (-want +got); clients branch on them:\n%s", diff)
	}
}

// exported are the names with a prefix that a package of this module declares.
func exported(t *testing.T, dir, prefix string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), dir+"/"+e.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			gen, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range gen.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, prefix) {
					names = append(names, v.Names[0].Name)
				}
			}
		}
	}
	return names
}

// Every code has a row, and no row has another.
func TestEveryCodeHasARow(t *testing.T) {
	codes := exported(t, "../flow/wire", "Code")
	if len(codes) != len(table) {
		t.Errorf("wire has the codes %v, the table %d rows", codes, len(table))
	}
	seen := map[string]bool{}
	for _, r := range table {
		if seen[r.code] || r.status < 400 || r.title == "" || r.meaning == "" {
			t.Errorf("row %+v is incomplete or stands twice", r)
		}
		seen[r.code] = true
	}
}

// Every error that flow exports has a row, and comes back from its own problem.
func TestEverySentinelHasARow(t *testing.T) {
	sentinels := []error{
		flow.ErrConfiguration, flow.ErrInvalid, flow.ErrUnknownRun, flow.ErrUnknownWorkflow, flow.ErrNotDeclared, flow.ErrStaleFence,
		flow.ErrRunEnded, flow.ErrRunNotEnded, flow.ErrStepConflict, flow.ErrHistoryTooLarge, flow.ErrUnknownSchedule, flow.ErrBufferFull, flow.ErrOverloaded, flow.ErrArchiveBehind, flow.ErrNotReady, flow.ErrOutcomeUnknown, flow.ErrUnsupported,
	}
	for _, err := range sentinels {
		p := ProblemOf(fmt.Errorf("shard 3: %w", err))
		if p.Code == wire.CodeInternal || Sentinel(p.Code) != err || !strings.Contains(p.Detail, err.Error()) { //nolint:errorlint // the very value comes back
			t.Errorf("%v becomes %+v, whose sentinel is %v", err, p, Sentinel(p.Code))
		}
	}
	// ErrBadRunID is one kind of unknown run; ErrCodec is damage, and internal.
	names := slices.DeleteFunc(exported(t, "../flow", "Err"), func(n string) bool { return n == "ErrBadRunID" || n == "ErrCodec" })
	if len(names) != len(sentinels) {
		t.Errorf("flow has the errors %v, this test knows %d", names, len(sentinels))
	}
}

func TestProblemOf(t *testing.T) {
	own := problem(wire.CodeOverloaded, "own")
	for _, c := range []struct {
		err    error
		code   string
		field  string
		detail string
	}{
		{fmt.Errorf("x: %w", own), wire.CodeOverloaded, "", "own"},
		{&wire.Problem{Code: "made_up", Detail: "d"}, wire.CodeInternal, "", ""},
		{errors.Join(flow.Invalid("a", "must be b"), flow.ErrOverloaded), wire.CodeInvalid, "a", "a must be b"},
		{fmt.Errorf("x: %w", &flow.FieldError{Kind: flow.ErrConfiguration, Field: "f", Want: "w"}), wire.CodeConfiguration, "f", "f w"},
		{&flow.FieldError{Kind: flow.ErrUnsupported, Field: "trigger", Want: "w"}, wire.CodeConfiguration, "trigger", "trigger w"},
		{fmt.Errorf("x: %w", flow.ErrBadRunID), wire.CodeUnknownRun, "", "x: " + strings.TrimPrefix(flow.ErrBadRunID.Error(), "flow: ")},
		{fmt.Errorf("x: %w", context.Canceled), wire.CodeOutcomeUnknown, "", "the request was interrupted"},
		{context.DeadlineExceeded, wire.CodeOutcomeUnknown, "", "the request was interrupted"},
		{errors.New("open /secret: permission denied"), wire.CodeInternal, "", ""},
		{flow.ErrCodec, wire.CodeInternal, "", ""},
	} {
		if p := ProblemOf(c.err); p.Code != c.code || p.Field != c.field || p.Detail != c.detail {
			t.Errorf("%v becomes %+v, want %s, field %q, detail %q", c.err, p, c.code, c.field, c.detail)
		}
	}
	for room, ms := range map[flow.Span]int64{-flow.Second: 1000, 0: 1000, 1: 100, 100 * flow.Millisecond: 100, 100*flow.Millisecond + 1: 101, 90 * flow.Second: 90_000} {
		full := &flow.BufferFull{Key: flow.KeyID{Workflow: "w", Value: "a"}, Events: 7, Room: room}
		if p := ProblemOf(fmt.Errorf("x: %w", full)); p.Code != wire.CodeBufferFull || p.RetryAfterMS != ms || !p.Retryable || p.Key != "a" || p.Detail != full.Error() {
			t.Errorf("a batch that lasts %d ns more gives %+v, want %d ms", room, p, ms)
		}
	}
	bare := &wire.Problem{Code: wire.CodeOverloaded, Detail: "d", Gate: "limit", Key: "k", RetryAfterMS: 7}
	want := &wire.Problem{
		Type: "/v1/problems/overloaded", Title: "Overloaded", Status: 429, Detail: "d", Code: wire.CodeOverloaded,
		Retryable: true, Gate: "limit", Key: "k", RetryAfterMS: 7,
	}
	if diff := cmp.Diff(want, ProblemOf(bare)); diff != "" || bare.Status != 0 {
		t.Errorf("a node's problem isn't completed, or is changed itself (-want +got):\n%s", diff)
	}
	if p := ProblemOf(nil); p != nil {
		t.Errorf("no error becomes %+v", p)
	}
	if _, ok := Describe("x"); ok || Sentinel("x") != nil || Sentinel(wire.CodeInternal) != nil {
		t.Error("a code that doesn't exist has a row")
	}
}
