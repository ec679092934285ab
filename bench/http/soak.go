package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pyrula/pyrula-node/bench/load"
)

const (
	// soakSamples are taken on the way.
	soakSamples = 20
	// soakRead is how many of the ended runs are read back.
	soakRead = 1000
	// soakPause is how long a client waits after an error; soakErrors of them in a row
	// end it.
	soakPause  = 100 * time.Millisecond
	soakErrors = 600
)

// soakSample is one line: the server when so many runs have ended.
type soakSample struct {
	Soak    string  `json:"soak"` // sample, rest
	Ended   int64   `json:"ended"`
	Seconds float64 `json:"seconds"`
	PerSec  float64 `json:"per_s"`              // since the sample before
	CPU     float64 `json:"server_cpu_seconds"` // so far
	footprint
	Archived     int64 `json:"archive_runs"`
	ArchiveBytes int64 `json:"archive_bytes"`
	Waiting      int64 `json:"archive_waiting_runs"`
	InMemory     int64 `json:"runs_in_memory"`
	Keys         int64 `json:"keys_in_memory"`
	Errors       int64 `json:"errors"` // requests that were refused or failed, so far
}

// soakVerdict is the last line of the load: what grew.
type soakVerdict struct {
	Soak    string  `json:"soak"`
	Ended   int64   `json:"ended"`
	Seconds float64 `json:"seconds"`
	PerSec  float64 `json:"per_s"`
	// At 10, 50 and 100 % of the runs; the ratios are the last by the first.
	HeapLive  [3]int64 `json:"heap_live_bytes_10_50_100"`
	HeapRatio float64  `json:"heap_live_ratio"`
	RSSAnon   [3]int64 `json:"rss_anon_bytes_10_50_100"`
	RSSRatio  float64  `json:"rss_anon_ratio"`

	Clients    int          `json:"clients"`
	Keys       int          `json:"keys"`
	Batch      int          `json:"batch"`
	Durability string       `json:"durability"`
	Machine    load.Machine `json:"machine"`
}

// soakRestart is a line about the same data behind a stop and a start.
type soakRestart struct {
	Soak         string  `json:"soak"`
	StopSeconds  float64 `json:"stop_seconds"`
	ReadySeconds float64 `json:"ready_seconds"` // from the start of the process
	Records      int64   `json:"replayed_records"`
	Runs         int64   `json:"recovered_runs"`
	footprint
	ArchiveBytes int64 `json:"archive_bytes"`
	Read         int   `json:"runs_read_back"`
	Lost         int   `json:"runs_lost"`
}

// soaking is a soak under way.
type soaking struct {
	*bench
	target

	begin   time.Time
	count   atomic.Int64 // of runs that have ended
	failed  atomic.Int64 // of requests
	drawn   *lot
	samples []soakSample
}

// soakRuns lets so many runs end on one server, looks at it on the way, and at last
// starts it again and reads some of them back.
func (b *bench) soakRuns(ctx context.Context) (err error) {
	j := job{keys: b.keys[0], batch: slices.Max(b.batch)}
	t, err := b.open(j, openGates)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	s := &soaking{bench: b, target: t, begin: time.Now(), drawn: newLot(soakRead)}
	s.ended = s.noteEnded
	if err := s.drive(ctx); err != nil {
		return err
	}
	verdict := s.verdict()
	if err := load.Write(b.out, verdict); err != nil {
		return err
	}
	select {
	case <-time.After(b.rest):
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := s.sample("rest"); err != nil {
		return err
	}
	return s.restart()
}

func (s *soaking) noteEnded(runs []held) {
	s.drawn.add(runs)
	s.count.Add(int64(len(runs)))
}

// drive runs all clients until enough runs have ended, and takes the samples.
func (s *soaking) drive(ctx context.Context) error {
	clients := s.clients[0]
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() {
			if err := s.client(ctx, i); err != nil {
				cancel(err)
			}
		})
	}
	over := make(chan struct{})
	go func() { group.Wait(); close(over) }()
	err := s.watch(over)
	if err != nil {
		cancel(err)
	}
	<-over
	return context.Cause(ctx)
}

