package persistence

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/persistence/vfs"
)

const (
	// journalDir holds the segments, below the data directory.
	journalDir = "journal"

	shardsMax     = 1 << 16
	partitionsMax = 1 << 20
	// windowMax bounds Config.Window: the queue holds Shards × Window entries.
	windowMax = 1 << 10
)

const (
	// NoSnapshots as Config.SnapshotAfter takes no snapshot by itself, neither by size
	// nor by age.
	NoSnapshots int64 = -1
	// NoSnapshotsByAge as Config.SnapshotEvery takes snapshots by size only.
	NoSnapshotsByAge time.Duration = -1
)

// OnClose says what Close does besides making the last entries durable.
type OnClose uint8

const (
	// CloseQuickly takes no snapshots: the next start replays the journal.
	CloseQuickly OnClose = iota
	// CloseWithSnapshots takes a snapshot of every shard that has changed since its
	// last one: the next start replays next to nothing.
	CloseWithSnapshots
)

// Config is what a Local is opened with. Dir is needed; the zero value of every
// other field means its default.
type Config struct {
	// Dir is the data directory; it is made if it is missing, its parent isn't.
	Dir string
	// Node and Cluster are the ids that the directory belongs to. They, Shards and
	// Partitions are fixed when the directory is made. Defaults: "node", "local".
	Node    engine.NodeID
	Cluster string
	// Shards is 1 to 65,536; default 16.
	Shards int
	// Partitions is the number of hash ranges of keys, which this package only
	// remembers; default 1,024.
	Partitions int
	// Window is the number of entries in flight for each shard, 1 to 1,024;
	// default 8.
	Window int
	// SegmentBytes is the soft size of a segment, 4 KiB to 64 MiB; default 4 MiB.
	// Larger ones make the longest commits longer.
	SegmentBytes int
	// Fsync says when an entry counts as durable; default FsyncAlways.
	Fsync Fsync
	// StallAfter is the age of a write from which Health, Metrics.Stall and OnStall
	// speak of it, default 1 s; FatalAfter the age from which it counts as failed,
	// default 30 s (rule R19). FatalAfter isn't less than StallAfter.
	StallAfter time.Duration
	FatalAfter time.Duration
	// SnapshotAfter is the number of bytes that the journal grows by before
	// snapshots of all shards are taken; if the last ones together are larger, that
	// size counts. Default 256 MiB; NoSnapshots: never.
	SnapshotAfter int64
	// SnapshotEvery is the time after which snapshots of all shards are taken if the
	// journal has grown at all, counted from the start or from the last such round of
	// whatever cause. It is looked at once in that time, so what is appended after a
	// longer rest waits for at most as long. A shard without anything new is not
	// written again. Default 1 h; NoSnapshotsByAge: by size only.
	SnapshotEvery time.Duration
	// Reserve is the number of bytes that Health wants to be left on the disk besides
	// what this package needs: what others write to the same disk in one go, like a
	// batch of the archive. Default 0; not negative.
	Reserve int64
	// OnClose says whether Close takes snapshots; default CloseQuickly.
	OnClose OnClose
	// AfterFirst runs between the promotion of shard 0 and that of the others (rule
	// R17). It may block; its error ends Start. Nil does nothing.
	AfterFirst func(ctx context.Context) error
	// Progress is called about once a second while a recovery takes longer than
	// that, from a goroutine of its own. Nil does nothing.
	Progress func(Progress)
	// OnFatal is called once, after the first failure of the journal, from some
	// goroutine of the engine: nothing is acknowledged any more, and the process
	// should end. It must not call Close, which waits for that goroutine. Default:
	// panic.
	OnFatal func(error)
	// OnStall is called when a write is older than StallAfter, and again about once
	// in StallAfter while it lasts. Nil does nothing.
	OnStall func(age time.Duration)
	// BootID is the machine's boot id: another one means that the machine was
	// restarted. Empty means that nobody knows. Default: that of Linux, empty elsewhere.
	BootID func() string
	// Metrics is told what happens.
	Metrics Metrics
	// Logger takes what nobody else is told: a damaged snapshot that was passed
	// over, a torn tail, a background snapshot that failed. Default: slog.Default().
	Logger *slog.Logger
	// FS is the file system; default vfs.OS. The journal's append side always
	// writes to the operating system's.
	FS vfs.FS

	// open opens the append side; tests replace it.
	open openAppender
}

func (c Config) withDefaults() Config {
	setDefault(&c.Node, "node")
	setDefault(&c.Cluster, "local")
	setDefault(&c.Shards, 16)
	setDefault(&c.Partitions, 1024)
	setDefault(&c.Window, 8)
	setDefault(&c.SegmentBytes, 4<<20)
	setDefault(&c.StallAfter, time.Second)
	setDefault(&c.FatalAfter, 30*time.Second)
	setDefault(&c.SnapshotAfter, 256<<20)
	setDefault(&c.SnapshotEvery, time.Hour)
	c.Metrics = c.Metrics.withDefaults()
	if c.AfterFirst == nil {
		c.AfterFirst = func(context.Context) error { return nil }
	}
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
	if c.OnFatal == nil {
		c.OnFatal = func(err error) { panic(err) }
	}
	if c.OnStall == nil {
		c.OnStall = func(time.Duration) {}
	}
	if c.BootID == nil {
		c.BootID = machineBootID
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.FS == nil {
		c.FS = vfs.OS{}
	}
	if c.open == nil {
		c.open = openWAL
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c Config) validate() error {
	inRange := func(name string, have, low, high int) error {
		if have < low || have > high {
			return fmt.Errorf("%s is %d, want %d to %d", name, have, low, high)
		}
		return nil
	}
	err := errors.Join(
		inRange("shards", c.Shards, 1, shardsMax),
		inRange("partitions", c.Partitions, c.Shards, partitionsMax),
		inRange("window", c.Window, 1, windowMax),
		inRange("segment bytes", c.SegmentBytes, segmentBytesMin, segmentBytesMax),
		c.Fsync.validate(),
	)
	if c.Dir == "" {
		err = errors.Join(err, errors.New("no data directory"))
	}
	if c.StallAfter < 0 || c.FatalAfter < c.StallAfter {
		err = errors.Join(err, fmt.Errorf("stall after %s and fatal after %s", c.StallAfter, c.FatalAfter))
	}
	if c.SnapshotAfter < NoSnapshots {
		err = errors.Join(err, fmt.Errorf("snapshot after %d bytes", c.SnapshotAfter))
	}
	if c.Reserve < 0 {
		err = errors.Join(err, fmt.Errorf("reserve of %d bytes", c.Reserve))
	}
	if c.SnapshotEvery < NoSnapshotsByAge {
		err = errors.Join(err, fmt.Errorf("snapshot every %s", c.SnapshotEvery))
	}
	if err != nil {
		return fmt.Errorf("configuration of persistence: %w", err)
	}
	return nil
}

// manifest is the first manifest of a directory with this configuration.
func (c Config) manifest() manifest {
	return manifest{Node: c.Node, Cluster: c.Cluster, Shards: c.Shards, Partitions: c.Partitions}
}
