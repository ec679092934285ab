package transport_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/transport"
)

// measured is an api whose metrics are its own.
func measured(t *testing.T) (*api, *transport.Metrics) {
	t.Helper()
	m := transport.NewMetrics(transport.Build{Version: "1.2.3", Revision: "abc"})
	return newAPIWith(t, transport.Config{Metrics: m}), m
}

// scrape gives the samples of the node's own metrics, without the buckets.
func (a *api) scrape() []string {
	a.t.Helper()
	var lines []string
	for line := range strings.Lines(a.send("GET", "/metrics", "").Body.String()) {
		if strings.HasPrefix(line, "pyrula_") && !strings.Contains(line, "_bucket{") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

func wantLines(t *testing.T, lines []string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !slices.Contains(lines, w) {
			t.Errorf("no line %s in\n%s", w, strings.Join(lines, "\n"))
		}
	}
}

func TestMetrics(t *testing.T) {
	a, m := measured(t)
	m.RunStarted("charge")
	m.RunStarted("charge")
	m.RunFinished("charge", "completed")
	m.RunWaited("charge", 1500*time.Millisecond)
	m.LeaseExpired("charge")
	m.AttemptFailed("charge")
	m.RunDuration("charge", 2*time.Second)
	m.Committed(5, 100, 7)
	m.Committed(4, 200, 3)
	m.Stalled(1500 * time.Millisecond)
	m.SnapshotTook(time.Second, 4096)
	m.FsyncTook(250 * time.Microsecond)
	a.send("POST", "/charge", `{}`).ok(202, nil)
	a.send("GET", "/no/such", "")
	a.send("DELETE", "/livez", "")
	lines := a.scrape()
	wantLines(t, lines,
		`pyrula_runs_started_total{workflow="charge"} 2`,
		`pyrula_runs_finished_total{outcome="completed",workflow="charge"} 1`,
		`pyrula_run_wait_seconds_sum{workflow="charge"} 1.5`,
		`pyrula_leases_expired_total{workflow="charge"} 1`,
		`pyrula_attempts_failed_total{workflow="charge"} 1`,
		`pyrula_run_duration_seconds_sum{workflow="charge"} 2`,
		`pyrula_run_duration_seconds_count{workflow="charge"} 1`,
		`pyrula_wal_fsync_seconds_count 1`,
		`pyrula_http_in_flight_requests 1`,
		`pyrula_wal_fsync_seconds_sum 0.00025`,
		`pyrula_wal_commits_total 2`,
		`pyrula_wal_entries_total 9`,
		`pyrula_wal_bytes_total 300`,
		`pyrula_wal_queue_entries 3`,
		`pyrula_wal_stalled_seconds 1.5`,
		`pyrula_snapshot_seconds_count 1`,
		`pyrula_snapshot_bytes_total 4096`,
		`pyrula_http_requests_total{code="202",route="POST /{name}"} 1`,
		`pyrula_http_requests_total{code="404",route="none"} 1`,
		`pyrula_http_requests_total{code="405",route="none"} 1`,
		`pyrula_http_request_seconds_count{route="POST /{name}"} 1`,
	)
	if i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "pyrula_build_info{") }); i < 0 ||
		!strings.Contains(lines[i], `version="1.2.3"`) || !strings.Contains(lines[i], `revision="abc"`) || !strings.Contains(lines[i], `go_version="go1.`) {
		t.Errorf("build info is %v", lines[max(i, 0)])
	}
}

func TestOpenMetrics(t *testing.T) {
	a, m := measured(t)
	m.RunStarted("w")
	w := a.send("GET", "/metrics", "", header("Accept", "application/openmetrics-text; version=1.0.0"))
	w.ok(200, nil)
	if ct := w.Header().Get("Content-Type"); !strings.HasPrefix(ct, "application/openmetrics-text") || !strings.HasSuffix(w.Body.String(), "# EOF\n") {
		t.Errorf("content type %q, %q at the end", ct, w.Body.String()[max(0, w.Body.Len()-20):])
	}
	if w := a.send("GET", "/metrics", ""); !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		t.Errorf("content type %q without a wish", w.Header().Get("Content-Type"))
	}
}

