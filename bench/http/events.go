package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/pyrula/pyrula-node/bench/load"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// gathering makes a run of each 100 events of a key; its window is long enough never to
// count.
var gathering = policy{trigger: `{"collect":{"key":"tenant","max_events":100,"window_seconds":3600}}`}

// eventClient sends events on one connection, some in a request.
type eventClient struct {
	job
	conn *conn
	rng  *rand.Rand
	body []byte
}

// connectEvents makes the client of a number.
func (j job) connectEvents(id int) (load.Client, error) {
	c, err := dial(j.host)
	if err != nil {
		return nil, err
	}
	return &eventClient{job: j, conn: c, rng: rand.New(rand.NewPCG(uint64(id), 7478))}, nil
}

// Close implements load.Client.
func (c *eventClient) Close() error { return c.conn.Close() }

// Cycle implements load.Client: one request, whose answer says that all of its events are
// durable.
func (c *eventClient) Cycle(r *load.Recorder) error {
	c.body = c.body[:0]
	for range c.batch {
		c.body = append(appendParams(c.body, c.rng.IntN(c.keys)), '\n')
	}
	begin := time.Now()
	if err := sendEvents(c.conn, c.workflow, c.body, c.batch); err != nil {
		return err
	}
	r.Completed(begin, time.Now(), c.batch)
	return nil
}

// sendEvents sends events, one a line, all of which must be taken.
func sendEvents(c *conn, workflow string, body []byte, n int) error {
	c.kind = wire.ContentNDJSON
	answer, err := c.do("POST", wire.PathWorkflows+"/"+workflow+"/events", body)
	if err != nil {
		return err
	}
	if got := bytes.Count(answer, fieldRun); got != n {
		return fmt.Errorf("%w: %d results for %d events in %s", errShape, got, n, shown(answer))
	}
	return refused(answer)
}

var fieldRun = []byte(`"run_id":`)

// events measures how many events a second are taken.
func (b *bench) events(ctx context.Context, j job, clients int) error {
	var reps []load.Repetition
	for range b.reps {
		rep, err := b.repeat(func() (load.Repetition, error) { return b.eventsOnce(ctx, j, clients) })
		if err != nil {
			return err
		}
		reps = append(reps, rep)
	}
	res := b.result(j, clients)
	res.Variant, res.Unit = fmt.Sprintf("http, NDJSON, %d events a request", j.batch), "events/s"
	res.Fold(reps)
	return load.Write(b.out, res)
}

func (b *bench) eventsOnce(ctx context.Context, j job, clients int) (rep load.Repetition, err error) {
	t, err := b.open(j, gathering)
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	p := b.plan(t, clients)
	p.Connect = t.connectEvents
	b.profiled(&p, t, fmt.Sprintf("events%d-keys%d", j.batch, j.keys))
	return b.measure(ctx, p)
}

// windowLine is what many windows cost that are open at once, and how late they fire.
type windowLine struct {
	Windows    int     `json:"windows"`
	Seconds    float64 `json:"window_seconds"`
	Fill       float64 `json:"fill_seconds"`
	PerSec     float64 `json:"fill_events_per_s"`
	IdleShare  float64 `json:"idle_cpu_share"`      // of one core, while all are open
	PerWindow  int64   `json:"heap_bytes_a_window"` // live, above that of the empty server
	Fired      int64   `json:"fired"`
	OnTime     float64 `json:"fired_within_50ms_share"`
	LateP50    float64 `json:"late_p50_at_most_s"`
	LateP99    float64 `json:"late_p99_at_most_s"`
	Durability string  `json:"durability"`
	footprint
	Machine load.Machine `json:"machine"`
}

