package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// TestKeyTable fails when a key's table leaves out what it has, or tells of what it hasn't.
func TestKeyTable(t *testing.T) {
	ms := func(in time.Duration) int64 { return time.Now().Add(in).UnixMilli() }
	full := wire.KeyView{
		Workflow: "digest", Key: "a b", Used: 2, Max: new(int64(2)), Queued: 12, OldestWaitMS: new(int64(1_084_000)),
		Holders: []wire.Holder{{RunID: runA, State: "executing"}, {RunID: runB, State: "reserved"}},
		Rate:    &wire.RateState{Tokens: 0, Burst: 5, PerSecond: 0.5, OpensAt: new(ms(2 * time.Second))},
		Batch:   &wire.OpenBatch{RunID: runB, Events: 7, Bytes: 1234, OpenedAt: ms(-5 * time.Second), FiresAt: ms(55*time.Second + 20*time.Millisecond)},
	}
	due := full
	due.Batch = &wire.OpenBatch{RunID: runB, Events: 1, Bytes: 2, Due: true}
	due.Holders, due.Max, due.Rate, due.OldestWaitMS = make([]wire.Holder, 23), nil, nil, nil
	for i, c := range []struct {
		view  wire.KeyView
		want  []string
		never []string
	}{
		{full, []string{
			`key +"a b"`, "slots +2 of 2 used", "held by +" + runA + " executing", "held by +" + runB + " reserved", "tokens +0 of 5, 0.5 a second, the next 20.*, in ",
			"queued +12 runs, the oldest for 18m4s", "batch +7 events, 1234 bytes", "will be +" + runB, "opened +20.*, 5.[0-9] s ago", "fires at +20.*, in 5[0-9].[0-9] s",
		}, []string{"due", "more"}},
		{due, []string{"slots +2 used, under a limit that isn't declared any more", "held by +3 more", "batch +1 event, 2 bytes", "fires +due: waits for a worker"}, []string{"tokens", "fires at", "oldest"}},
		{wire.KeyView{Workflow: "w"}, []string{"workflow +w", `key +""`, "queued +no run"}, []string{"slots", "tokens", "batch", "held"}},
	} {
		var out strings.Builder
		p := program{stdout: &out}
		if err := p.keyTable(&c.view); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !regexp.MustCompile("(?m)^" + want).MatchString(out.String()) {
				t.Errorf("table %d has no line %q:\n%s", i, want, &out)
			}
		}
		for _, never := range c.never {
			if strings.Contains(out.String(), never) {
				t.Errorf("table %d has %q:\n%s", i, never, &out)
			}
		}
	}
}
