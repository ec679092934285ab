package load

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"
)

func repetition(perSec float64, claim time.Duration) Repetition {
	rep := Repetition{PerSec: perSec}
	rep.Tally.Claim.Add(claim)
	rep.Tally.Cycles, rep.Tally.Claims, rep.Tally.Grants, rep.Tally.Errors = 100, 2, 5, 1
	rep.CPU = CPUShare{Server: 3 * time.Millisecond, Client: time.Millisecond, Busy: 8 * time.Millisecond, Idle: 8 * time.Millisecond}
	return rep
}

// Fails when the latency isn't that of the repetition whose throughput is reported,
// or when an error of another repetition is lost.
func TestFoldTakesOneRepetition(t *testing.T) {
	reps := []Repetition{repetition(300, time.Microsecond), repetition(100, 3*time.Microsecond), repetition(200.06, 2*time.Microsecond)}
	reps[1].Busy = true
	var r Result
	r.Fold(reps)
	if r.PerSec != 200.1 || r.ClaimP50 < 1.9 || r.ClaimP50 > 2.1 {
		t.Errorf("median is %g/s with a claim of %g us, want 200.1 with 2", r.PerSec, r.ClaimP50)
	}
	if !slices.Equal(r.Runs, []int64{300, 100, 200}) || r.Errors != 3 || r.Busy != 1 {
		t.Errorf("runs %v errors %d busy %d", r.Runs, r.Errors, r.Busy)
	}
	if r.Fill != 2.5 || r.ServerMicros != 30 || r.ClientMicros != 10 || !slices.Equal(r.Others, []float64{.25, .25, .25}) {
		t.Errorf("fill %g server %g client %g others %v", r.Fill, r.ServerMicros, r.ClientMicros, r.Others)
	}
}

// Fails when the median of an even number isn't the lower of the two in the middle,
// or the order of the repetitions is changed.
func TestMedianOfAnEvenNumber(t *testing.T) {
	reps := []Repetition{{PerSec: 4}, {PerSec: 1}, {PerSec: 3}, {PerSec: 2}}
	if got := Median(reps).PerSec; got != 2 {
		t.Errorf("median is %g, want 2", got)
	}
	if reps[0].PerSec != 4 {
		t.Error("the repetitions were sorted in place")
	}
}

// Fails when ratios aren't taken pair by pair.
func TestRatios(t *testing.T) {
	of := []Repetition{{PerSec: 90}, {PerSec: 50}, {PerSec: 200}}
	base := []Repetition{{PerSec: 100}, {PerSec: 100}, {PerSec: 100}}
	ratios, median := Ratios(of, base, Throughput)
	if !slices.Equal(ratios, []float64{.9, .5, 2}) || median != .9 {
		t.Errorf("ratios %v, median %g", ratios, median)
	}
	if ratios, median = Ratios(of, base, ServerMicros); median != 0 || len(ratios) != 3 {
		t.Errorf("ratios of an unknown figure %v, median %g", ratios, median)
	}
}

// Fails when the line isn't one line, or a name that other programs' lines have too
// isn't in it.
func TestWriteIsOneLine(t *testing.T) {
	var buf bytes.Buffer
	r := Result{Peer: "pyrula-node", Variant: "a\nb", Machine: Machine{Cores: 2}}
	r.Fold([]Repetition{repetition(100, time.Microsecond)})
	if err := Write(&buf, r); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(buf.Bytes(), []byte("\n")); n != 1 || !bytes.HasSuffix(buf.Bytes(), []byte("\n")) {
		t.Fatalf("%q is not one line", buf.Bytes())
	}
	var got map[string]any
	if err := json.Unmarshal(buf.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"peer", "variant", "durability", "clients", "keys", "per_s", "unit", "claim_p50_us", "claim_p99_us",
		"empty_claims", "errors", "runs_per_s", "reps_begun_on_busy_machine", "reps_thrown_away", "machine",
	} {
		if _, ok := got[name]; !ok {
			t.Errorf("the line has no %s", name)
		}
	}
}
