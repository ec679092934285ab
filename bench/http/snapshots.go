package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pyrula/pyrula-node/bench/load"
)

const (
	// roundLook is how often the directory of snapshots is looked at.
	roundLook = 5 * time.Millisecond
	// roundCalm is how long no snapshot is written when a round is over; the snapshots
	// of a round follow each other at once.
	roundCalm = time.Second
	// roundMargin widens a round at both ends: a capture begins a little before its
	// file, and the manifest comes a little behind it.
	roundMargin = 250 * time.Millisecond
	// unfinished ends the name of a snapshot that is being written.
	unfinished = ".TEMP"
)

// span is a time from begin to end, both included.
type span struct{ begin, end time.Time }

func (s span) overlaps(o span) bool { return !s.begin.After(o.end) && !o.begin.After(s.end) }

func (s span) seconds() float64 { return seconds(s.end.Sub(s.begin)) }

// rounds follows, from outside, when snapshots are written.
type rounds struct {
	dir   string
	calm  time.Duration
	done  []span
	open  span // begin is zero: none is under way
	limit int
}

// look notes what the directory shows at a moment.
func (r *rounds) look(now time.Time) error {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return fmt.Errorf("look for snapshots: %w", err)
	}
	writing := slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.HasSuffix(e.Name(), unfinished) })
	r.note(writing, now)
	return nil
}

func (r *rounds) note(writing bool, now time.Time) {
	switch {
	case writing && r.open.begin.IsZero():
		r.open = span{now, now}
	case writing:
		r.open.end = now
	case !r.open.begin.IsZero() && now.Sub(r.open.end) > r.calm:
		r.done = append(r.done, span{r.open.begin.Add(-roundMargin), r.open.end.Add(roundMargin)})
		r.open = span{}
	}
}

// follow looks until enough rounds are over.
func (r *rounds) follow(ctx context.Context) error {
	tick := time.NewTicker(roundLook)
	defer tick.Stop()
	for len(r.done) < r.limit {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := r.look(time.Now()); err != nil {
			return err
		}
	}
	return nil
}

// settle waits until no snapshot is under way.
func (r *rounds) settle(ctx context.Context) error {
	for calm := time.Now(); time.Since(calm) < 2*r.calm; time.Sleep(roundLook) {
		if err := r.look(time.Now()); err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if !r.open.begin.IsZero() {
			calm = time.Now()
		}
	}
	r.done = nil
	return nil
}

// pacer is a client that doesn't do more than so many cycles a second.
type pacer struct {
	*client
	every time.Duration // between the beginnings of two batches
	seen  []span        // claims, each from the request to its answer
}

// run does cycles until ctx ends.
func (p *pacer) run(ctx context.Context) error {
	p.claimed = func(begin, end time.Time) { p.seen = append(p.seen, span{begin, end}) }
	r := load.NewRecorder(load.Window{}) // nothing is counted in it
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if err := p.Cycle(r); err != nil {
			return err
		}
	}
}

// claims are the latencies of the claims of some windows.
type claims struct {
	Windows int     `json:"windows"`
	Seconds float64 `json:"seconds"`
	Claims  uint64  `json:"claims"`
	P50     float64 `json:"claim_p50_us"`
	P99     float64 `json:"claim_p99_us"`
	Max     float64 `json:"claim_max_us"`

	all load.Histogram
}

func (c *claims) add(s span) {
	took := s.end.Sub(s.begin)
	c.all.Add(took)
	c.Max = max(c.Max, float64(took.Microseconds()))
}

func (c *claims) widen(s span) {
	c.Windows++
	c.Seconds = hundredth(c.Seconds + s.seconds())
}

func (c *claims) merge(o *claims) {
	c.Windows += o.Windows
	c.Seconds = hundredth(c.Seconds + o.Seconds)
	c.all.Merge(&o.all)
	c.Max = max(c.Max, o.Max)
}

func (c *claims) fold() {
	c.Claims, c.P50, c.P99 = c.all.Len(), c.all.Micros(.5), c.all.Micros(.99)
}

// turn is a round of snapshots, and the time without one before it.
type turn struct {
	Snapshots string `json:"snapshots"`
	Without   claims `json:"without"`
	With      claims `json:"with"`
}

// summary is the last line.
type summary struct {
	turn
	// The figures with a snapshot by those without: of all claims, and the median of
	// those of each turn.
	P50Ratio  float64   `json:"claim_p50_ratio"`
	P99Ratio  float64   `json:"claim_p99_ratio"`
	P99Ratios []float64 `json:"claim_p99_ratio_of_turns"`
	Median    float64   `json:"claim_p99_ratio_median"`

	Queued    int64   `json:"queued_runs"`
	Keys      int     `json:"keys"`
	Clients   int     `json:"clients"`
	Batch     int     `json:"batch"`
	Rate      int     `json:"cycles_per_s_wanted"`
	Published int64   `json:"published_snapshots"` // one for each shard that has changed
	Bytes     int64   `json:"published_bytes"`
	Seconds   float64 `json:"snapshot_seconds"` // mean of one shard's, from its capture to the manifest

	Durability string       `json:"durability"`
	Machine    load.Machine `json:"machine"`
}

