package persistence

import "time"

// Metrics is told what the engine does. Each function may be nil. They are called
// from goroutines of the engine, some of them from the committing one, so they
// must be quick and must not block.
type Metrics struct {
	// Fsync is called after each write that ended with fsync, with the time that
	// write and fsync took together, and after each fsync alone.
	Fsync func(took time.Duration)
	// Commit is called after each group commit.
	Commit func(CommitStat)
	// Snapshot is called after each published snapshot.
	Snapshot func(SnapshotStat)
	// Stall is a gauge: the age of the write under way once it is older than
	// Config.StallAfter, and 0 when it has ended.
	Stall func(age time.Duration)
}

// CommitStat describes one group commit.
type CommitStat struct {
	Items int // entries in the frame
	Bytes int // of the frame
	Queue int // entries that wait for the next commit
}

// SnapshotStat describes one published snapshot.
type SnapshotStat struct {
	Shard uint16
	Bytes int64
	Took  time.Duration // from the capture to the manifest
}

func (m Metrics) withDefaults() Metrics {
	if m.Fsync == nil {
		m.Fsync = func(time.Duration) {}
	}
	if m.Commit == nil {
		m.Commit = func(CommitStat) {}
	}
	if m.Snapshot == nil {
		m.Snapshot = func(SnapshotStat) {}
	}
	if m.Stall == nil {
		m.Stall = func(time.Duration) {}
	}
	return m
}
