package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// scripted is a program that does what a shell script says.
func scripted(t *testing.T, script string) program {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	p := program{binary: filepath.Join(t.TempDir(), "server")}
	if err := os.WriteFile(p.binary, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return p
}

// leftBehind lists what the temporary directory still holds.
func leftBehind(t *testing.T) []os.DirEntry {
	t.Helper()
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// Fails when a server that doesn't become ready is waited for, or leaves its directory
// behind.
func TestLaunchOfAProgramThatIsNoServer(t *testing.T) {
	for name, script := range map[string]string{
		"ends":    "exit 0",
		"fails":   "exit 3",
		"babbles": "echo hello >&2",
		"address": `echo '{"level":"INFO","msg":"ready","url":"https://h"}' >&2; exec cat /dev/zero >/dev/null`,
	} {
		if s, err := scripted(t, script).launch("always"); err == nil {
			t.Errorf("%s: started %+v", name, s)
		}
		if left := leftBehind(t); len(left) != 0 {
			t.Errorf("%s: left behind %v", name, left)
		}
	}
	if _, err := (program{binary: filepath.Join(t.TempDir(), "none")}).launch("always"); err == nil {
		t.Error("a program that isn't there was started")
	}
}

const readyLine = `echo '{"level":"INFO","msg":"ready","url":"http://127.0.0.1:5","pprof":"http://127.0.0.1:6"}' >&2`

// Fails when a server that is ready isn't found, or doesn't end when it is told to.
func TestLaunchAndStop(t *testing.T) {
	s, err := scripted(t, readyLine+"; exec cat /dev/zero >/dev/null").launch("always")
	if err != nil {
		t.Fatal(err)
	}
	if s.host != "127.0.0.1:5" || s.pprof != "http://127.0.0.1:6" {
		t.Errorf("server is at %q, profiles at %q", s.host, s.pprof)
	}
	if err := s.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if left := leftBehind(t); len(left) != 0 {
		t.Errorf("left behind %v", left)
	}
}

// Fails when a server that broke down during a measurement goes unnoticed.
func TestStopOfAServerThatHasEnded(t *testing.T) {
	p := scripted(t, readyLine+`; while [ -e "$0.runs" ]; do sleep 0.01; done; exit 1`)
	runs := p.binary + ".runs" // the server breaks down when this is gone
	if err := os.WriteFile(runs, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := p.launch("always")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(runs); err != nil {
		t.Fatal(err)
	}
	<-s.ended // it has ended for certain
	if err := s.stop(); err == nil || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("error is %v", err)
	}
}

// Fails when a server that was stopped can't be started over the same data, or its
// failure to stop in good order goes unnoticed.
func TestStartAgain(t *testing.T) {
	s, err := scripted(t, `trap 'exit $(cat "$2/code")' TERM; mkdir -p "$2"; echo 0 >"$2/code"; echo "$*" >>"$2/starts"
`+readyLine+`; while :; do sleep 0.01; done`).launch("always")
	if err != nil {
		t.Fatal(err)
	}
	if took, err := s.terminate(); err != nil || took <= 0 {
		t.Fatalf("terminate took %v, %v", took, err)
	}
	if err := s.start("--once"); err != nil {
		t.Fatal(err)
	}
	if took, err := s.crash(); err != nil || took != 0 {
		t.Fatalf("crash took %v, %v", took, err)
	}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	starts, err := os.ReadFile(filepath.Join(s.data(), "starts"))
	if lines := strings.Fields(strings.ReplaceAll(string(starts), " ", "_")); err != nil || len(lines) != 3 ||
		lines[1] != lines[0]+"_--once" || lines[2] != lines[0] {
		t.Errorf("starts are %s, %v", starts, err)
	}
	if err := os.WriteFile(filepath.Join(s.data(), "code"), []byte("3"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.terminate(); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("error is %v", err)
	}
	if err := s.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if left := leftBehind(t); len(left) != 0 {
		t.Errorf("left behind %v", left)
	}
}

// Fails when a warning of the server is swallowed, or information is passed on.
func TestFollowPassesOnWarnings(t *testing.T) {
	log := `{"level":"WARN","msg":"the directory is new"}
panic: at the disco
{"level":"INFO","msg":"recovered","records":3,"runs":2,"keys":1,"seconds":0.5}
{"level":"INFO","msg":"ready","url":"http://h:1"}
{"level":"INFO","msg":"ready","url":"http://h:2"}
{"level":"WARN","msg":"slow"}
`
	var to bytes.Buffer
	found := make(chan ready, 1)
	follow(strings.NewReader(log), &to, found)
	if want := "server: panic: at the disco\nserver: {\"level\":\"WARN\",\"msg\":\"slow\"}\n"; to.String() != want {
		t.Errorf("passed on %q, want %q", to.String(), want)
	}
	if r := <-found; r.URL != "http://h:1" || r.recovered != (recovered{3, 2, 1, .5}) {
		t.Errorf("ready is %+v", r)
	}
}
