package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pyrula/pyrula-node/bench/load"
)

// recovery is one line: what a start over queued runs takes. Figures with "all" have
// one for each repetition; the others are their medians.
type recovery struct {
	Recovery string `json:"recovery"` // from: journal, snapshots
	Runs     int64  `json:"runs"`
	Keys     int    `json:"keys"`

	Ready      float64   `json:"ready_seconds"` // from the start of the process
	AllReady   []float64 `json:"ready_seconds_all"`
	CPU        float64   `json:"ready_cpu_seconds"` // of the process by then, on all cores
	AllCPU     []float64 `json:"ready_cpu_seconds_all"`
	Replay     float64   `json:"recovered_seconds"` // as the server says: engine and shards
	AllReplay  []float64 `json:"recovered_seconds_all"`
	Records    int64     `json:"replayed_records"`
	PerSec     float64   `json:"replayed_records_per_s,omitempty"`
	Recovered  int64     `json:"recovered_runs"`
	Stop       float64   `json:"stop_seconds,omitempty"`
	AllStop    []float64 `json:"stop_seconds_all,omitempty"`
	FillPerSec float64   `json:"fill_runs_per_s,omitempty"`

	footprint
	// Newest are the bytes of the newest snapshot of each shard; Before those of all
	// snapshots that there were when the repetitions began.
	Newest         int64   `json:"newest_snapshot_bytes"`
	Before         int64   `json:"snapshot_bytes_before"`
	BytesPerRecord float64 `json:"journal_bytes_per_record,omitempty"`
	BytesPerRun    float64 `json:"snapshot_bytes_per_run,omitempty"`

	Durability string       `json:"durability"`
	Machine    load.Machine `json:"machine"`
}

// recoverQueued measures a start over queued runs: after kill -9, then after SIGTERM.
func (b *bench) recoverQueued(ctx context.Context, j job) (err error) {
	t, err := b.open(j, openGates)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	begin := time.Now()
	if err := fill(t.job, b.runs); err != nil {
		return err
	}
	filled := rate(int64(b.runs), time.Since(begin).Seconds())
	line, err := b.starts(ctx, t, "journal", t.process.crash)
	if err != nil {
		return err
	}
	line.FillPerSec = filled
	line.BytesPerRecord = hundredth(float64(line.Journal) / float64(max(line.Records, 1)))
	line.PerSec = rate(line.Records, line.Replay)
	if err := load.Write(b.out, line); err != nil {
		return err
	}
	line, err = b.starts(ctx, t, "snapshots", t.process.terminate)
	if err != nil {
		return err
	}
	line.BytesPerRun = hundredth(float64(line.Newest) / float64(max(line.Recovered, 1)))
	return load.Write(b.out, line)
}

// starts ends the server and starts it again, as often as there are repetitions.
func (b *bench) starts(ctx context.Context, t target, from string, end func() (time.Duration, error)) (recovery, error) {
	line := recovery{
		Recovery: from, Runs: int64(b.runs), Keys: t.keys,
		Durability: b.result(t.job, 0).Durability, Machine: b.machine,
	}
	for i := range b.reps {
		load.WaitQuiet(ctx, b.quiet)
		took, err := end()
		if err != nil {
			return line, err
		}
		if took > 0 {
			line.AllStop = append(line.AllStop, seconds(took))
		}
		if i == 0 {
			if line.Before, err = sizeOf(t.process.snapshots()); err != nil {
				return line, err
			}
		}
		if line.Newest, err = newestSnapshots(t.process.snapshots()); err != nil {
			return line, err
		}
		if err := b.startOnce(t, from); err != nil {
			return line, err
		}
		line.AllReady = append(line.AllReady, seconds(t.process.took))
		line.AllCPU = append(line.AllCPU, hundredth(t.process.usage().Seconds()))
		line.AllReplay = append(line.AllReplay, thousandth(t.process.found.Seconds))
		if ctx.Err() != nil {
			return line, ctx.Err()
		}
	}
	line.Records, line.Recovered = t.process.found.Records, t.process.found.Runs
	if line.Recovered < line.Runs {
		return line, fmt.Errorf("%w: %d of %d were recovered", errLost, line.Recovered, line.Runs)
	}
	line.Ready, line.CPU = median(line.AllReady), median(line.AllCPU)
	line.Replay, line.Stop = median(line.AllReplay), median(line.AllStop)
	g, err := scrape(t.process.host)
	if err != nil {
		return line, err
	}
	if line.footprint, err = t.process.footprint(g); err != nil || b.profile == "" {
		return line, err
	}
	return line, t.process.heap(filepath.Join(b.profile, fmt.Sprintf("start-%s-keys%d.heap.prof", from, t.keys)))
}

// startOnce starts the server over what it has left, under a CPU profile if one is
// wanted.
func (b *bench) startOnce(t target, name string) error {
	if b.profile == "" {
		return t.process.start()
	}
	file, err := filepath.Abs(filepath.Join(b.profile, fmt.Sprintf("start-%s-keys%d.cpu.prof", name, t.keys)))
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	if err := os.MkdirAll(b.profile, 0o755); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	return t.process.start("--start-profile", file)
}

// crash is kill as an end of its own: it takes no time.
func (s *process) crash() (time.Duration, error) { return 0, s.kill() }

// median is the lower of the two in the middle of an even number; 0 of none.
func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[(len(sorted)-1)/2]
}
