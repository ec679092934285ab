package main

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/bench/load"
)

// Fails when events are counted that weren't taken, or not all of a request.
func TestEventsAreCounted(t *testing.T) {
	n, _ := serving(t)
	o := options{clients: numbers{2}, keys: numbers{3}, batch: numbers{1, 10}, reps: 1, tries: 1, others: 1, addr: n.URL(), eventful: true, dur: 300 * time.Millisecond}
	var out bytes.Buffer
	if err := o.run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	if len(lines) != 2 {
		t.Fatalf("%d lines, want 2:\n%s", len(lines), out.Bytes())
	}
	for i, line := range lines {
		if r := strict[load.Result](t, line); r.Errors != 0 || r.Unit != "events/s" || r.Batch != []int{1, 10}[i] {
			t.Errorf("result %+v", r)
		}
	}
}

// Fails when a request whose events are refused, or a workflow that takes none, counts as sent.
func TestEventsThatAreRefused(t *testing.T) {
	_, host := serving(t)
	j := job{host: host, workflow: "w"}
	if err := declare(j, openGates); err != nil { // it has no trigger
		t.Fatal(err)
	}
	c, err := dial(j.host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := load.NewRecorder(everything())
	client := eventClient{job: j, conn: c, rng: rand.New(rand.NewPCG(1, 1))}
	client.batch, client.keys = 3, 1
	if err := client.Cycle(r); err == nil || r.Tally().Cycles != 0 {
		t.Errorf("error %v, %d events are counted", err, r.Tally().Cycles)
	}
}

// Fails when a scraped histogram is read otherwise than Prometheus means it.
func TestBuckets(t *testing.T) {
	h, err := parseBuckets([]byte(`# TYPE late histogram
late_bucket{workflow="w",le="0.005"} 5
late_bucket{workflow="w",le="0.05"} 9
late_bucket{workflow="w",le="+Inf"} 10
late_sum{workflow="w"} 1
`), "late_bucket")
	if err != nil {
		t.Fatal(err)
	}
	if h.count() != 10 || h.onTime() != .9 || h.quantile(.5) != .005 || h.quantile(.9) != .05 || h.quantile(.99) != -1 {
		t.Errorf("%d values, %g, %g, %g, %g", h.count(), h.onTime(), h.quantile(.5), h.quantile(.9), h.quantile(.99))
	}
	if h, err := parseBuckets(nil, "late_bucket"); err != nil || h.count() != 0 || h.onTime() != 0 || h.quantile(.5) != -1 {
		t.Errorf("nothing is %v, error %v", h, err)
	}
	if _, err := parseBuckets([]byte("late_bucket{le=\"x\"} 1\n"), "late_bucket"); err == nil {
		t.Error("a bound that is no number is taken")
	}
}
