package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/tidwall/gjson"
)

// curl does what curl would do with a command line of ours: -X, -d, -w and the URL,
// words in single quotes. It sends a form's content type, as curl -d does.
func curl(t *testing.T, line string) string {
	t.Helper()
	method, url, body := http.MethodGet, "", ""
	words := shellWords(t, line)
	for i := 1; i < len(words); i++ {
		switch words[i] {
		case "-X":
			i++
			method = words[i]
		case "-d":
			i++
			body = words[i]
			if method == http.MethodGet {
				method = http.MethodPost
			}
		case "-w":
			i++
		default:
			url = words[i]
		}
	}
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode/100 != 2 {
		t.Fatalf("%s: %s %s %v", line, resp.Status, text, err)
	}
	return string(text)
}

// shellWords splits a line as a shell does, as far as our lines go.
func shellWords(t *testing.T, line string) []string {
	t.Helper()
	var words []string
	for rest := strings.TrimSpace(line); rest != ""; rest = strings.TrimLeft(rest, " ") {
		var word string
		ok := true
		if rest[0] == '\'' {
			word, rest, ok = strings.Cut(rest[1:], "'")
		} else {
			word, rest, _ = strings.Cut(rest, " ")
		}
		if !ok || strings.ContainsAny(word, "$`\"\\") && word[0] != '{' && word != `\n` {
			t.Fatalf("%s: a shell would read this otherwise", line)
		}
		words = append(words, word)
	}
	return words
}

// curlLines are the lines of a text that call curl.
func curlLines(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "curl ") {
			all = append(all, strings.TrimSpace(line))
		}
	}
	return all
}

// TestDevCanBePasted fails when the lines that dev prints don't declare, submit and
// claim, or when its temporary directory stays.
func TestDevCanBePasted(t *testing.T) {
	c := spawn(t, "dev", "--addr", "127.0.0.1:0")
	dir := c.says(`data +(\S+)  \(removed at the end\)`)
	c.says(`/v1/claims -d (.*)\n`)
	lines := curlLines(c.said())
	if len(lines) != 3 {
		t.Fatalf("curl lines: %q", lines)
	}
	curl(t, lines[0])
	id := gjson.Get(curl(t, lines[1]), "run_id").String()
	if got := gjson.Get(curl(t, lines[2]), "runs.0.run_id").String(); got != id || id == "" {
		t.Errorf("claimed %q, submitted %q", got, id)
	}
	c.signal(syscall.SIGTERM)
	if code := c.exit(); code != exitOK {
		t.Errorf("it ends with %d:\n%s", code, c.said())
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the temporary directory %s is still there: %v", dir, err)
	}
}

// TestDemo fails when the demonstration doesn't end well on a few runs, or leaves
// its directory behind.
func TestDemo(t *testing.T) {
	var runs strings.Builder
	for i := range 13 { // more than a burst
		fmt.Fprintf(&runs, `{"tenant_id":"acme","account":"a-%d"}`+"\n", i)
	}
	runs.WriteString(`{"tenant_id":"globex","account":7}` + "\n{}\n")
	file := writeConfig(t, runs.String())
	c := spawn(t, "demo", "--runs", file)
	if code := c.exit(); code != exitOK {
		t.Errorf("it ends with %d:\n%s", code, c.said())
	}
	c.says(`acme +13 +[12] +2 +\d+ +\d+ `)
	c.says(`15 runs of 3 tenants completed in .*, 0 bodies began again`)
	dir := c.says(`its journal is in (\S+)`)
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the temporary directory %s is still there: %v", dir, err)
	}
}

// TestDemoRefusesBadRuns fails when a wrong file is told otherwise than as a usage
// error.
func TestDemoRefusesBadRuns(t *testing.T) {
	file := writeConfig(t, "{}\n[]\n")
	if code, stderr := invoke(t, "demo", "--runs", file); code != exitUsage || !strings.Contains(stderr, "line 2 isn't a JSON object") {
		t.Errorf("exit code %d and %q", code, stderr)
	}
	for _, args := range [][]string{{"demo", "--runs", "/no/such/file"}, {"demo", "--addr", "x"}, {"demo", "now"}} {
		if code, stderr := invoke(t, args...); code != exitUsage {
			t.Errorf("%q: exit code %d and %q", args, code, stderr)
		}
	}
}
