package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/tidwall/gjson"

	"github.com/pyrula/pyrula-node/cmd/pyrula-node/node"
	"github.com/pyrula/pyrula-node/persistence"
	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/persistence/enginetest"
)

// tool runs a command on a data directory inside the test.
func tool(t *testing.T, args ...string) (code int, data, talk string) {
	t.Helper()
	var out, said bytes.Buffer
	p := program{name: longName, args: args, stdout: &out, stderr: &said, getenv: func(string) string { return "" }}
	code = p.run(t.Context())
	return code, out.String(), said.String()
}

// story is what a node did before it was stopped.
type story struct {
	dir   string            // a copy of its own for each test
	files fs.FS             // what the node left
	runs  map[string]string // run ids by the name they have in the story
}

// tell plays the story once; every test gets a copy of the directory.
func tell(t *testing.T) story {
	t.Helper()
	s, err := told()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(dir, s.files); err != nil {
		t.Fatal(err)
	}
	s.dir = dir
	return s
}

var told = sync.OnceValues(play)

// play has a node do one of everything that leaves a record, and stops it.
func play() (s story, err error) {
	dir, err := os.MkdirTemp("", "pyrula-story-")
	if err != nil {
		return s, err
	}
	defer os.RemoveAll(dir)
	n, err := node.Start(context.Background(), node.Config{DataDir: dir, Addr: "127.0.0.1:0"})
	if err != nil {
		return s, err
	}
	c := &caller{url: n.URL(), runs: map[string]string{}}
	c.declare("charge", `{"version":"1","limit":{"key":"tenant","max":1},"rate":{"key":"card","per_second":0.5,"burst":4},"max_attempts":2}`)
	c.declare("mail", `{"version":"2","limit":{"key":"to","max":1},"rate":{"key":"to","per_second":100},"max_attempts":2,"retry_backoff_seconds":3600}`)
	c.submit("paid", "charge", `{"params":{"tenant":"acme","card":"<&>"},"idempotency_key":"o-1","request_id":"req-1"}`)
	fence := c.claim("charge", "1")
	c.end("paid", "complete", `{"fence":`+fence+`,"result":{"n": [1, 2.50]}}`)
	c.submit("late", "mail", `{"params":{"to":"a"}}`)
	c.end("late", "fail", `{"fence":`+c.claim("mail", "2")+`,"error":{"type":"timeout","message":"no \"answer\""},"retryable":true}`)
	c.submit("broken", "mail", `{"params":{"to":"b"}}`)
	c.end("broken", "fail", `{"fence":`+c.claim("mail", "2")+`,"error":{"type":"refused","message":"no"},"retryable":false}`)
	c.submit("stopped", "mail", `{"params":{"to":"c"}}`)
	fence = c.claim("mail", "2")
	c.submit("dropped", "mail", `{"params":{"to":"c"}}`)
	c.end("dropped", "cancel", `{"reason":"not needed"}`)
	c.end("stopped", "cancel", `{"reason":"stop it"}`)
	c.end("stopped", "complete", `{"fence":`+fence+`,"result":1}`)
	c.submit("asleep", "mail", `{"params":{"to":"d"}}`)
	c.end("asleep", "suspend", `{"fence":`+c.claim("mail", "2")+`,"until":{"at_ms":9000000000000}}`)
	c.submit("ended", "mail", `{"params":{"to":"e"}}`)
	c.claim("mail", "2")
	c.end("ended", "terminate", `{"reason":"now"}`)
	c.submit("stranger", "nobody", `{"params":{}}`)
	if err := n.Close(context.Background()); err != nil {
		return s, err
	}
	files := fstest.MapFS{}
	err = fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, path))
		files[path] = &fstest.MapFile{Data: data, Mode: 0o600}
		return err
	})
	return story{files: files, runs: c.runs}, errors.Join(c.err, err)
}

// caller sends requests until one fails.
type caller struct {
	url  string
	runs map[string]string
	err  error
}

func (c *caller) send(path, body string) gjson.Result {
	if c.err != nil {
		return gjson.Result{}
	}
	status, text := post(c.url+path, body)
	if status/100 != 2 {
		c.err = fmt.Errorf("%s %s: %d %s", path, body, status, text)
	}
	return gjson.Parse(text)
}

func (c *caller) declare(workflow, body string) {
	req, err := http.NewRequest(http.MethodPut, c.url+"/v1/workflows/"+workflow, strings.NewReader(body))
	if err != nil {
		c.err = errors.Join(c.err, err)
		return
	}
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		err = resp.Body.Close()
		if resp.StatusCode/100 != 2 {
			err = fmt.Errorf("declare %s: %s", workflow, resp.Status)
		}
	}
	c.err = errors.Join(c.err, err)
}

func (c *caller) submit(name, workflow, body string) {
	c.runs[name] = c.send("/v1/workflows/"+workflow+"/runs", body).Get("run_id").String()
}

func (c *caller) claim(workflow, version string) (fence string) {
	got := c.send("/v1/claims", `{"worker":"w1","workflows":[{"name":"`+workflow+`","version":"`+version+`"}],"credit":1,"wait_ms":20000}`)
	return got.Get("runs.0.fence").Raw
}

func (c *caller) end(name, verb, body string) { c.send("/v1/runs/"+c.runs[name]+"/"+verb, body) }

