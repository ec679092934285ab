package main

import (
	"strings"
	"testing"
	"time"
)

// ids of the fake's runs.
const (
	runA = "run_01M8MZ2A00E028000000000000"
	runB = "run_01M8MZ2A01E028000000000000"
)

// TestP65ExitCodesOfCommands fails when a command ends with another code than its
// outcome has in the table.
func TestP65ExitCodesOfCommands(t *testing.T) {
	addr := fake(t, strings.NewReplacer("/A", "/"+runA, "/B", "/"+runB, `"A"`, `"`+runA+`"`, `"B"`, `"`+runB+`"`).Replace(`
POST /v1/workflows/charge/runs 202 {"run_id":"A","status":"queued","created":true}
POST /v1/workflows/keyed/runs 400 problem:{"code":"configuration_error","field":"stamp.keys.limit","detail":"stamp.keys.limit is required: the key is a function"}
GET /v1/workflows 200 {"workflows":[]}
GET /v1/runs/A 200 run:{"run_id":"A","status":"failed","error":{"type":"T","message":"m"}}
GET /v1/runs/A/events 200 {"events":[]}
GET /v1/runs/B 200 run:{"run_id":"B","status":"terminated"}
GET /v1/runs/B/events 200 {"events":[]}
POST /v1/runs/A/signals/go 409 problem:{"code":"run_ended","detail":"run A: run has ended"}
POST /v1/runs/B/signals/go 409 problem:{"code":"history_too_large","detail":"run B: history is too large"}
POST /v1/runs/A/retry 202 {"run_id":"B","status":"queued","created":true}
POST /v1/runs/B/retry 409 problem:{"code":"run_not_ended","detail":"run B: run has not ended"}
GET /v1/workflows/none 404 problem:{"code":"unknown_workflow","detail":"\"none\": unknown workflow"}
GET /v1/schedules/none 404 problem:{"code":"unknown_schedule","detail":"\"none\": unknown schedule"}
DELETE /v1/schedules/none 404 problem:{"code":"unknown_schedule","detail":"\"none\": unknown schedule"}
PUT /v1/schedules/bad 422 problem:{"code":"invalid_argument","field":"cron","detail":"cron must have five fields"}
POST /v1/workflows/lost/runs 0 -
POST /v1/runs/B/signals/lost 503 problem:{"code":"outcome_unknown","detail":"interrupted","retry_after_ms":200}
POST /v1/workflows/busy/runs 429 problem:{"code":"overloaded","detail":"overloaded","retry_after_ms":1000}
`))
	for line, want := range map[string]int{
		"runs submit charge":                                      exitOK,
		"runs submit charge --wait":                               exitFailed,
		"runs submit charge --wait -o id":                         exitFailed,
		"runs submit keyed":                                       exitUsage,
		"runs submit charge --params [1]":                         exitUsage,
		"runs submit charge --params {":                           exitUsage,
		"runs submit charge --params @none.json":                  exitUsage,
		"runs submit charge --params -":                           exitUsage, // standard input is empty
		"runs submit charge --timeout 1s":                         exitUsage,
		"runs submit":                                             exitUsage,
		"runs submit lost":                                        exitOther, // it may have been taken
		"runs submit lost --once k":                               exitUnreachable,
		"runs signal B lost":                                      exitOther,
		"runs signal B lost --once k":                             exitUnreachable,
		"runs submit busy":                                        exitUnreachable,
		"runs wait A":                                             exitFailed,
		"runs wait B":                                             exitCancelled,
		"runs wait B --timeout -1s":                               exitUsage,
		"runs show A --wait 1s":                                   exitFailed,
		"runs signal A go":                                        exitConflict,
		"runs signal B go":                                        exitConflict,
		"runs signal A":                                           exitUsage,
		"runs signal x go":                                        exitUsage,
		"runs signal A go --payload hello":                        exitUsage,
		"runs retry A":                                            exitOK,
		"runs retry B":                                            exitConflict,
		"runs why A -o id":                                        exitUsage,
		"workflows show none":                                     exitNotFound,
		"workflows show":                                          exitUsage,
		"schedules show none":                                     exitNotFound,
		"schedules delete none":                                   exitNotFound,
		"schedules set bad --workflow charge --cron *":            exitUsage,
		"schedules set x --cron @daily":                           exitUsage, // of no workflow
		"schedules set x --workflow w":                            exitUsage,
		"schedules set x --workflow w --cron @daily --at 1":       exitUsage,
		"schedules set x --workflow w --at 1796000000":            exitUsage, // seconds
		"schedules set x --workflow w --at tomorrow":              exitUsage,
		"schedules set x --workflow w --every 0s":                 exitUsage,
		"schedules set x --workflow w --every 1m --time-zone UTC": exitUsage,
		"schedules set x --workflow w --cron @daily --start 2026-01-01T": exitUsage,
	} {
		args := strings.Fields(line)
		for i, a := range args {
			switch a {
			case "A":
				args[i] = runA
			case "B":
				args[i] = runB
			}
		}
		code, stderr := invoke(t, append(args, "--addr", addr)...)
		if code != want || (code != exitOK) != strings.Contains(stderr, longName+": ") {
			t.Errorf("%s: exit code %d and %q, want %d and a sentence", line, code, stderr, want)
		}
	}
	if code, stderr := invoke(t, "runs", "submit", "charge", "--addr", "127.0.0.1:1"); code != exitUnreachable || !strings.Contains(stderr, longName+" dev starts one") {
		t.Errorf("without a node: exit code %d and %q, want 9 and what to do", code, stderr)
	}
}

