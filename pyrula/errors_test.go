package pyrula_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

// sentinels pairs every code of a problem with the sentinel that users match.
var sentinels = map[string]error{
	wire.CodeConfiguration:   pyrula.ErrConfiguration,
	wire.CodeInvalid:         pyrula.ErrInvalid,
	wire.CodeUnknownField:    pyrula.ErrUnknownField,
	wire.CodeMalformed:       pyrula.ErrMalformed,
	wire.CodeTooLarge:        pyrula.ErrTooLarge,
	wire.CodeUnknownRun:      pyrula.ErrUnknownRun,
	wire.CodeUnknownWorkflow: pyrula.ErrUnknownWorkflow,
	wire.CodeNotFound:        pyrula.ErrNotFound,
	wire.CodeMethod:          pyrula.ErrMethod,
	wire.CodeNotDeclared:     pyrula.ErrNotDeclared,
	wire.CodeStaleFence:      pyrula.ErrStaleFence,
	wire.CodeRunEnded:        pyrula.ErrRunEnded,
	wire.CodeRunNotEnded:     pyrula.ErrRunNotEnded,
	wire.CodeStepConflict:    pyrula.ErrStepConflict,
	wire.CodeHistoryTooLarge: pyrula.ErrHistoryTooLarge,
	wire.CodeUnknownSchedule: pyrula.ErrUnknownSchedule,
	wire.CodeBufferFull:      pyrula.ErrBufferFull,
	wire.CodeOverloaded:      pyrula.ErrOverloaded,
	wire.CodeArchiveBehind:   pyrula.ErrArchiveBehind,
	wire.CodeNotReady:        pyrula.ErrNotReady,
	wire.CodeOutcomeUnknown:  pyrula.ErrOutcomeUnknown,
	wire.CodeNotSupported:    pyrula.ErrUnsupported,
	wire.CodeMediaType:       pyrula.ErrMediaType,
	wire.CodeServerBusy:      pyrula.ErrServerBusy,
	wire.CodeCrossOrigin:     pyrula.ErrCrossOrigin,
	wire.CodeHost:            pyrula.ErrHost,
	wire.CodeInternal:        pyrula.ErrInternal,
}

// codesOfWire reads the codes out of the source, so that a new one can't be missed.
func codesOfWire(t *testing.T) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "../flow/wire/problem.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Code") {
			return true
		}
		code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		codes = append(codes, code)
		return true
	})
	return codes
}

// TestErrorsPairEveryCode: each code of the API matches one sentinel of this package
// and no other, through errors.Is, and the document is there for its facts.
func TestErrorsPairEveryCode(t *testing.T) {
	codes := codesOfWire(t)
	if len(codes) < 20 || len(codes) != len(sentinels) {
		t.Errorf("package wire has %d codes, the table %d", len(codes), len(sentinels))
	}
	inWorld(t, func(t *testing.T, w *world) {
		for _, code := range codes {
			w.net.setFault(func(call) fault {
				return fault{problem: &wire.Problem{Status: 409, Code: code, Detail: "because", RunID: "run_x"}}
			})
			_, err := w.client.Status(w.Context(), "run_x")
			for other, sentinel := range sentinels {
				if got := errors.Is(err, sentinel); got != (other == code) {
					t.Errorf("code %s: errors.Is of the sentinel of %s is %v", code, other, got)
				}
			}
			refused, ok := errors.AsType[*pyrula.APIError](err)
			if !ok || refused.Problem.RunID != "run_x" || !strings.Contains(err.Error(), code+": because") {
				t.Errorf("code %s: error %v, want the problem document in it", code, err)
			}
		}
	})
}

// TestErrorsWithoutAProblem: what stands between client and node answers without a
// document; the status has to do.
func TestErrorsWithoutAProblem(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for status, want := range map[int]error{
			404: pyrula.ErrNotFound, 413: pyrula.ErrTooLarge, 429: pyrula.ErrOverloaded, 503: pyrula.ErrNotReady,
			502: pyrula.ErrUnreachable, 504: pyrula.ErrUnreachable,
		} {
			w.net.setFault(func(call) fault { return fault{problem: &wire.Problem{Status: status}} })
			if _, err := w.client.Node(w.Context()); !errors.Is(err, want) {
				t.Errorf("status %d: %v, want %v", status, err, want)
			}
		}
		w.net.setFault(func(call) fault { return fault{problem: &wire.Problem{Status: 418}} })
		_, err := w.client.Node(w.Context())
		if refused, ok := errors.AsType[*pyrula.APIError](err); !ok || refused.Problem.Status != 418 || errors.Unwrap(refused) != nil {
			t.Errorf("status 418: %v, want an API error of no sentinel", err)
		}
	})
}

// TestErrorsRetryAfter: the wish of a node is read from the document, else from the
// header.
func TestErrorsRetryAfter(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for _, c := range []struct {
			fault fault
			want  time.Duration
		}{
			{fault{problem: &wire.Problem{Status: 409, Code: wire.CodeStaleFence, RetryAfterMS: 1500}, after: "9"}, 1500 * time.Millisecond},
			{fault{problem: &wire.Problem{Status: 400}, after: "9"}, 9 * time.Second},
			{fault{problem: &wire.Problem{Status: 400}, after: "Wed, 21 Oct 2026 07:28:00 GMT"}, 0},
		} {
			w.net.setFault(func(call) fault { return c.fault })
			_, err := w.client.Node(w.Context())
			if refused, ok := errors.AsType[*pyrula.APIError](err); !ok || refused.RetryAfter() != c.want {
				t.Errorf("error %v, want a wish of %v", err, c.want)
			}
		}
	})
}

// TestErrorsPermanent: Permanent keeps what it marks, and marks nothing when there
// is nothing.
func TestErrorsPermanent(t *testing.T) {
	cause := errors.New("card declined")
	err := pyrula.Permanent(cause)
	if !errors.Is(err, cause) || err.Error() != "card declined" {
		t.Errorf("Permanent gives %v", err)
	}
	if pyrula.Permanent(nil) != nil {
		t.Error("Permanent(nil) isn't nil")
	}
}
