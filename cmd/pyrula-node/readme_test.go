package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocks are the code blocks of a language in a page.
func blocks(page, language string) []string {
	var all []string
	for _, part := range strings.Split(page, "```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		all = append(all, block)
	}
	return all
}

// TestReadmeCurl fails when the README's requests don't take a run from its submit
// to its result.
func TestReadmeCurl(t *testing.T) {
	lines := curlLines(readFile(t, "README.md"))
	if len(lines) != 8 {
		t.Fatalf("curl lines: %q", lines)
	}
	url := spawn(t, "serve", "--data", t.TempDir(), "--addr", "127.0.0.1:0").url()
	paste := func(line string, placeholders ...string) gjson.Result {
		line = strings.ReplaceAll(line, "http://"+wire.DefaultAddr, url)
		return gjson.Parse(curl(t, strings.NewReplacer(placeholders...).Replace(line)))
	}
	paste(lines[0])
	submitted := paste(lines[1]).Get("run_id").String()
	grant := paste(lines[2]).Get("runs.0")
	if grant.Get("run_id").String() != submitted || submitted == "" {
		t.Errorf("submitted %q, claimed %s", submitted, grant)
	}
	if done := paste(lines[3], "RUN_ID", submitted, "FENCE", grant.Get("fence").String()); done.Get("status").String() != "completed" {
		t.Errorf("completed: %s", done)
	}
	submitted = paste(lines[1]).Get("run_id").String()
	fence := paste(lines[2]).Get("runs.0.fence").String()
	if failed := paste(lines[4], "RUN_ID", submitted, "FENCE", fence); failed.Get("status").String() != "suspended" {
		t.Errorf("failed: %s, want a run that is tried again", failed)
	}
	paste(lines[5])
	if answer := paste(lines[6]); answer.Raw != `{"run_id":null}` {
		t.Errorf("an event is answered %s", answer)
	}
	if batch := paste(lines[7]).Get("runs.0.params"); batch.Get("count").Int() != 1 || batch.Get("key").String() != "u1" {
		t.Errorf("the batch is %s", batch.Raw)
	}
	for _, line := range lines {
		if !strings.HasPrefix(line, `curl -w '\n' `) {
			t.Errorf("the answer of %s runs into the prompt", line)
		}
	}
}

// TestReadmeGo fails when the README shows Go that isn't an example's.
func TestReadmeGo(t *testing.T) {
	program := readFile(t, "examples/quickstart/main.go") + readFile(t, "examples/onboard/main.go") + readFile(t, "pyrula/example_events_test.go")
	for _, block := range blocks(readFile(t, "README.md"), "go") {
		for line := range strings.Lines(block) {
			if !strings.Contains(program, strings.TrimSpace(line)) {
				t.Errorf("no example has %q", line)
			}
		}
	}
}

// TestReadmeTables fails when a setting or an exit code isn't in the README as it is
// in the program, or when the README has one more.
func TestReadmeTables(t *testing.T) {
	page := readFile(t, "README.md")
	for _, s := range settings {
		initial := "`" + s.initial + "`"
		switch {
		case s.flag == "data":
			initial = "none, required"
		case s.initial == "":
			initial = "none"
		}
		if row := fmt.Sprintf("| `--%s` | `%s` | `%s` | %s | ", s.flag, s.env(), s.key(), initial); !strings.Contains(page, row) {
			t.Errorf("the README lacks %s", row)
		}
	}
	if got, want := strings.Count(page, "\n| `--"), len(settings)+1; got != want {
		t.Errorf("the README has %d settings, want %d", got, want)
	}
	rows := 0
	for _, e := range exits {
		if row := fmt.Sprintf("| %d | %s |", e.code, e.meaning); !strings.Contains(page, row) {
			t.Errorf("the README lacks %s", row)
		}
	}
	for line := range strings.Lines(page) {
		if len(line) > 2 && line[0] == '|' && line[2] >= '0' && line[2] <= '9' {
			rows++
		}
	}
	if rows != len(exits) {
		t.Errorf("the README has %d exit codes, want %d", rows, len(exits))
	}
}

// TestReadmeWaits fails when a reason to wait isn't explained.
func TestReadmeWaits(t *testing.T) {
	page := readFile(t, "README.md")
	for _, reason := range []flow.WaitReason{
		flow.WaitLimit, flow.WaitRate, flow.WaitSchedule, flow.WaitRetryBackoff, flow.WaitNoWorker, flow.WaitWorkerBusy, flow.WaitCluster,
		flow.WaitSignal, flow.WaitChild,
	} {
		if !strings.Contains(page, "\n| `"+string(reason)+"` | ") {
			t.Errorf("the README has no row for %s", reason)
		}
	}
}

// TestReadmeStarts fails when what a newcomer is told to type first isn't what the
// page begins with, or isn't there to be typed.
func TestReadmeStarts(t *testing.T) {
	typed := blocks(readFile(t, "README.md"), "sh")
	if len(typed) < 2 || typed[0] != "go run ./cmd/pyrula-node demo\n" || typed[1] != "make test\n" {
		t.Errorf("the first commands are %q", typed[:min(2, len(typed))])
	}
	if !strings.Contains(readFile(t, "Makefile"), "\ntest: ") {
		t.Error("make has no target test")
	}
}