// TestP21RetryOfAFunctionKey fails when the retry of a run whose key only the workflow's
// code can compute doesn't exit with 2, under either name of the program.
func TestP21RetryOfAFunctionKey(t *testing.T) {
	addr := fake(t, "POST /v1/runs/"+runA+`/retry 400 problem:{"code":"configuration_error","field":"limit.key","detail":"limit.key is the function \"tier\" of the workflow's code"}`)
	for _, name := range []string{shortName, longName} {
		c := spawnAs(t, name, "runs", "retry", runA, "--addr", addr)
		code, said := c.exit(), c.said()
		if code != exitUsage || !strings.HasPrefix(said, name+`: limit.key is the function "tier" of the workflow's code (configuration_error)`+"\n") ||
			!strings.Contains(said, "Only a program that has the workflow's code") {
			t.Errorf("%s exits with %d and says %q, want 2 and why", name, code, said)
		}
		c = spawnAs(t, name, "runs", "retry", runA, "-o", "json", "--addr", addr)
		if code, said := c.exit(), c.said(); code != exitUsage || !strings.HasPrefix(said, `{"type":"/v1/problems/configuration_error"`) || strings.Count(said, "\n") != 1 {
			t.Errorf("%s -o json exits with %d and says %q, want 2 and the problem alone", name, code, said)
		}
		c = spawnAs(t, name, "runs", "retry", "--help")
		if code, said := c.exit(), c.said(); code != exitOK || !strings.Contains(said, "\n  "+name+" runs retry RUN") {
			t.Errorf("%s runs retry --help exits with %d and says %q", name, code, said)
		}
	}
}

// TestMoments fails when an instant is read otherwise than it was meant.
func TestMoments(t *testing.T) {
	for text, want := range map[string]int64{
		"2026-11-30T12:53:20Z": 1_796_043_200_000, "2026-11-30T13:53:20.5+01:00": 1_796_043_200_500, "1796043200000": 1_796_043_200_000,
		"": 0, "0": 0, "-1": 0, "1796043200": 0, "2026-11-30": 0, "2026-11-30T12:53:20": 0, "1960-01-01T00:00:00Z": 0, "12:53": 0,
	} {
		got, err := readMoment("at", text)
		if got != want || (err == nil) != (want != 0) {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
}

// TestReadJSON fails when a flag's JSON isn't read from where it is, or what is wrong
// with it isn't said.
func TestReadJSON(t *testing.T) {
	p := program{}
	for text, want := range map[string]string{
		"":           "--params: it is empty, want JSON",
		" ":          "--params: it is empty, want JSON",
		"-":          "--params: it is empty, want JSON",
		"hello":      "--params: not JSON at byte 1: invalid character 'h' looking for beginning of value",
		`{"a":1,}`:   "--params: not JSON at byte 8: invalid character '}' looking for beginning of object key string",
		`{"a":1`:     "--params: not JSON at byte 6: unexpected end of JSON input",
		"{}{}":       "--params: not JSON at byte 3: invalid character '{' after top-level value",
		"\"\xff\"":   "--params: not UTF-8",
		"@no/such":   "--params @no/such: no such file or directory",
		"[1]":        `--params: want a JSON object, as '{"tenant":"acme"}'`,
		` {"a": 1} `: "",
	} {
		raw, err := p.readParams(text)
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%q: %s, %v; want %q", text, raw, err, want)
		}
	}
	if _, err := p.readJSON("payload", "hello"); err == nil || err.Error() != `--payload: not JSON: a text goes in quotes, as '"hello"'` {
		t.Errorf("a payload without quotes: %v", err)
	}
	p.stdin = strings.NewReader(`{"from": "stdin"}`)
	if raw, err := p.readParams("-"); err != nil || string(raw) != `{"from": "stdin"}` {
		t.Errorf("standard input is read as %s, %v", raw, err)
	}
	p.stdin = strings.NewReader(strings.Repeat(" ", 1<<20))
	if _, err := p.readParams("-"); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("1 MiB of standard input: %v", err)
	}
}

// TestSpans fails when a length of time is told with zeros that say nothing.
func TestSpans(t *testing.T) {
	for d, want := range map[time.Duration]string{
		5 * time.Minute: "5m", 24 * time.Hour: "24h", 90 * time.Second: "1m30s", time.Hour + time.Second: "1h0m1s", 90 * time.Minute: "1h30m",
		500 * time.Millisecond: "500ms", 10 * time.Minute: "10m", 20 * time.Hour: "20h", 0: "0s",
	} {
		if got := wholeText(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{800 * time.Millisecond: "0.8 s", 71 * time.Hour: "71h", 72 * time.Hour: "3 days"} {
		if got := spanText(d); got != want {
			t.Errorf("%v is told as %q, want %q", d, got, want)
		}
	}
}
