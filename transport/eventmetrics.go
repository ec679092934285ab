package transport

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// eventCounters are the measurements of events and of the batches that they make.
type eventCounters struct {
	events  *prometheus.CounterVec
	batches *prometheus.CounterVec
	late    *prometheus.HistogramVec
}

func newEventCounters() eventCounters {
	return eventCounters{
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pyrula_events_total", Help: "Events that reached their key: taken, repeated (counted once before) or refused (the batch is full).",
		}, []string{"workflow", "result"}),
		batches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pyrula_batches_total", Help: "Batches that became a run, because they were full or because of the time.",
		}, []string{"workflow", "cause"}),
		late: prometheus.NewHistogramVec(histogram("pyrula_batch_late_seconds",
			"How long after its deadline a batch became a run.", buckets), []string{"workflow"}),
	}
}

func (e *eventCounters) collectors() []prometheus.Collector {
	return []prometheus.Collector{e.events, e.batches, e.late}
}

// EventsCame counts events by what became of them.
func (m *Metrics) EventsCame(workflow string, taken, repeated, refused int) {
	label := m.of(workflow).label
	for _, c := range [...]struct {
		result string
		n      int
	}{{"taken", taken}, {"repeated", repeated}, {"refused", refused}} {
		if c.n > 0 {
			m.events.events.WithLabelValues(label, c.result).Add(float64(c.n))
		}
	}
}

// BatchFilled counts a batch that became a run because it was full.
func (m *Metrics) BatchFilled(workflow string) {
	m.events.batches.WithLabelValues(m.of(workflow).label, "full").Inc()
}

// BatchTimed counts a batch that became a run because of the time, and how late that was.
func (m *Metrics) BatchTimed(workflow string, late time.Duration) {
	label := m.of(workflow).label
	m.events.batches.WithLabelValues(label, "time").Inc()
	m.events.late.WithLabelValues(label).Observe(late.Seconds())
}
