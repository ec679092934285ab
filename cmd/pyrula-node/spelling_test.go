package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTypos fails when the distance of two words is counted wrongly.
func TestTypos(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"addr", "adr", 1}, {"fsink", "fsync", 2}, {"kitten", "sitting", 3}, {"data", "data", 0}} {
		if got, back := typos(c.a, c.b), typos(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("%q and %q: %d and %d, want %d", c.a, c.b, got, back, c.want)
		}
	}
}

// TestStrayVariables fails when a mistyped variable is passed over in silence, or when
// one is named that is read or that Kubernetes sets.
func TestStrayVariables(t *testing.T) {
	got := strayVariables([]string{
		"PYRULA_NODEID=n2", "PYRULA_DATA=/d", "PYRULA_CONFIG=", "PATH=/bin", "PYRULA_COLOUR=1", "PYRULA_SERVICE_HOST=10.0.0.1",
		"PYRULA_PORT_7477_TCP=tcp://10.0.0.1:7477", "PYRULA_NODE_ID=n1",
	})
	want := []string{"PYRULA_COLOUR is no setting", "PYRULA_NODEID is no setting; did you mean PYRULA_NODE_ID?"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestCommandLineFaults fails when a wrong command line isn't told as one, in words
// that are no part of Go.
func TestCommandLineFaults(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"runs list --limit abc", `--limit "abc": want a whole number`},
		{"runs show run_00000000000000000000000001 --wait 5", `--wait "5": want a time with its unit, as 500ms, 30s or 1m30s`},
		{"runs list -o yaml", `--output "yaml": want table, json or id`},
		{"runs list --addr /tmp/x", `--addr "/tmp/x": want host:port or a URL without a path`},
		{"runs list --addr http://127.0.0.1:1/v1", `--addr "http://127.0.0.1:1/v1": want host:port or a URL without a path`},
		{"runs list --addr 127.0.0.1:99999", "the port must be a number from 0 to 65535"},
		{"serve", "say --data DIR, set PYRULA_DATA, or have data: DIR in the file of --config"},
		{"serve --data d --addr /tmp/x", `addr (--addr): address "/tmp/x": want host:port`},
		{"serve --data d --fsync every=1h", "fsync (--fsync): every=1h0m0s: the period"},
	} {
		code, stderr := invoke(t, strings.Fields(c.line)...)
		if code != exitUsage || !strings.Contains(stderr, c.want) || strings.Contains(stderr, "strconv") {
			t.Errorf("%s: exit code %d and %q, want 2 and %q", c.line, code, stderr, c.want)
		}
	}
}

// TestFatalLineIsJSON fails when the last line of a node whose log is JSON isn't.
func TestFatalLineIsJSON(t *testing.T) {
	code, stderr := invoke(t, "serve", "--data", "/dev/null/x", "--log-format", "json")
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	var last struct{ Level, Err string }
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Level != "ERROR" || last.Err == "" || code != exitOther {
		t.Errorf("exit code %d and %q: %v", code, lines, err)
	}
}

// TestDevIgnoresTheDataVariable fails when what is tried out ends up in the directory
// of the real node, or stays.
func TestDevIgnoresTheDataVariable(t *testing.T) {
	dir := t.TempDir() + "/real"
	var talk bytes.Buffer
	p := program{name: longName, args: []string{"dev", "--addr", "256.0.0.1:0"}, stdout: t.Output(), stderr: &talk, getenv: func(name string) string {
		if name == "PYRULA_DATA" {
			return dir
		}
		return ""
	}}
	if code := p.run(t.Context()); code == exitOK || !isNew(dir) || strings.Contains(talk.String(), dir) {
		t.Errorf("exit code %d, %s", code, talk.String())
	}
}
