package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/tidwall/gjson"

	"github.com/pyrula/pyrula-node/cmd/pyrula-node/node"
)

// TestMain makes the test binary also be the program, so that scripts and process
// tests run what is tested, race detector included.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){longName: main, shortName: main, workerName: workerMain})
}

// raceOptions are those of a process under the race detector. By itself it sleeps for
// a second before it ends.
const raceOptions = "halt_on_error=1 atexit_sleep_ms=0"

// TestScripts plays the command line. Beside what testscript has, a script knows
//
//	node                        a node on $WORK/data; PYRULA_ADDR names it
//	send METHOD PATH BODY [VAR=path]...   a request, and parts of its answer as variables
//	api FILE                    instead of a node, one that answers as the file says
//	asked REGEXP                one of the requests to it since the last asked
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", Deadline: time.Now().Add(time.Minute), RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", raceOptions)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"node": scriptNode, "send": scriptSend, "api": scriptAPI, "asked": scriptAsked},
	})
}

func scriptNode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: node")
	}
	n, err := node.Start(context.Background(), node.Config{DataDir: ts.MkAbs("data"), Addr: "127.0.0.1:0"})
	ts.Check(err)
	ts.Defer(func() { ts.Check(n.Close(context.Background())) })
	ts.Setenv("PYRULA_ADDR", n.Addr())
}

func scriptSend(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: send METHOD PATH BODY [VAR=path]...")
	}
	req, err := http.NewRequest(args[0], "http://"+ts.Getenv("PYRULA_ADDR")+args[1], strings.NewReader(args[2]))
	ts.Check(err)
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	ts.Check(err)
	if resp.StatusCode/100 != 2 {
		ts.Fatalf("%s %s: %s: %s", args[0], args[1], resp.Status, body)
	}
	for _, set := range args[3:] {
		name, path, _ := strings.Cut(set, "=")
		part := gjson.GetBytes(body, path)
		if !part.Exists() {
			ts.Fatalf("no %s in %s", path, body)
		}
		ts.Setenv(name, part.String())
	}
}

// invoke runs the program inside the test, with an empty environment.
func invoke(t *testing.T, args ...string) (code int, stderr string) {
	t.Helper()
	var talk bytes.Buffer
	p := program{name: longName, args: args, stdout: t.Output(), stderr: &talk, getenv: func(string) string { return "" }}
	code = p.run(t.Context())
	return code, talk.String()
}
