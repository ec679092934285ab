package load

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// Repetition is what one window of all clients brought.
type Repetition struct {
	PerSec float64 // cycles
	Tally  Tally
	CPU    CPUShare
	Busy   bool // it began on a machine that had other things to do
}

// Result is one line: the median repetition of one configuration. The names up to
// runs_per_s are those that the programs for other systems print too.
type Result struct {
	Peer       string  `json:"peer"`
	Variant    string  `json:"variant"`
	Durability string  `json:"durability"`
	Clients    int     `json:"clients"`
	Keys       int     `json:"keys"`
	PerSec     float64 `json:"per_s"`
	Unit       string  `json:"unit"`
	ClaimP50   float64 `json:"claim_p50_us"`
	ClaimP99   float64 `json:"claim_p99_us"`
	CycleP50   float64 `json:"cycle_p50_us,omitempty"`
	CycleP99   float64 `json:"cycle_p99_us,omitempty"`
	Empty      uint64  `json:"empty_claims"`
	Errors     uint64  `json:"errors"`
	Note       string  `json:"note,omitempty"`
	Runs       []int64 `json:"runs_per_s"`
	Busy       int     `json:"reps_begun_on_busy_machine"`
	Dropped    int     `json:"reps_thrown_away"` // since the machine had too much else to do

	Batch   int     `json:"batch,omitempty"`
	Backlog int     `json:"backlog,omitempty"`
	Fill    float64 `json:"runs_per_claim,omitempty"` // of claims that brought any

	GateP50   float64 `json:"gate_p50_us,omitempty"`
	GateP99   float64 `json:"gate_p99_us,omitempty"`
	GateShare float64 `json:"gate_bound_share,omitempty"` // of grants that waited for a gate, not for credit

	// CPU time of each end per cycle in the median repetition, and the share of the
	// machine that went elsewhere in each: a figure counts for what it says only where
	// that is small.
	ServerMicros float64   `json:"server_cpu_us,omitempty"`
	ClientMicros float64   `json:"client_cpu_us,omitempty"`
	Others       []float64 `json:"others_cpu_share"`

	Machine Machine `json:"machine"`
}

// Median is the repetition in the middle by throughput; of an even number the lower
// of the two. It panics when there is none.
func Median(reps []Repetition) Repetition {
	sorted := slices.Clone(reps)
	slices.SortStableFunc(sorted, func(a, b Repetition) int { return cmp.Compare(a.PerSec, b.PerSec) })
	return sorted[(len(sorted)-1)/2]
}

// Fold fills a result in from the repetitions of its configuration. Errors are those
// of all repetitions: one that failed is no better for not being the median.
func (r *Result) Fold(reps []Repetition) {
	m := Median(reps)
	r.Unit = cmp.Or(r.Unit, "cycles/s")
	r.PerSec = tenth(m.PerSec)
	r.ClaimP50, r.ClaimP99 = m.Tally.Claim.Micros(.5), m.Tally.Claim.Micros(.99)
	r.CycleP50, r.CycleP99 = m.Tally.Cycle.Micros(.5), m.Tally.Cycle.Micros(.99)
	r.GateP50, r.GateP99 = m.Tally.Gate.Micros(.5), m.Tally.Gate.Micros(.99)
	r.Empty = m.Tally.Empty
	if m.Tally.Claims > 0 {
		r.Fill = hundredth(float64(m.Tally.Grants) / float64(m.Tally.Claims))
	}
	if m.Tally.Grants > 0 {
		r.GateShare = hundredth(float64(m.Tally.Gate.Len()) / float64(m.Tally.Grants))
	}
	r.ServerMicros, r.ClientMicros = tenth(ServerMicros(m)), tenth(perCycle(m.CPU.Client, m.Tally.Cycles))
	for _, rep := range reps {
		r.Runs = append(r.Runs, int64(rep.PerSec))
		r.Others = append(r.Others, hundredth(rep.CPU.Others()))
		r.Errors += rep.Tally.Errors
		if rep.Busy {
			r.Busy++
		}
	}
}

func tenth(v float64) float64     { return math.Round(v*10) / 10 }
func hundredth(v float64) float64 { return math.Round(v*100) / 100 }

// Write writes any value as one line of JSON.
func Write(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode a result: %w", err)
	}
	if _, err := w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write a result: %w", err)
	}
	return nil
}

// Ratios compares a figure of repetitions that took turns, pair by pair, and gives
// the median too. A figure that isn't known, 0, has the ratio 0. It panics when there
// is no repetition.
func Ratios(of, base []Repetition, figure func(Repetition) float64) (ratios []float64, median float64) {
	for i := range of {
		ratio := 0.0
		if b := figure(base[i]); b != 0 {
			ratio = hundredth(figure(of[i]) / b)
		}
		ratios = append(ratios, ratio)
	}
	sorted := slices.Sorted(slices.Values(ratios))
	return ratios, sorted[(len(sorted)-1)/2]
}

// Throughput is the repetition's cycles a second.
func Throughput(r Repetition) float64 { return r.PerSec }

// ServerMicros is the CPU time of the server per cycle, in microseconds; 0 when it
// isn't known. Other work on the machine moves it far less than the throughput.
func ServerMicros(r Repetition) float64 { return perCycle(r.CPU.Server, r.Tally.Cycles) }

func perCycle(d time.Duration, cycles uint64) float64 {
	if cycles == 0 {
		return 0
	}
	return float64(d.Microseconds()) / float64(cycles)
}
