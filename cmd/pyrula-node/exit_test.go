package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/pyrula/pyrula-node/cmd/pyrula-node/demo"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence"
	"github.com/pyrula/pyrula-node/pyrula"
	"github.com/pyrula/pyrula-node/transport"
)

// TestP65ExitCodes fails when an error ends the program with another code than
// scripts rely on.
func TestP65ExitCodes(t *testing.T) {
	refused := func(code string) error {
		return fmt.Errorf("read: %w", &pyrula.APIError{Problem: wire.Problem{Code: code, Status: 400}})
	}
	cases := []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("anything"), 1},
		{refused(wire.CodeInternal), 1},
		{fmt.Errorf("recover: %w", &persistence.DamageError{}), 1},
		{fmt.Errorf("open: %w", persistence.ErrLocked), 1},
		{fmt.Errorf("%w: a figure", demo.ErrBroken), 1},
		{&usageError{err: errors.New("flag")}, 2},
		{refused(wire.CodeConfiguration), 2},
		{refused(wire.CodeInvalid), 2},
		{fmt.Errorf("open: %w", &persistence.MismatchError{}), 2},
		{refused(wire.CodeUnknownRun), 3},
		{refused(wire.CodeUnknownWorkflow), 3},
		{&pyrula.APIError{Problem: wire.Problem{Status: http.StatusNotFound}}, 3},
		{refused(wire.CodeUnknownSchedule), 3},
		{refused(wire.CodeStaleFence), 4},
		{refused(wire.CodeRunNotEnded), 4},
		{refused(wire.CodeStepConflict), 4},
		{refused(wire.CodeHistoryTooLarge), 4},
		{&advised{refused(wire.CodeRunNotEnded), "wait"}, 4},
		{refused(wire.CodeRunEnded), 4},
		{refused(wire.CodeNotDeclared), 4},
		{fmt.Errorf("wait: %w", &pyrula.RunFailed{Type: "x"}), 5},
		{fmt.Errorf("wait: %w", pyrula.ErrRunCancelled), 6},
		{fmt.Errorf("wait: %w", pyrula.ErrRunTerminated), 6},
		{fmt.Errorf("wait: %w", errTimedOut), 7},
		{fmt.Errorf("wait: %w", context.DeadlineExceeded), 7},
		{fmt.Errorf("list: %w", pyrula.ErrUnreachable), 9},
		{refused(wire.CodeNotReady), 9},
		{refused(wire.CodeOverloaded), 9},
		{fmt.Errorf("%w: %w", errInterrupted, pyrula.ErrUnreachable), 130},
		{context.Canceled, 130},
	}
	for _, c := range cases {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%v exits with %d, want %d", c.err, got, c.want)
		}
	}
}

// TestP65EveryProblemHasACode fails for a problem of the API that nobody has given
// a place in the table on purpose.
func TestP65EveryProblemHasACode(t *testing.T) {
	other := map[string]bool{ // faults of this program or of the node, not of who calls it
		wire.CodeUnknownField: true, wire.CodeMalformed: true, wire.CodeMethod: true, wire.CodeNotSupported: true,
		wire.CodeMediaType: true, wire.CodeCrossOrigin: true, wire.CodeHost: true, wire.CodeInternal: true,
	}
	for _, code := range transport.Codes() {
		got := exitCode(&pyrula.APIError{Problem: wire.Problem{Code: code}})
		if other[code] != (got == exitOther) {
			t.Errorf("%s exits with %d: give it a row in exits, or name it here", code, got)
		}
	}
}

// TestInterrupted fails when a signal is told as some other failure.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	p := program{args: []string{"runs", "list", "--addr", "127.0.0.1:1"}, stdout: t.Output(), stderr: t.Output(), getenv: func(string) string { return "" }}
	if code := p.run(ctx); code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
	}
}
