package transport

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Stats are the node's gauges at one moment. Each list has one entry for each
// combination of its labels; entries whose workflows share a label are added up.
type Stats struct {
	Runs         []RunCount    // runs in memory, by status
	Waiting      []WaitCount   // waiting runs, by reason
	OldestWait   []WorkflowOf  // seconds that the run waits which waits longest
	Slots        []LimitCount  // slots of the keys in memory
	Keys         []KeyCount    // keys in memory
	WorkerCredit []WorkflowOf  // runs that workers have asked for and not got yet
	Events       []WorkflowOf  // events in open batches
	Batches      []BatchCount  // open batches
	Archive      *ArchiveStats // nil while it can't be asked
	Disk         *DiskStats    // nil while it can't be asked
}

// DiskStats are the gauges of the disk that holds the data directory.
type DiskStats struct {
	Free    float64 // bytes left
	Reserve float64 // bytes below which new work is refused
}

// ArchiveStats are the gauges of the archive.
type ArchiveStats struct {
	Runs    float64 // in the archive
	Keys    float64 // idempotency keys in it
	Bytes   float64 // on disk
	Days    float64 // files, one for each day of end
	Waiting float64 // ended runs in memory beyond those that may stay there
}

// RunCount is a number of runs of one status.
type RunCount struct {
	Workflow string
	State    string
	N        int64
}

// WaitCount is a number of runs that wait for one reason.
type WaitCount struct {
	Workflow string
	Reason   string
	N        int64
}

// WorkflowOf is one number of a workflow.
type WorkflowOf struct {
	Workflow string
	N        float64
}

// LimitCount says how full the keys of a limit are, all together. Limit is the
// name of its key, never a value.
type LimitCount struct {
	Workflow string
	Limit    string
	Slots    int64
	Used     int64
}

// KeyCount is a number of keys in one state: saturated or idle.
type KeyCount struct {
	Workflow string
	State    string
	N        int64
}

// BatchCount is a number of open batches in one state: gathering, or due while no worker
// is alive.
type BatchCount struct {
	Workflow string
	State    string
	N        int64
}

// Observe sets where the gauges come from: stats is called at every scrape, and
// must not wait long. A later call replaces it.
func (m *Metrics) Observe(stats func() Stats) { m.gauges.stats.Store(&stats) }

// The gauges.
var (
	runsDesc    = desc("pyrula_runs", "Runs in memory, by status.", "workflow", "state")
	waitingDesc = desc("pyrula_waiting_runs", "Waiting runs, by what they wait for.", "workflow", "reason")
	oldestDesc  = desc("pyrula_oldest_wait_seconds", "How long the run waits that waits longest.", "workflow")
	slotsDesc   = desc("pyrula_limit_slots", "Slots of all keys in memory of a limit.", "workflow", "limit")
	usedDesc    = desc("pyrula_limit_slots_used", "Slots taken of all keys in memory of a limit.", "workflow", "limit")
	keysDesc    = desc("pyrula_keys", "Keys in memory, by state.", "workflow", "state")
	creditDesc  = desc("pyrula_worker_credit", "Runs that workers have asked for and not got yet.", "workflow")
	eventsDesc  = desc("pyrula_buffered_events", "Events in open batches.", "workflow")
	batchesDesc = desc("pyrula_open_batches", "Open batches: gathering, or due while no worker is alive.", "workflow", "state")
)

// The gauges of the archive, in the order of ArchiveStats.
var archiveDescs = []*prometheus.Desc{
	desc("pyrula_archive_runs", "Runs in the archive on disk."),
	desc("pyrula_archive_keys", "Idempotency keys in the archive on disk."),
	desc("pyrula_archive_bytes", "Size of the archive on disk."),
	desc("pyrula_archive_days", "Files of the archive: one for each day on which runs ended."),
	desc("pyrula_archive_waiting_runs", "Ended runs in memory beyond --recent-runs; at 500,000 submits are refused."),
}

// The gauges of the disk, in the order of DiskStats.
var diskDescs = []*prometheus.Desc{
	desc("pyrula_disk_free_bytes", "Bytes left on the disk of the data directory."),
	desc("pyrula_disk_reserve_bytes", "Bytes below which new work is refused."),
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// gauges collects Stats. It is a prometheus.Collector.
type gauges struct {
	label func(workflow string) string // the workflow, or OtherWorkflows
	stats atomic.Pointer[func() Stats]
}

// Describe sends the descriptions of all gauges.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{runsDesc, waitingDesc, oldestDesc, slotsDesc, usedDesc, keysDesc, creditDesc, eventsDesc, batchesDesc} {
		ch <- d
	}
	for _, d := range slices.Concat(archiveDescs, diskDescs) {
		ch <- d
	}
}

// Collect asks for Stats once and sends them.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	stats := g.stats.Load()
	if stats == nil {
		return
	}
	s := (*stats)()
	runs, waiting, oldest := series{}, series{}, series{}
	for _, c := range s.Runs {
		runs.add(float64(c.N), g.label(c.Workflow), c.State)
	}
	for _, c := range s.Waiting {
		waiting.add(float64(c.N), g.label(c.Workflow), c.Reason)
	}
	for _, c := range s.OldestWait {
		oldest.most(c.N, g.label(c.Workflow))
	}
	slots, used, keys, credit := series{}, series{}, series{}, series{}
	for _, c := range s.Slots {
		workflow, limit := g.label(c.Workflow), c.Limit
		if workflow == OtherWorkflows {
			limit = OtherWorkflows // its names are as many as the workflows left out
		}
		slots.add(float64(c.Slots), workflow, limit)
		used.add(float64(c.Used), workflow, limit)
	}
	for _, c := range s.Keys {
		keys.add(float64(c.N), g.label(c.Workflow), c.State)
	}
	for _, c := range s.WorkerCredit {
		credit.add(c.N, g.label(c.Workflow))
	}
	events, batches := series{}, series{}
	for _, c := range s.Events {
		events.add(c.N, g.label(c.Workflow))
	}
	for _, c := range s.Batches {
		batches.add(float64(c.N), g.label(c.Workflow), c.State)
	}
	runs.send(ch, runsDesc)
	waiting.send(ch, waitingDesc)
	oldest.send(ch, oldestDesc)
	slots.send(ch, slotsDesc)
	used.send(ch, usedDesc)
	keys.send(ch, keysDesc)
	credit.send(ch, creditDesc)
	events.send(ch, eventsDesc)
	batches.send(ch, batchesDesc)
	if d := s.Disk; d != nil {
		for i, v := range []float64{d.Free, d.Reserve} {
			ch <- prometheus.MustNewConstMetric(diskDescs[i], prometheus.GaugeValue, v)
		}
	}
	if a := s.Archive; a != nil {
		for i, v := range []float64{a.Runs, a.Keys, a.Bytes, a.Days, a.Waiting} {
			ch <- prometheus.MustNewConstMetric(archiveDescs[i], prometheus.GaugeValue, v)
		}
	}
}

// series are the values of one gauge by their labels. Two workflows may share a
// label, and Prometheus refuses the same labels twice.
type series map[string]float64

// separator stands in no name: flow refuses control characters.
const separator = "\x00"

func (s series) add(v float64, labels ...string) { s[strings.Join(labels, separator)] += v }

func (s series) most(v float64, labels ...string) {
	k := strings.Join(labels, separator)
	s[k] = max(s[k], v)
}

func (s series) send(ch chan<- prometheus.Metric, d *prometheus.Desc) {
	for _, k := range slices.Sorted(maps.Keys(s)) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, s[k], strings.Split(k, separator)...)
	}
}
