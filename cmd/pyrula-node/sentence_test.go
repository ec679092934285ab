package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

// TestSentence fails when an error is told with words that only mean something in Go,
// or says a thing twice.
func TestSentence(t *testing.T) {
	refused := &pyrula.APIError{Problem: wire.Problem{Code: "unknown_run", Detail: "run run_1: unknown run"}}
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("open /d: /d: persistence: data directory is in use"), "open /d: data directory is in use"},
		{errors.New("listen: listen tcp 127.0.0.1:1: bind: address already in use"), "listen tcp 127.0.0.1:1: bind: address already in use"},
		{errors.New("fsync (--fsync): want always"), "fsync (--fsync): want always"},
		{errors.New("a: b: c"), "a: b: c"},
		{errors.New(""), ""},
		{fmt.Errorf("read /v1/runs/run_1: %w", refused), "run run_1: unknown run (unknown_run)"},
		{fmt.Errorf("list: %w", &pyrula.APIError{Problem: wire.Problem{Status: 404}}), "list: HTTP status 404 without a problem document"},
	} {
		if got := sentence(c.err); got != c.want {
			t.Errorf("%v is told as %q, want %q", c.err, got, c.want)
		}
	}
}
