package transport

import (
	"maps"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// MaxWorkflowLabels bounds the workflows that metrics tell apart; the others share
	// the label OtherWorkflows. Keys are never a label: they are unbounded.
	MaxWorkflowLabels = 1000
	// OtherWorkflows stands for the workflows after the first MaxWorkflowLabels.
	OtherWorkflows = "other"
)

// buckets of durations of runs and waits, in seconds: from one fsync to a day.
var buckets = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 60, 300, 1800, 3600, 21600, 86400}

// quick are the buckets of fsyncs and requests.
var quick = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 30}

// Build is what pyrula_build_info says.
type Build struct {
	Version  string
	Revision string
}

// Metrics are the node's measurements for Prometheus, in a registry of their own.
// The methods that count may be called from anywhere and never wait.
type Metrics struct {
	handler   http.Handler
	workflows workflows

	started  *prometheus.CounterVec
	finished *prometheus.CounterVec
	waited   *prometheus.HistogramVec
	expired  *prometheus.CounterVec
	retried  *prometheus.CounterVec
	duration *prometheus.HistogramVec
	disk     disk
	events   eventCounters

	requests *prometheus.CounterVec
	took     *prometheus.HistogramVec
	inFlight prometheus.Gauge
	gauges   *gauges
}

// NewMetrics makes the collectors.
func NewMetrics(b Build) *Metrics {
	m := &Metrics{
		started: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pyrula_runs_started_total", Help: "Runs that a worker was given for the first time.",
		}, []string{"workflow"}),
		finished: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pyrula_runs_finished_total", Help: "Runs that ended, by the status they ended with.",
		}, []string{"workflow", "outcome"}),
		expired: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pyrula_leases_expired_total", Help: "Workers that were lost in a body: the run is queued again and no attempt is used.",
		}, []string{"workflow"}),
		retried: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pyrula_attempts_failed_total", Help: "Attempts that failed and are tried again.",
		}, []string{"workflow"}),
		waited: prometheus.NewHistogramVec(histogram("pyrula_run_wait_seconds",
			"Time from the submit of a run to its first start.", buckets), []string{"workflow"}),
		duration: prometheus.NewHistogramVec(histogram("pyrula_run_duration_seconds",
			"How long a worker held a run.", buckets), []string{"workflow"}),
		disk: newDisk(), events: newEventCounters(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pyrula_http_requests_total", Help: "HTTP requests, by route and status; 499 is a client that went away.",
		}, []string{"route", "code"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pyrula_http_request_seconds", Help: "How long HTTP requests took, the waits of long polls included.", Buckets: quick,
		}, []string{"route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pyrula_http_in_flight_requests", Help: "HTTP requests under way, long polls included.",
		}),
	}
	m.workflows.known.Store(&map[string]*tracked{})
	m.workflows.other = m.track(OtherWorkflows)
	m.gauges = &gauges{label: func(workflow string) string { return m.of(workflow).label }}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "pyrula_build_info", Help: "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Revision, "go_version": runtime.Version()},
	})
	info.Set(1)
	reg := prometheus.NewRegistry()
	reg.MustRegister(m.started, m.finished, m.waited, m.expired, m.retried, m.duration, m.requests, m.took, m.inFlight, m.gauges, info,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reg.MustRegister(m.disk.collectors()...)
	reg.MustRegister(m.events.collectors()...)
	m.handler = promhttp.HandlerFor(reg, promhttp.HandlerOpts{EnableOpenMetrics: true})
	return m
}

// histogram has classic buckets, and native ones for those who scrape them.
func histogram(name, help string, classic []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: classic,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
	}
}

// RunStarted counts a run that a worker was given.
func (m *Metrics) RunStarted(workflow string) { m.of(workflow).started.Inc() }

// RunFinished counts a run that ended; outcome is its status on the wire.
func (m *Metrics) RunFinished(workflow, outcome string) {
	m.finished.WithLabelValues(m.of(workflow).label, outcome).Inc()
}

// RunWaited measures the time from a run's submit to its first start.
func (m *Metrics) RunWaited(workflow string, d time.Duration) {
	m.waited.WithLabelValues(m.of(workflow).label).Observe(d.Seconds())
}

// LeaseExpired counts a worker that was lost in a body: its run is queued again, and
// no attempt is used.
func (m *Metrics) LeaseExpired(workflow string) {
	m.expired.WithLabelValues(m.of(workflow).label).Inc()
}

// AttemptFailed counts an attempt that failed and is tried again.
func (m *Metrics) AttemptFailed(workflow string) {
	m.retried.WithLabelValues(m.of(workflow).label).Inc()
}

// RunDuration measures one attempt, from grant to end.
func (m *Metrics) RunDuration(workflow string, d time.Duration) {
	m.of(workflow).duration.Observe(d.Seconds())
}

// served counts a request. Status 0 is one whose handler answered nothing.
func (m *Metrics) served(r *route, status int, d time.Duration) {
	m.requests.WithLabelValues(r.label, statusText(status)).Inc()
	m.took.WithLabelValues(r.label).Observe(d.Seconds())
}

// statusText is strconv.Itoa without an allocation for what is sent most.
func statusText(status int) string {
	switch status {
	case http.StatusOK:
		return "200"
	case http.StatusAccepted:
		return "202"
	}
	return strconv.Itoa(status)
}

// tracked is a workflow that metrics know, with what is counted most.
type tracked struct {
	label    string
	started  prometheus.Counter
	duration prometheus.Observer
}

// workflows are those that metrics tell apart. A map is never changed: counting
// reads it without a lock, and each of the few that come new copies it.
type workflows struct {
	known atomic.Pointer[map[string]*tracked]
	other *tracked
	grow  sync.Mutex // one copy at a time
}

// of is what is counted for a workflow: its own, or what is left for those that
// came too late.
func (m *Metrics) of(workflow string) *tracked {
	if t, ok := (*m.workflows.known.Load())[workflow]; ok {
		return t
	}
	return m.meet(workflow)
}

func (m *Metrics) meet(workflow string) *tracked {
	w := &m.workflows
	w.grow.Lock()
	defer w.grow.Unlock()
	known := *w.known.Load()
	if t, ok := known[workflow]; ok {
		return t
	}
	if len(known) == MaxWorkflowLabels {
		return w.other
	}
	next := make(map[string]*tracked, len(known)+1)
	maps.Copy(next, known)
	next[workflow] = m.track(workflow)
	w.known.Store(&next)
	return next[workflow]
}

func (m *Metrics) track(label string) *tracked {
	return &tracked{
		label: label, started: m.started.WithLabelValues(label), duration: m.duration.WithLabelValues(label),
	}
}
