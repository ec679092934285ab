package persistence

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/pyrula/pyrula-node/persistence/vfs"
)

func sampleManifest() manifest {
	m := Config{Dir: "x", Shards: 2}.withDefaults().manifest()
	m.Format, m.Boot, m.MinIndex, m.Durable = manifestFormat, 7, 1, 900
	m.Snapshots = []snapshotRef{{Shard: 1, Epoch: 6, Seq: 5, Pos: 400, Wall: -3, Index: 700, Bytes: 1 << 40}}
	return m
}

// TestManifestRoundTripAndDamage fails when a manifest doesn't come back as it was,
// or when one with a wrong bit is taken for another one.
func TestManifestRoundTripAndDamage(t *testing.T) {
	m := sampleManifest()
	data, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "manifest_v1.txt", data)
	got, err := decodeManifest(data)
	if err != nil || !reflect.DeepEqual(*got, m) {
		t.Fatalf("%+v, was %+v: %v", got, m, err)
	}
	for n := range data[:len(data)-2] { // without the closing brace and the newline
		if _, err := decodeManifest(data[:n]); err == nil {
			t.Errorf("cut at byte %d: accepted", n)
		}
	}
	flip(data, 0, len(data), func(bit int, bad []byte) {
		if got, err := decodeManifest(bad); err == nil && !reflect.DeepEqual(*got, m) {
			t.Errorf("bit %d: read as %+v", bit, got)
		}
	})
	// What later builds have added is read as well, and its absence above.
	m.BootID, m.Acked, m.Lost, m.Mark = "b7", ackedWritten, true, &mark{Frame: 3, Next: 4}
	m.Snapshots[0].Through, m.Snapshots[0].Sum = 800, "0badf00d"
	if data, err = m.encode(); err != nil {
		t.Fatal(err)
	}
	golden(t, "manifest_v1_full.txt", data)
	if got, err := decodeManifest(data); err != nil || !reflect.DeepEqual(*got, m) {
		t.Fatalf("%+v, was %+v: %v", got, m, err)
	}
	m.Format = 2
	if data, err = m.encode(); err != nil {
		t.Fatal(err)
	}
	if _, err := decodeManifest(data); !errors.Is(err, ErrNewerFormat) {
		t.Errorf("format 2: %v", err)
	}
}

// TestMinIndexFollowsTheOlderSnapshots fails when the journal would be cut where an
// older snapshot still needs it, or while a shard has not got two.
func TestMinIndexFollowsTheOlderSnapshots(t *testing.T) {
	m := Config{Dir: "x", Shards: 2}.withDefaults().manifest()
	m.MinIndex = 1
	for i, step := range []struct {
		ref  snapshotRef
		want uint64
	}{
		{snapshotRef{Shard: 0, Pos: 1, Index: 10}, 1},
		{snapshotRef{Shard: 0, Pos: 2, Index: 20}, 1},
		{snapshotRef{Shard: 1, Pos: 1, Index: 30}, 1},
		{snapshotRef{Shard: 1, Pos: 1, Index: 40}, 11},
		{snapshotRef{Shard: 0, Pos: 3, Index: 50}, 21},
		{snapshotRef{Shard: 1, Pos: 1, Index: 60}, 21},
		{snapshotRef{Shard: 0, Pos: 4, Index: 70}, 51}, // shard 1 is at rest up to 60
		{snapshotRef{Shard: 1, Pos: 2, Index: 80}, 51},
		{snapshotRef{Shard: 0, Pos: 5, Index: 90}, 61},
	} {
		m = m.with(step.ref)
		if m.MinIndex != step.want {
			t.Errorf("step %d: min index %d, want %d", i, m.MinIndex, step.want)
		}
		for s := range 2 {
			if refs := m.of(step.ref.Shard); len(refs) > snapshotsKept || refs[0] != step.ref {
				t.Errorf("step %d: shard %d keeps %v", i, s, refs)
			}
		}
	}
}

// TestJournalWithoutManifestIsRefused fails when a directory that lost its manifest
// starts from nothing.
func TestJournalWithoutManifestIsRefused(t *testing.T) {
	cfg := testConfig(filepath.Join(t.TempDir(), "data"), 1)
	l := openLocal(t, cfg)
	write(t, l, startAll(t, l)[0], 0, "x")
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(cfg.Dir, ManifestName)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(cfg); !errors.Is(err, ErrNoManifest) {
		t.Errorf("open: %v, want ErrNoManifest", err)
	}
}

