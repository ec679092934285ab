package examples

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/cmd/pyrula-node/node"
	"github.com/pyrula/pyrula-node/pyrula"
)

// TestP8P54WorkerOfShell fails when a worker of curl and sh can't live a whole suspended
// run: a step that is recorded once, a wait that holds no slot, a signal, an end.
func TestP8P54WorkerOfShell(t *testing.T) {
	for _, tool := range []string{"sh", "curl", "grep"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s here", tool)
		}
	}
	ctx := t.Context()
	n, err := node.Start(ctx, node.Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := pyrula.Dial(ctx, pyrula.WithAddr(n.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for range 2 { // of one tenant with a limit of 1: the second starts while the first waits
		run, err := c.Submit(ctx, "order", map[string]string{"tenant": "acme"})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, run.RunID)
	}
	work := func() string {
		cmd := exec.CommandContext(ctx, "sh", "worker.sh")
		cmd.Env = append(cmd.Environ(), "NODE=http://"+n.Addr(), "IDLE_MS=300")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	first := work()
	for _, id := range ids {
		if _, err := c.Signal(ctx, id, "approved", "by anna"); err != nil {
			t.Error(err)
		}
	}
	second := work()
	for _, id := range ids {
		last, err := c.Status(ctx, id) // handed on from unknown gates, if it was submitted before them
		if err != nil {
			t.Fatal(err)
		}
		if last.Status != "completed" || string(last.Result) != `"shipped"` {
			t.Errorf("%s is %s with %s", id, last.Status, last.Result)
		}
		for _, want := range []struct{ said, line string }{
			{first, last.RunID + " is charged\n"}, {first, last.RunID + " waits for its approval and holds no slot\n"},
			{second, last.RunID + " was charged before\n"}, {second, last.RunID + " is approved\n"},
		} {
			if strings.Count(want.said, want.line) != 1 {
				t.Errorf("want %q once in:\n%s", want.line, want.said)
			}
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := n.Close(context.WithoutCancel(ctx)); err != nil {
		t.Error(err)
	}
}
