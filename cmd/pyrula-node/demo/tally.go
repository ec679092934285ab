package demo

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pyrula/pyrula-node/flow"
)

// window is the span in which starts are counted.
const window = time.Second

// row is what the bodies of one tenant saw.
type row struct {
	tenant   string
	runs     int           // runs that completed
	lost     []string      // runs that ended otherwise, or had no body, by id and status
	again    int           // bodies that began again, after a lost lease
	atOnce   int           // most bodies at one moment
	busiest  int           // most first bodies that began within a window, both ends included
	lag      time.Duration // how much later after its admission one body began than another
	p50, p99 time.Duration // from the submit to the body's beginning
}

// allowed is the most bodies that may begin within a window. The Rate promises it of
// admissions: burst + rate × window. A body begins later than its run is admitted,
// and not always by as much, so bodies that begin within a window may have been
// admitted within one that is longer by the difference.
func (r *row) allowed() int {
	longer := (window + r.lag).Seconds()
	return int(math.Floor(burst + perSecond*longer))
}

// tally counts for each tenant, the one with most runs first.
func tally(sent []*run, seen []sighting) []*row {
	byRun := map[string][]sighting{}
	for _, s := range seen {
		byRun[s.runID] = append(byRun[s.runID], s)
	}
	t := tables{}
	for _, s := range seen { // also of runs that an earlier demonstration has left behind
		r := t.of(s.key)
		r.atOnce = max(r.atOnce, s.atOnce)
	}
	for _, sub := range sent {
		bodies := byRun[sub.id]
		if len(bodies) == 0 {
			r := t.of(keyOf(sub))
			r.lost = append(r.lost, fmt.Sprintf("%s had no body", sub.id))
			continue
		}
		r := t.of(bodies[0].key)
		if status := statusOf(sub); status == flow.StatusCompleted.String() {
			r.runs++
		} else {
			r.lost = append(r.lost, fmt.Sprintf("%s is %s", sub.id, status))
		}
		r.again += len(bodies) - 1
		r.first(sub, bodies[0])
	}
	rows := make([]*row, 0, len(t))
	for _, r := range t {
		r.count()
		rows = append(rows, &r.row)
	}
	slices.SortFunc(rows, func(a, b *row) int {
		return cmp.Or(b.runs-a.runs, cmp.Compare(a.tenant, b.tenant))
	})
	return rows
}

// keyOf is the key that the node says a run has.
func keyOf(sub *run) string {
	if sub.end == nil || len(sub.end.Gates) == 0 {
		return ""
	}
	return sub.end.Gates[0].Key
}

func statusOf(sub *run) string {
	if sub.end == nil {
		return "unknown"
	}
	return sub.end.Status
}

// tables are the rows in the making, by key.
type tables map[string]*table

type table struct {
	row
	starts []time.Time
	waits  []time.Duration
	lags   []time.Duration
}

func (t tables) of(key string) *table {
	if t[key] == nil {
		t[key] = &table{row: row{tenant: key}}
	}
	return t[key]
}

// first notes the first body of a run. Only that one has cost a token.
func (t *table) first(sub *run, s sighting) {
	t.starts = append(t.starts, s.began)
	t.waits = append(t.waits, s.began.Sub(sub.sent))
	if sub.end != nil && sub.end.StartedAt != nil {
		t.lags = append(t.lags, s.began.Sub(time.UnixMilli(*sub.end.StartedAt)))
	}
}

// count makes figures of what was noted.
func (t *table) count() {
	t.busiest = busiest(t.starts)
	slices.Sort(t.waits)
	t.p50, t.p99 = percentile(t.waits, 50), percentile(t.waits, 99)
	if len(t.lags) > 0 {
		// The node tells whole milliseconds, so a difference may be one more.
		t.lag = slices.Max(t.lags) - slices.Min(t.lags) + time.Millisecond
	}
}

// busiest is the most of the moments that lie within one window, both ends included.
func busiest(moments []time.Time) int {
	sorted := slices.SortedFunc(slices.Values(moments), time.Time.Compare)
	most, first := 0, 0
	for last := range sorted {
		for sorted[last].Sub(sorted[first]) > window {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}

// percentile is the nearest rank in a sorted list; 0 for an empty one.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}

// judge compares the figures with what was declared. Its error names each figure
// that breaks a promise.
func judge(rows []*row) error {
	var errs []error
	broken := func(r *row, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: tenant %q: %s", ErrBroken, r.tenant, fmt.Sprintf(format, args...)))
	}
	for _, r := range rows {
		if r.atOnce > maxAtOnce {
			broken(r, "%d bodies at once, and its Limit is %d", r.atOnce, maxAtOnce)
		}
		if r.busiest > r.allowed() {
			broken(r, "%d bodies began within a second, and its Rate allows %d", r.busiest, r.allowed())
		}
		for _, lost := range r.lost {
			broken(r, "run %s, and every run was to complete", lost)
		}
	}
	return errors.Join(errs...)
}
