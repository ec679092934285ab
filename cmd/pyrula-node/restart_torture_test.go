//go:build torture

package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestP85LongJournal fails when a long journal that is replayed loses a run, or when the
// node doesn't say how far it is or what it has read. It logs how long that took.
func TestP85LongJournal(t *testing.T) {
	const runs = 60_000
	w, dir := newWitness(t), t.TempDir()
	w.serve(dir)
	w.declare("sync", `{"limit":{"key":"k","max":1},"lease_seconds":30}`)
	text := strings.Repeat("x", 2000)
	for i := range runs / 250 {
		w.submitMany(250, "sync", fmt.Sprintf(`{"k":"%d","text":%q}`, i%100, text))
	}
	grant := w.one("sync")
	w.again(dir)
	said := w.node.said()
	t.Log(said)
	line := regexp.MustCompile(`msg=recovered records=(\d+) runs=(\d+) keys=(\d+) seconds=(\S+) dropped_bytes=(\d+)`).FindStringSubmatch(said)
	if line == nil || line[2] != fmt.Sprint(runs) {
		t.Fatalf("the node doesn't say that it has %d runs", runs)
	}
	seconds, err := strconv.ParseFloat(line[4], 64)
	if err != nil {
		t.Fatal(err)
	}
	if told := strings.Count(said, "recovery goes on"); seconds > 2 && told == 0 {
		t.Errorf("a recovery of %v s said nothing of itself", seconds)
	}
	if !w.beat(grant) {
		t.Error("the holder lost its lease with the node")
	}
	w.complete(grant)
	for i := 0; i < runs; i += 997 {
		w.run(w.runs[i])
	}
}
