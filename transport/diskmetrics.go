package transport

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// disk are the measurements of the journal and the snapshots.
type disk struct {
	fsync    prometheus.Histogram
	commits  prometheus.Counter
	entries  prometheus.Counter
	bytes    prometheus.Counter
	queue    prometheus.Gauge
	stalled  prometheus.Gauge
	snapshot prometheus.Histogram
	size     prometheus.Counter
}

// snapshotBuckets are seconds of a snapshot of one shard.
var snapshotBuckets = []float64{.01, .05, .1, .5, 1, 5, 10, 60, 300}

func newDisk() disk {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	return disk{
		fsync:    prometheus.NewHistogram(histogram("pyrula_wal_fsync_seconds", "How long an fsync of the journal took.", quick)),
		commits:  counter("pyrula_wal_commits_total", "Group commits: frames of the journal."),
		entries:  counter("pyrula_wal_entries_total", "Entries of shards in those commits."),
		bytes:    counter("pyrula_wal_bytes_total", "Bytes of those commits."),
		queue:    gauge("pyrula_wal_queue_entries", "Entries that waited behind the last commit."),
		stalled:  gauge("pyrula_wal_stalled_seconds", "Age of a write that hangs; 0 while none is older than a second."),
		snapshot: prometheus.NewHistogram(histogram("pyrula_snapshot_seconds", "How long a snapshot of one shard took.", snapshotBuckets)),
		size:     counter("pyrula_snapshot_bytes_total", "Bytes of published snapshots."),
	}
}

func (d *disk) collectors() []prometheus.Collector {
	return []prometheus.Collector{d.fsync, d.commits, d.entries, d.bytes, d.queue, d.stalled, d.snapshot, d.size}
}

// FsyncTook measures one fsync of the journal.
func (m *Metrics) FsyncTook(d time.Duration) { m.disk.fsync.Observe(d.Seconds()) }

// Committed counts a group commit: its entries, its bytes, and the entries that wait
// behind it.
func (m *Metrics) Committed(entries, bytes, queue int) {
	m.disk.commits.Inc()
	m.disk.entries.Add(float64(entries))
	m.disk.bytes.Add(float64(bytes))
	m.disk.queue.Set(float64(queue))
}

// Stalled sets the age of a write that hangs; 0 when none does.
func (m *Metrics) Stalled(age time.Duration) { m.disk.stalled.Set(age.Seconds()) }

// SnapshotTook measures a published snapshot of one shard.
func (m *Metrics) SnapshotTook(d time.Duration, bytes int64) {
	m.disk.snapshot.Observe(d.Seconds())
	m.disk.size.Add(float64(bytes))
}