// Gauges come from Stats, once for each scrape; none are shown before.
func TestGauges(t *testing.T) {
	a, m := measured(t)
	if lines := a.scrape(); slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "pyrula_runs{") }) {
		t.Errorf("gauges without a source: %v", lines)
	}
	calls := 0
	m.Observe(func() transport.Stats {
		calls++
		return transport.Stats{
			Runs:         []transport.RunCount{{"w", "queued", 3}, {"w", "executing", 2}, {"v", "queued", 1}},
			Waiting:      []transport.WaitCount{{"w", "limit", 3}},
			OldestWait:   []transport.WorkflowOf{{"w", 1.5}},
			Slots:        []transport.LimitCount{{"w", "tenant", 10, 2}},
			Keys:         []transport.KeyCount{{"w", "saturated", 1}, {"w", "idle", 4}},
			WorkerCredit: []transport.WorkflowOf{{"w", 7}},
			Archive:      &transport.ArchiveStats{Runs: 11, Keys: 12, Bytes: 13, Days: 14, Waiting: 15},
			Disk:         &transport.DiskStats{Free: 16, Reserve: 17},
		}
	})
	wantLines(t, a.scrape(),
		`pyrula_runs{state="queued",workflow="w"} 3`,
		`pyrula_runs{state="executing",workflow="w"} 2`,
		`pyrula_runs{state="queued",workflow="v"} 1`,
		`pyrula_waiting_runs{reason="limit",workflow="w"} 3`,
		`pyrula_oldest_wait_seconds{workflow="w"} 1.5`,
		`pyrula_limit_slots{limit="tenant",workflow="w"} 10`,
		`pyrula_limit_slots_used{limit="tenant",workflow="w"} 2`,
		`pyrula_keys{state="saturated",workflow="w"} 1`,
		`pyrula_keys{state="idle",workflow="w"} 4`,
		`pyrula_worker_credit{workflow="w"} 7`,
		`pyrula_archive_runs 11`,
		`pyrula_archive_keys 12`,
		`pyrula_archive_bytes 13`,
		`pyrula_archive_days 14`,
		`pyrula_archive_waiting_runs 15`,
		`pyrula_disk_free_bytes 16`,
		`pyrula_disk_reserve_bytes 17`,
	)
	if calls != 1 {
		t.Errorf("one scrape asks %d times", calls)
	}
}

// The labels stay bounded, whatever workflows come: those after the first 1,000
// share one, and their gauges are added up.
func TestWorkflowLabelsAreBounded(t *testing.T) {
	a, m := measured(t)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range transport.MaxWorkflowLabels + 200 {
				m.RunStarted(fmt.Sprintf("w%d", (i+g)%(transport.MaxWorkflowLabels+200)))
			}
		})
	}
	all.Wait()
	m.RunFinished("late", "failed")
	m.RunWaited("later", time.Second)
	m.RunDuration("latest", time.Second)
	m.Observe(func() transport.Stats {
		return transport.Stats{
			Runs:       []transport.RunCount{{"new1", "queued", 3}, {"new2", "queued", 4}},
			OldestWait: []transport.WorkflowOf{{"new1", 9}, {"new2", 2}},
			Slots:      []transport.LimitCount{{"new1", "a", 1, 1}, {"new2", "b", 2, 1}},
		}
	})
	lines := a.scrape()
	labels := slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return !strings.HasPrefix(l, "pyrula_runs_started_total{") })
	if len(labels) != transport.MaxWorkflowLabels+1 {
		t.Errorf("%d workflows are told apart, want %d and the rest", len(labels), transport.MaxWorkflowLabels)
	}
	wantLines(t, lines,
		`pyrula_runs_started_total{workflow="other"} 800`,
		`pyrula_runs_finished_total{outcome="failed",workflow="other"} 1`,
		`pyrula_run_wait_seconds_count{workflow="other"} 1`,
		`pyrula_run_duration_seconds_count{workflow="other"} 1`,
		`pyrula_runs{state="queued",workflow="other"} 7`,
		`pyrula_oldest_wait_seconds{workflow="other"} 9`,
		`pyrula_limit_slots{limit="other",workflow="other"} 3`,
	)
}

// No sample has a label for a key or its value.
func TestMetricsHaveNoKeyLabel(t *testing.T) {
	a, m := measured(t)
	m.RunStarted("w")
	a.send("GET", "/v1/keys/w/secret-tenant", "").ok(200, nil)
	for _, l := range a.scrape() {
		if strings.Contains(l, "secret-tenant") || strings.Contains(l, "key=") || strings.Contains(l, "namespace=") {
			t.Errorf("sample %s has a key", l)
		}
	}
}