// snapshotCost measures claims while snapshots are taken and in between, by turns.
func (b *bench) snapshotCost(ctx context.Context) (err error) {
	j := job{keys: b.runs, batch: slices.Max(b.batch)}
	t, err := b.open(j, openGates)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if err := fill(t.job, b.runs); err != nil {
		return err
	}
	r := &rounds{dir: t.process.snapshots(), calm: roundCalm, limit: b.reps}
	if err := r.settle(ctx); err != nil {
		return err
	}
	before, err := scrape(t.host)
	if err != nil {
		return err
	}
	begin := time.Now().Add(b.warm)
	seen, err := b.pace(ctx, t, r)
	if err != nil {
		return err
	}
	after, err := scrape(t.host)
	if err != nil {
		return err
	}
	turns := byTurn(begin, r.done, seen)
	for i := range turns {
		if err := load.Write(b.out, &turns[i]); err != nil {
			return err
		}
	}
	s := summarize(turns)
	s.Queued, s.Keys, s.Clients, s.Batch, s.Rate = int64(b.runs), j.keys, b.clients[0], j.batch, b.perSec
	s.Published = int64(after["pyrula_snapshot_seconds_count"] - before["pyrula_snapshot_seconds_count"])
	s.Bytes = int64(after["pyrula_snapshot_bytes_total"] - before["pyrula_snapshot_bytes_total"])
	s.Seconds = hundredth((after["pyrula_snapshot_seconds_sum"] - before["pyrula_snapshot_seconds_sum"]) / float64(max(s.Published, 1)))
	s.Durability, s.Machine = b.result(j, 0).Durability, b.machine
	return load.Write(b.out, s)
}

// pace runs the clients until enough rounds are over, and returns what they saw.
func (b *bench) pace(ctx context.Context, t target, r *rounds) ([]span, error) {
	clients := b.clients[0]
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	pacers := make([]*pacer, clients)
	for i := range pacers {
		c, err := t.client(i)
		if err != nil {
			return nil, err
		}
		defer c.Close() //nolint:errcheck // what it has sent was answered
		pacers[i] = &pacer{client: c, every: time.Second * time.Duration(clients*t.batch) / time.Duration(b.perSec)}
	}
	var group sync.WaitGroup
	for i, p := range pacers {
		group.Go(func() {
			if err := p.run(ctx); err != nil {
				cancel(fmt.Errorf("client %d: %w", i, err))
			}
		})
	}
	err := r.follow(ctx)
	cause := context.Cause(ctx)
	cancel(nil)
	group.Wait()
	if cause != nil || err != nil {
		return nil, errors.Join(cause, err)
	}
	var seen []span
	for _, p := range pacers {
		seen = append(seen, p.seen...)
	}
	return seen, nil
}

// byTurn puts the claims from begin on into the turns that they belong to. A claim
// that a round overlaps at all is one with a snapshot; what is behind the last round
// isn't counted.
func byTurn(begin time.Time, done []span, seen []span) []turn {
	turns := make([]turn, len(done))
	from := begin
	for i, round := range done {
		turns[i].Snapshots = "turn"
		turns[i].Without.widen(span{from, round.begin})
		turns[i].With.widen(round)
		from = round.end
	}
	for _, s := range seen {
		i := slices.IndexFunc(done, func(round span) bool { return !s.begin.After(round.end) })
		switch {
		case i < 0 || s.begin.Before(begin):
		case s.overlaps(done[i]):
			turns[i].With.add(s)
		default:
			turns[i].Without.add(s)
		}
	}
	for i := range turns {
		turns[i].With.fold()
		turns[i].Without.fold()
	}
	return turns
}

// summarize puts all turns together.
func summarize(turns []turn) summary {
	s := summary{turn: turn{Snapshots: "summary"}}
	for i := range turns {
		t := &turns[i]
		s.With.merge(&t.With)
		s.Without.merge(&t.Without)
		s.P99Ratios = append(s.P99Ratios, hundredth(t.With.P99/max(t.Without.P99, 1)))
	}
	s.With.fold()
	s.Without.fold()
	s.P50Ratio = hundredth(s.With.P50 / max(s.Without.P50, 1))
	s.P99Ratio = hundredth(s.With.P99 / max(s.Without.P99, 1))
	s.Median = median(s.P99Ratios)
	return s
}