// image is what can be seen of a directory from outside.
func image(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var data []byte
		if info.Mode().IsRegular() {
			if data, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		fmt.Fprintf(&out, "%s %v %v %x\n", path, info.Mode(), info.ModTime(), data)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// commands are all that look at a data directory.
var commands = [][]string{
	{"journal", "verify"}, {"journal", "dump"}, {"journal", "stat"}, {"snapshot", "list"}, {"snapshot", "verify"},
}

// TestJournalToolsChangeNothing fails when a command changes a file, its time, or the
// directory, makes a lock file where there is none, or can't be used while another
// one is looking.
func TestJournalToolsChangeNothing(t *testing.T) {
	dir := tell(t).dir
	appendTo(t, lastSegment(t, dir), []byte{1, 2, 3})
	for _, locked := range []bool{true, false} {
		if !locked {
			if err := os.Remove(filepath.Join(dir, "lock")); err != nil {
				t.Fatal(err)
			}
		}
		beside, err := persistence.OpenInspector(dir)
		if err != nil {
			t.Fatal(err)
		}
		before := image(t, dir)
		for _, command := range commands {
			for _, form := range []string{"table", "json"} {
				code, data, talk := tool(t, append(command, "--data", dir, "-o", form)...)
				if code != exitOK || data == "" {
					t.Errorf("%v ends with %d: %s%s", command, code, data, talk)
				}
				if form == "json" && command[1] != "dump" && !json.Valid([]byte(data)) {
					t.Errorf("%v: %s", command, data)
				}
			}
		}
		if after := image(t, dir); after != before {
			t.Errorf("the directory was\n%s\nand is\n%s", before, after)
		}
		if err := beside.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestJournalToolsRefuse fails when a directory that can't be looked at is told
// with another exit code or without a sentence that says why.
func TestJournalToolsRefuse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	orphan := tell(t).dir
	if err := os.Remove(filepath.Join(orphan, "manifest.json")); err != nil {
		t.Fatal(err)
	}
	newer := tell(t).dir
	rewrite(t, filepath.Join(newer, "manifest.json"), newerManifest)
	empty := t.TempDir()
	cases := []struct {
		dir  string
		code int
		want string
	}{
		{"", exitUsage, "no data directory: say --data DIR"},
		{filepath.Join(empty, "none"), exitUsage, "not a data directory: there is nothing of that name"},
		{file, exitUsage, "not a data directory: it is a file"},
		{empty, exitUsage, "not a data directory: it has neither manifest nor journal"},
		{orphan, exitOther, "data directory has a journal but no manifest.json"},
		{newer, exitOther, "manifest format 2: format is newer than this program"},
	}
	for _, c := range cases {
		for _, command := range commands {
			code, data, talk := tool(t, append(command, "--data", c.dir)...)
			if code != c.code || !strings.Contains(talk, c.want) || !strings.Contains(talk, c.dir) || data != "" {
				t.Errorf("%v on %q ends with %d: %s%s", command, c.dir, code, data, talk)
			}
		}
	}
	if left, err := os.ReadDir(empty); err != nil || len(left) != 0 {
		t.Errorf("an empty directory holds %v, %v", left, err)
	}
	if code, _, talk := tool(t, "journal", "verify", "--data", file, "-o", "json"); code != exitUsage || !strings.HasPrefix(talk, `{"type":"about:blank"`) {
		t.Errorf("a problem is told as %d %s", code, talk)
	}
}

// newerManifest makes a whole manifest of a format to come.
func newerManifest(data []byte) []byte { return otherManifest(data, `"format":1`, `"format":2`) }

// otherManifest replaces something in a manifest, which stays whole.
func otherManifest(data []byte, was, is string) []byte {
	inner := strings.Replace(gjson.GetBytes(data, "manifest|@ugly").Raw, was, is, 1)
	return fmt.Appendf(nil, `{"crc32c":"%08x","manifest":%s}`, crc32.Checksum([]byte(inner), crc32.MakeTable(crc32.Castagnoli)), inner)
}

// TestJournalToolsLeaveARunningNodeAlone fails when a command looks at the files of a
// running node, or doesn't say what to do.
func TestJournalToolsLeaveARunningNodeAlone(t *testing.T) {
	dir := t.TempDir()
	n, err := node.Start(t.Context(), node.Config{DataDir: dir, Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range commands {
		code, data, talk := tool(t, append(command, "--data", dir)...)
		if code != exitOther || data != "" || !strings.Contains(talk, "a node is running on "+dir+": stop it, or look at a volume snapshot") {
			t.Errorf("%v ends with %d: %s%s", command, code, data, talk)
		}
	}
	if err := n.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	in, err := persistence.OpenInspector(dir)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := node.Start(t.Context(), node.Config{DataDir: dir, Addr: "127.0.0.1:0"}); err == nil {
		t.Error("a node starts on a directory that is looked at", n.Close(context.Background()))
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
}

// crafted makes a data directory of two shards with bodies of our own in shard 1.
func crafted(t *testing.T, bodies ...[]byte) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	l, err := persistence.Open(persistence.Config{Dir: dir, Node: "n1", Shards: 2, SnapshotAfter: persistence.NoSnapshots})
	if err != nil {
		t.Fatal(err)
	}
	var ledgers []*enginetest.Ledger
	for i := range l.Shards() {
		ledger := enginetest.NewLedger()
		log, err := l.Open(engine.ShardID(i), ledger)
		if err != nil {
			t.Fatal(err)
		}
		ledger.Use(log)
		ledgers = append(ledgers, ledger)
	}
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, body := range bodies {
		if _, err := ledgers[1].Append(1_000_000_000, string(body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func lastSegment(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "journal", "*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("segments %v, %v", names, err)
	}
	return names[len(names)-1]
}

func rewrite(t *testing.T, name string, change func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, change(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func appendTo(t *testing.T, name string, more []byte) {
	t.Helper()
	rewrite(t, name, func(data []byte) []byte { return append(data, more...) })
}
