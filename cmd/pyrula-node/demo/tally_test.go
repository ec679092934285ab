package demo

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// at is a moment of a made-up demonstration.
func at(ms int) time.Time { return time.UnixMilli(1_796_000_000_000 + int64(ms)) }

// observations are what a demonstration has seen, in the making.
type observations struct {
	sent []*run
	seen []sighting
}

// run adds a run of a tenant that was sent at 0, admitted at admitted, and whose
// body began at began beside others.
func (o *observations) run(tenant string, admitted, began, atOnce int) *run {
	id := fmt.Sprintf("run_%d", len(o.sent))
	started := at(admitted).UnixMilli()
	r := &run{id: id, sent: at(0), end: &wire.Run{
		RunID: id, Status: "completed", StartedAt: &started, Gates: []wire.Gate{{Kind: "limit", Key: tenant}},
	}}
	o.sent = append(o.sent, r)
	o.seen = append(o.seen, sighting{id, tenant, atOnce, at(began)})
	return r
}

// TestP3P4DemoJudges fails when a count that breaks a promise passes, or is told
// without its tenant and figure.
func TestP3P4DemoJudges(t *testing.T) {
	cases := []struct {
		name string
		see  func(o *observations)
		want string // in the error; empty: nothing is broken
	}{
		{"as declared", func(o *observations) {
			for i := range burst + perSecond {
				o.run("acme", i*60, i*60+5, 1+i%2)
			}
			o.run("globex", 0, 1, 1)
		}, ""},
		{"three at once", func(o *observations) {
			o.run("acme", 0, 5, 1)
			o.run("acme", 0, 5, 3)
		}, `tenant "acme": 3 bodies at once, and its Limit is 2`},
		{"one start too many", func(o *observations) {
			for i := range burst + perSecond + 1 {
				o.run("acme", i*60, i*60+5, 1)
			}
			o.run("globex", 0, 1, 1)
		}, `tenant "acme": 16 bodies began within a second, and its Rate allows 15`},
		{"the ends of a second count", func(o *observations) {
			for i := range burst + perSecond {
				o.run("acme", i, i, 1)
			}
			o.run("acme", 1000, 1000, 1)
		}, "16 bodies began within a second"},
		{"a burst of a thousandth more than a second", func(o *observations) {
			for i := range burst + perSecond {
				o.run("acme", i, i, 1)
			}
			o.run("acme", 1001, 1001, 1)
		}, ""},
		{"late bodies of runs that were admitted in time", func(o *observations) {
			for i := range burst + perSecond {
				o.run("acme", i*60, 1000, 1)
			}
			o.run("acme", 1200, 1205, 1)
		}, ""},
		{"a second body of a run costs no token", func(o *observations) {
			for i := range burst + perSecond {
				o.run("acme", i*60, i*60, 1)
			}
			o.seen = append(o.seen, sighting{o.sent[0].id, "acme", 1, at(900)})
		}, ""},
		{"a body of an earlier demonstration", func(o *observations) {
			o.run("acme", 0, 1, 1)
			o.seen = append(o.seen, sighting{"run_old", "acme", 3, at(5)})
		}, "3 bodies at once"},
		{"a run that failed", func(o *observations) {
			o.run("acme", 0, 1, 1).end.Status = "failed"
		}, `tenant "acme": run run_0 is failed, and every run was to complete`},
		{"a run without a body", func(o *observations) {
			o.run("acme", 0, 1, 1)
			o.seen = nil
		}, `tenant "acme": run run_0 had no body`},
		{"a run of which nobody knows the end", func(o *observations) {
			o.run("acme", 0, 1, 1).end = nil
		}, `run run_0 is unknown`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var o observations
			c.see(&o)
			err := judge(tally(o.sent, o.seen))
			switch {
			case c.want == "" && err != nil:
				t.Errorf("error %v, want none", err)
			case c.want != "" && (!errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error %v, want %q", err, c.want)
			case err != nil && strings.Contains(err.Error(), "globex"):
				t.Errorf("error %v names a tenant that broke nothing", err)
			}
		})
	}
}

// TestDemoTable fails when the table doesn't show what was counted.
func TestDemoTable(t *testing.T) {
	var o observations
	for i := range 100 {
		o.run("acme", i*200, i*200+10, 1+i%2)
	}
	o.run("", 0, 7, 1)
	o.seen = append(o.seen, sighting{o.sent[3].id, "acme", 2, at(30_000)})
	var out strings.Builder
	if err := printTable(&out, tally(o.sent, o.seen), 31*time.Second); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"  acme   100        2      2               6       15     9.8 s    19.6 s",
		"(none)     1        1      2               1       15      7 ms      7 ms",
		"101 runs of 2 tenants completed in 31.0 s, 1 bodies began again.",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}

// TestPercentile fails when a percentile isn't the nearest rank.
func TestPercentile(t *testing.T) {
	list := []time.Duration{1, 2, 3, 4}
	for p, want := range map[int]time.Duration{1: 1, 25: 1, 26: 2, 50: 2, 75: 3, 76: 4, 99: 4, 100: 4} {
		if got := percentile(list, p); got != want {
			t.Errorf("p%d is %d, want %d", p, got, want)
		}
	}
	if got := percentile(nil, 50); got != 0 {
		t.Errorf("p50 of nothing is %d", got)
	}
}