// TestLostJournalIsRefused fails when a directory whose journal was emptied, or has
// lost its last segment, starts as if nothing had been written.
func TestLostJournalIsRefused(t *testing.T) {
	for what, lose := range map[string]func(names []string) []string{
		"all segments":     func(names []string) []string { return names },
		"the last segment": func(names []string) []string { return names[len(names)-1:] },
		"the first":        func(names []string) []string { return names[:1] },
	} {
		cfg := testConfig(filepath.Join(t.TempDir(), "data"), 1)
		l := openLocal(t, cfg)
		ledger := startAll(t, l)[0]
		for i := range 22 { // the last segment isn't empty
			write(t, l, ledger, 0, fmt.Sprintf("%01000d", i))
			barrier(t, l, ledger, 0)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		names, err := filepath.Glob(filepath.Join(cfg.Dir, journalDir, "*"))
		if err != nil || len(names) < 3 {
			t.Fatalf("%d segments, %v", len(names), err)
		}
		slices.Sort(names)
		for _, name := range lose(names) {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
		l = openLocal(t, cfg)
		openAll(t, l)
		if err := l.Start(t.Context()); !isDamage(err) {
			t.Errorf("%s lost: %v, want a DamageError", what, err)
		}
	}
}

// TestLostJournalOfAKilledNodeIsRefused fails when the loss of a whole journal isn't
// noticed because no life before had an end, nor a snapshot.
func TestLostJournalOfAKilledNodeIsRefused(t *testing.T) {
	cfg := testConfig(filepath.Join(t.TempDir(), "data"), 1)
	startAll(t, openLocal(t, cfg))
	killed := cfg
	killed.Dir = copyDir(t, cfg.Dir)
	if err := os.Remove(filepath.Join(killed.Dir, journalDir, segmentName(1))); err != nil {
		t.Fatal(err)
	}
	l := openLocal(t, killed)
	openAll(t, l)
	if err := l.Start(t.Context()); !isDamage(err) {
		t.Errorf("start: %v, want a DamageError", err)
	}
}

// TestAnotherConfigurationIsRefused fails when a directory is taken for that of
// another node or cluster, or with another number of shards.
func TestAnotherConfigurationIsRefused(t *testing.T) {
	fs := vfs.NewMem()
	cfg := onDisk(fs, 4)
	if err := openLocal(t, cfg).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(*Config){
		"node_id":    func(c *Config) { c.Node = "other" },
		"cluster_id": func(c *Config) { c.Cluster = "other" },
		"shards":     func(c *Config) { c.Shards = 8 },
		"partitions": func(c *Config) { c.Partitions = 2048 },
	} {
		other := cfg
		change(&other)
		_, err := Open(other)
		mismatch, ok := errors.AsType[*MismatchError](err)
		if !ok || mismatch.Field != field || mismatch.Dir != cfg.Dir {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := openLocal(t, cfg).Close(t.Context()); err != nil {
		t.Errorf("the right configuration afterwards: %v", err)
	}
}

// TestConfigIsChecked fails when a value out of its range is taken.
func TestConfigIsChecked(t *testing.T) {
	for what, change := range map[string]func(*Config){
		"no directory":        func(c *Config) { c.Dir = "" },
		"shards":              func(c *Config) { c.Shards = -1 },
		"too many shards":     func(c *Config) { c.Shards = shardsMax + 1 },
		"fewer partitions":    func(c *Config) { c.Partitions = 1 },
		"window":              func(c *Config) { c.Window = windowMax + 1 },
		"small segments":      func(c *Config) { c.SegmentBytes = 1 },
		"large segments":      func(c *Config) { c.SegmentBytes = segmentBytesMax + 1 },
		"fsync period":        func(c *Config) { c.Fsync = FsyncEvery(1) },
		"fatal before stall":  func(c *Config) { c.StallAfter, c.FatalAfter = 2, 1 },
		"negative snapshots":  func(c *Config) { c.SnapshotAfter = -2 },
		"negative reserve":    func(c *Config) { c.Reserve = -1 },
		"negative age":        func(c *Config) { c.SnapshotEvery = -2 },
		"negative stall time": func(c *Config) { c.StallAfter = -1 },
	} {
		cfg := onDisk(vfs.NewMem(), 4)
		change(&cfg)
		if l, err := Open(cfg); err == nil {
			t.Errorf("%s: accepted", what)
			if err := l.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}
