package demo

import (
	"errors"
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/examples"
	"github.com/pyrula/pyrula-node/flow"
)

// TestReadRuns fails when a file is read otherwise than line by line, or a wrong
// line isn't named.
func TestReadRuns(t *testing.T) {
	all, err := readRuns(strings.NewReader("{\"a\":1}\n\n  {\"b\":2}  \n{}"))
	if err != nil || len(all) != 3 || string(all[1]) != `{"b":2}` {
		t.Errorf("read %q, error %v", all, err)
	}
	for text, want := range map[string]string{
		"":             "there are none",
		"\n\n":         "there are none",
		"{}\n[1]\n":    "line 2 isn't a JSON object",
		"{}\n{\"a\":":  "line 2 isn't a JSON object",
		"{} {}\n":      "line 1 isn't a JSON object",
		"\n\nnonsense": "line 3 isn't a JSON object",
		"{\"a\":\"" + strings.Repeat("x", flow.MaxPayloadBytes) + "\"}": "line 1 has more than",
		strings.Repeat("{}\n", maxRuns+1):                               "line 100001 is one too many",
	} {
		if _, err := readRuns(strings.NewReader(text)); !errors.Is(err, ErrBadRuns) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: error %v, want %q", text, err, want)
		}
	}
}

// TestExampleRuns fails when the runs that come along aren't skewed as they are to
// be: one tenant with a third, a long tail.
func TestExampleRuns(t *testing.T) {
	all, err := readRuns(strings.NewReader(examples.SyncAccounts()))
	if err != nil {
		t.Fatal(err)
	}
	tenants := map[string]int{}
	source := flow.KeySource{Name: keyName}
	for _, p := range all {
		key, err := source.Resolve(p)
		if err != nil {
			t.Fatal(err)
		}
		tenants[key]++
	}
	most := 0
	for _, n := range tenants {
		most = max(most, n)
	}
	if len(all) != 400 || len(tenants) != 12 || most != 133 {
		t.Errorf("%d runs, %d tenants, %d of one", len(all), len(tenants), most)
	}
}