// client does cycles until enough runs have ended. A refusal, as that of an archive
// that is behind, is counted and waited out.
func (s *soaking) client(ctx context.Context, id int) (err error) {
	c, err := s.connect(id)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	r := load.NewRecorder(load.Window{}) // nothing is counted in it
	for failed := 0; s.count.Load() < int64(s.soak) && ctx.Err() == nil; {
		err := c.Cycle(r)
		if err == nil {
			failed = 0
			continue
		}
		if s.failed.Add(1) == 1 {
			fmt.Fprintln(os.Stderr, "http: the first of the requests that are refused:", err)
		}
		_, refused := errors.AsType[*statusError](err)
		if failed++; failed == soakErrors || !refused && !errors.Is(err, errShape) {
			return fmt.Errorf("client %d: %w", id, err)
		}
		time.Sleep(soakPause)
	}
	return nil
}

// soakLook is how often the number of ended runs is looked at.
const soakLook = 20 * time.Millisecond

// watch takes a sample whenever another share of the runs has ended, until all have.
func (s *soaking) watch(over <-chan struct{}) error {
	for next := int64(1); next <= soakSamples; {
		if enough := int64(s.soak) * next / soakSamples; s.count.Load() < enough {
			select {
			case <-over:
				if s.count.Load() < enough {
					return nil // drive knows why
				}
			case <-time.After(soakLook):
			}
			continue
		}
		if err := s.sample("sample"); err != nil {
			return err
		}
		if s.profile != "" && (next == soakSamples/10 || next == soakSamples) {
			file := filepath.Join(s.profile, fmt.Sprintf("soak-%d.heap.prof", s.count.Load()))
			if err := s.process.heap(file); err != nil {
				return err
			}
		}
		next++
	}
	return nil
}

// sample looks at the server and writes a line.
func (s *soaking) sample(what string) error {
	p := soakSample{Soak: what, Ended: s.count.Load(), Seconds: seconds(time.Since(s.begin)), Errors: s.failed.Load()}
	p.CPU = hundredth(s.process.usage().Seconds())
	g, err := scrape(s.host)
	if err != nil {
		return err
	}
	if p.footprint, err = s.process.footprint(g); err != nil {
		return err
	}
	p.Archived, p.ArchiveBytes = int64(g["pyrula_archive_runs"]), int64(g["pyrula_archive_bytes"])
	p.Waiting, p.InMemory, p.Keys = int64(g["pyrula_archive_waiting_runs"]), int64(g["pyrula_runs"]), int64(g["pyrula_keys"])
	var last soakSample
	if len(s.samples) > 0 {
		last = s.samples[len(s.samples)-1]
	}
	p.PerSec = rate(p.Ended-last.Ended, p.Seconds-last.Seconds)
	s.samples = append(s.samples, p)
	return load.Write(s.out, p)
}

// verdict compares the samples at 10, 50 and 100 %.
func (s *soaking) verdict() soakVerdict {
	last := s.samples[len(s.samples)-1]
	v := soakVerdict{
		Soak: "verdict", Ended: last.Ended, Seconds: last.Seconds, PerSec: rate(last.Ended, last.Seconds),
		Clients: s.clients[0], Keys: s.job.keys, Batch: s.job.batch,
		Durability: s.result(s.job, s.clients[0]).Durability, Machine: s.machine,
	}
	for i, percent := range []int{10, 50, 100} {
		at := s.samples[soakSamples*percent/100-1]
		v.HeapLive[i], v.RSSAnon[i] = at.HeapLive, at.RSSAnon
	}
	v.HeapRatio, v.RSSRatio = ratio(v.HeapLive[2], v.HeapLive[0]), ratio(v.RSSAnon[2], v.RSSAnon[0])
	return v
}

// errLost is a run that was acknowledged as completed and isn't there any more.
var errLost = errors.New("acknowledged runs are lost")

// restart stops the server and starts it again.
func (s *soaking) restart() error {
	p := s.process
	stop, err := p.terminate()
	if err == nil {
		err = p.start()
	}
	if err != nil {
		return err
	}
	line := soakRestart{
		Soak: "restart", StopSeconds: seconds(stop), ReadySeconds: seconds(p.took),
		Records: p.found.Records, Runs: p.found.Runs, Read: len(s.drawn.drawn),
	}
	g, err := scrape(p.host)
	if err != nil {
		return err
	}
	if line.footprint, err = p.footprint(g); err != nil {
		return err
	}
	if line.ArchiveBytes, err = sizeOf(p.archive()); err != nil {
		return err
	}
	if line.Lost, err = readBack(p.host, s.drawn.drawn); err != nil {
		return err
	}
	if err := load.Write(s.out, line); err != nil {
		return err
	}
	if line.Lost > 0 {
		return fmt.Errorf("%w: %d of %d", errLost, line.Lost, line.Read)
	}
	return nil
}