// windowed opens so many windows at once, one event in each, and lets them fire.
func (b *bench) windowed(ctx context.Context) (err error) {
	j := job{keys: b.windows, batch: wire.MaxEvents}
	p := policy{trigger: fmt.Sprintf(`{"collect":{"key":"tenant","max_events":100,"window_seconds":%g}}`, b.window.Seconds())}
	t, err := b.open(j, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	empty, err := t.process.collected()
	if err != nil {
		return err
	}
	line := windowLine{Windows: b.windows, Seconds: b.window.Seconds(), Durability: b.result(j, 1).Durability, Machine: b.machine}
	began := time.Now()
	if err := openWindows(t.job, b.windows); err != nil {
		return err
	}
	line.Fill = seconds(time.Since(began))
	line.PerSec = rate(int64(b.windows), line.Fill)
	if time.Since(began) > b.window {
		return fmt.Errorf("the first of %d windows was over before the last was open: -window must be longer", b.windows)
	}
	full, err := t.process.collected()
	if err != nil {
		return err
	}
	line.footprint = full
	line.PerWindow = (full.HeapLive - empty.HeapLive) / int64(b.windows)
	line.IdleShare = t.process.idleShare(ctx, min(b.rest, max(time.Until(began.Add(b.window))-time.Second, time.Second)))
	if err := b.await(ctx, t, began.Add(b.window+line.fillTime()), &line); err != nil {
		return err
	}
	return load.Write(b.out, line)
}

func (l *windowLine) fillTime() time.Duration { return time.Duration(l.Fill * float64(time.Second)) }

// openWindows sends one event to each key.
func openWindows(j job, n int) error {
	c, err := dial(j.host)
	if err != nil {
		return err
	}
	var body []byte
	for from := 0; from < n && err == nil; from += wire.MaxEvents {
		body = body[:0]
		to := min(from+wire.MaxEvents, n)
		for key := from; key < to; key++ {
			body = append(appendParams(body, key), '\n')
		}
		err = sendEvents(c, j.workflow, body, to-from)
	}
	return errors.Join(err, c.Close())
}

// idleShare is the share of a core that the server takes for a while.
func (s *process) idleShare(ctx context.Context, d time.Duration) float64 {
	before, began := s.usage(), time.Now()
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return thousandth((s.usage() - before).Seconds() / time.Since(began).Seconds())
}

// collected is the footprint behind a collection, which the passing of time brings.
func (s *process) collected() (footprint, error) {
	g, err := scrape(s.host)
	if err != nil {
		return footprint{}, err
	}
	return s.footprint(g)
}

// await keeps a worker alive until all windows have fired, and reads how late they were.
func (b *bench) await(ctx context.Context, t target, last time.Time, line *windowLine) (err error) {
	c, err := dial(t.host)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	alive := claimBody("w", t.workflow, 0, 0)
	for deadline := last.Add(time.Minute); ; {
		if _, err := c.do("POST", wire.PathClaims, alive); err != nil {
			return err
		}
		late, err := scrapeBuckets(t.host, "pyrula_batch_late_seconds_bucket")
		if err != nil {
			return err
		}
		if line.Fired = late.count(); line.Fired >= int64(b.windows) || time.Now().After(deadline) {
			line.OnTime = hundredth(late.onTime())
			line.LateP50, line.LateP99 = late.quantile(.5), late.quantile(.99)
			return nil
		}
		select {
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// bucket is one of a histogram: so many values are at most its bound.
type bucket struct {
	most  float64
	count int64
}

// histogram is a scraped one, in the order of its bounds.
type histogram []bucket

func (h histogram) count() int64 {
	if len(h) == 0 {
		return 0
	}
	return h[len(h)-1].count
}

// onTime is the lateness that a batch may have, in seconds, and a bound of the histogram.
const onTime = 0.05

// onTime is the share of the values that are on time.
func (h histogram) onTime() float64 {
	for _, b := range h {
		if b.most == onTime && h.count() > 0 {
			return float64(b.count) / float64(h.count())
		}
	}
	return 0
}

// quantile is the bound below which the share q of the values lies; -1 when that is none.
func (h histogram) quantile(q float64) float64 {
	for _, b := range h[:max(len(h)-1, 0)] {
		if float64(b.count) >= q*float64(h.count()) && h.count() > 0 {
			return b.most
		}
	}
	return -1
}

// parseBuckets reads the buckets of one histogram with one set of labels.
func parseBuckets(text []byte, name string) (histogram, error) {
	var h histogram
	for line := range bytes.Lines(text) {
		rest, ok := bytes.CutPrefix(line, []byte(name+"{"))
		if !ok {
			continue
		}
		_, bound, ok := bytes.Cut(rest, []byte(`le="`))
		bound, count, found := bytes.Cut(bound, []byte(`"} `))
		if !ok || !found {
			return nil, fmt.Errorf("metrics: %s", line)
		}
		most, err := strconv.ParseFloat(string(bound), 64)
		n, more := strconv.ParseFloat(string(bytes.TrimSpace(count)), 64)
		if err := errors.Join(err, more); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
		h = append(h, bucket{most, int64(n)})
	}
	return h, nil
}
