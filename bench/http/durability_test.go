package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/bench/load"
	"github.com/pyrula/pyrula-node/cmd/pyrula-node/node"
)

// asServer makes this test's own program a server, so that nothing is built.
const asServer = "PYRULA_BENCH_TEST_SERVES"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) == "" {
		os.Exit(m.Run())
	}
	if err := serveAsChild(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serveAsChild is a node with the flags and the log lines of the product. It forgets
// runs early, so that a small load reaches the archive.
func serveAsChild() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	cfg := node.Config{Logger: log, RecentRuns: 100}
	flag.StringVar(&cfg.DataDir, "data", "", "")
	flag.StringVar(&cfg.Addr, "addr", "", "")
	flag.String("fsync", "", "")
	flag.Parse()
	n, err := node.Start(ctx, cfg)
	if err != nil {
		return err
	}
	r := n.Recovery()
	log.Info("recovered", "records", r.Records, "runs", r.Runs, "keys", r.Keys, "seconds", r.Seconds)
	log.Info("ready", "url", n.URL())
	<-ctx.Done()
	return n.Close(context.Background())
}

// durably is a bench over this program as the server; its lines go to out.
func durably(t *testing.T, o options) (b *bench, out *bytes.Buffer) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv(asServer, "1")
	out = new(bytes.Buffer)
	o.fsync, o.quiet = "always", time.Nanosecond
	return &bench{options: o, out: out, server: program{binary: os.Args[0]}}, out
}

// lines are what was written, each with exactly the fields of what kind makes.
func lines(t *testing.T, out *bytes.Buffer) (all []map[string]any) {
	t.Helper()
	for line := range bytes.Lines(out.Bytes()) {
		var fields map[string]any
		if err := json.Unmarshal(line, &fields); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, fields)
	}
	return all
}

// Fails when a soak doesn't end as many runs as it was asked for, its samples don't
// show the server, or it misses what it reads back behind the restart.
func TestSoakEndsRunsAndReadsThemBack(t *testing.T) {
	b, out := durably(t, options{clients: numbers{2}, keys: numbers{10}, batch: numbers{8}, soak: 600})
	if err := b.soakRuns(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	all := lines(t, out)
	if len(all) != soakSamples+3 {
		t.Fatalf("%d lines, want %d:\n%s", len(all), soakSamples+3, out)
	}
	var ended float64
	for i, s := range all[:soakSamples] {
		now := s["ended"].(float64)
		if s["soak"] != "sample" || now < float64(600*(i+1)/soakSamples) || now < ended || s["heap_live_bytes"].(float64) <= 0 ||
			s["rss_anon_bytes"].(float64) <= 0 || s["journal_bytes"].(float64) <= 0 || s["errors"].(float64) != 0 {
			t.Errorf("sample %d is %v", i, s)
		}
		ended = now
	}
	verdict, rest, restart := all[soakSamples], all[soakSamples+1], all[soakSamples+2]
	if verdict["soak"] != "verdict" || verdict["ended"] != ended || verdict["heap_live_ratio"].(float64) <= 0 || verdict["durability"] != "fsync every commit" {
		t.Errorf("verdict is %v", verdict)
	}
	// A run may be in memory and in the archive for a moment, and some may be queued.
	if total := rest["archive_runs"].(float64) + rest["runs_in_memory"].(float64); rest["soak"] != "rest" || total < rest["ended"].(float64) {
		t.Errorf("at rest: %v", rest)
	}
	// Each of 16 shards rounds its share of what leaves memory up.
	if restart["runs_read_back"].(float64) != min(rest["ended"].(float64), soakRead) || restart["runs_lost"] != 0.0 ||
		restart["snapshot_bytes"].(float64) <= 0 || restart["recovered_runs"].(float64) < min(100-16, ended) || restart["archive_bytes"].(float64) <= 0 {
		t.Errorf("restart is %v", restart)
	}
	if left := leftBehind(t); len(left) != 0 {
		t.Errorf("left behind %v", left)
	}
}

// Fails when a run that isn't there, or hasn't been completed, counts as read back.
func TestReadBackCountsWhatIsLost(t *testing.T) {
	_, host := serving(t)
	drawn := newLot(soakRead)
	j := job{host: host, workflow: "back", keys: 3, batch: 2, ended: drawn.add}
	if err := declare(j, openGates); err != nil {
		t.Fatal(err)
	}
	c, err := j.client(0)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Cycle(load.NewRecorder(everything())); err != nil {
		t.Fatal(err)
	}
	if err := c.submit(); err != nil {
		t.Fatal(err)
	}
	if err := c.take(load.NewRecorder(everything())); err != nil {
		t.Fatal(err)
	}
	ids := drawn.drawn
	if len(ids) != 2 || len(c.held) == 0 {
		t.Fatalf("%v have ended, %v are held", ids, c.held)
	}
	unknown := ids[0][:len(ids[0])-4] + "zzzz"
	for _, want := range []struct {
		ids  []string
		lost int
	}{{ids, 0}, {append(ids, unknown), 1}, {append(ids, c.held[0].id), 1}} {
		if lost, err := readBack(host, want.ids); err != nil || lost != want.lost {
			t.Errorf("of %v %d are lost, %v; want %d", want.ids, lost, err, want.lost)
		}
	}
}

// Fails when late ids have no chance to be drawn, or more or others are drawn than
// there are.
func TestLotDrawsFromAll(t *testing.T) {
	l := newLot(100)
	for i := range 100 {
		var runs []held
		for k := range 100 {
			runs = append(runs, held{id: fmt.Sprintf("%05d", 100*i+k)})
		}
		l.add(runs)
	}
	seen, late := map[string]bool{}, 0
	for _, id := range l.drawn {
		seen[id] = true
		if id >= "05000" {
			late++
		}
	}
	if len(l.drawn) != 100 || len(seen) != 100 || late < 25 || late > 75 {
		t.Errorf("%d drawn, %d different, %d of the second half", len(l.drawn), len(seen), late)
	}
	few := newLot(100)
	few.add([]held{{id: "a"}, {id: "b"}})
	if len(few.drawn) != 2 {
		t.Errorf("drawn of two: %v", few.drawn)
	}
}

// Fails when a start over queued runs isn't measured from the journal first and from
// snapshots then, or runs are missing behind it.
func TestRecoveryFromJournalAndSnapshots(t *testing.T) {
	b, out := durably(t, options{clients: numbers{1}, keys: numbers{10}, reps: 2, runs: 500})
	if err := b.recoverQueued(t.Context(), job{keys: 10}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	all := lines(t, out)
	if len(all) != 2 {
		t.Fatalf("%d lines, want 2:\n%s", len(all), out)
	}
	journal, snapshots := all[0], all[1]
	if journal["recovery"] != "journal" || journal["replayed_records"].(float64) < 500 || journal["recovered_runs"] != 500.0 ||
		journal["newest_snapshot_bytes"] != 0.0 || journal["journal_bytes_per_record"].(float64) < payloadBytes || journal["replayed_records_per_s"].(float64) <= 0 {
		t.Errorf("from the journal: %v", journal)
	}
	if snapshots["recovery"] != "snapshots" || snapshots["replayed_records"].(float64) >= 500 || snapshots["recovered_runs"] != 500.0 ||
		snapshots["snapshot_bytes_per_run"].(float64) < payloadBytes || snapshots["stop_seconds"].(float64) <= 0 {
		t.Errorf("from snapshots: %v", snapshots)
	}
	for _, line := range all {
		if n := len(line["ready_seconds_all"].([]any)); n != 2 || line["ready_seconds"].(float64) <= 0 {
			t.Errorf("%d repetitions of %v", n, line)
		}
	}
}

// Fails when runs that were acknowledged and aren't recovered go unnoticed.
func TestRecoveryMissesRuns(t *testing.T) {
	p := scripted(t, `mkdir -p "$2/snapshots"; echo '{"level":"INFO","msg":"recovered","runs":499}' >&2
`+readyLine+`; exec cat /dev/zero >/dev/null`)
	s, err := p.launch("always")
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{options: options{reps: 1, runs: 500, quiet: time.Nanosecond}}
	if _, err := b.starts(t.Context(), target{process: s}, "journal", s.crash); !errors.Is(err, errLost) {
		t.Errorf("error is %v", err)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
}

// Fails when an old snapshot of a shard counts, or another file does.
func TestNewestSnapshots(t *testing.T) {
	dir := t.TempDir()
	for i, f := range []struct {
		name string
		size int
	}{
		{"shard-00000-epoch-1-pos-9-at-9.snap", 1000}, {"shard-00001-epoch-1-pos-8-at-9.snap", 500},
		{"shard-00001-epoch-1-pos-9-at-9.snap", 20},
		{"shard-00000-epoch-1-pos-10-at-9.snap", 3}, {"manifest", 7},
	} {
		name := filepath.Join(dir, f.name)
		if err := os.WriteFile(name, make([]byte, f.size), 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Unix(int64(1000+i), 0)
		if err := os.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := newestSnapshots(dir); err != nil || got != 23 {
		t.Errorf("newest snapshots have %d bytes, %v; want 23", got, err)
	}
	if got, err := sizeOf(dir); err != nil || got != 1530 {
		t.Errorf("all files have %d bytes, %v; want 1530", got, err)
	}
	if got, err := sizeOf(filepath.Join(dir, "none")); err != nil || got != 0 {
		t.Errorf("a directory that isn't there has %d bytes, %v", got, err)
	}
}

// Fails when a node has no metric of a name that is read here.
func TestMetricsThatAreReadExist(t *testing.T) {
	_, host := serving(t)
	g, err := scrape(host)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"go_memstats_heap_inuse_bytes", "go_memstats_next_gc_bytes", "go_gc_duration_seconds_count",
		"pyrula_archive_runs", "pyrula_archive_bytes", "pyrula_archive_waiting_runs",
		"pyrula_snapshot_seconds_count", "pyrula_snapshot_seconds_sum", "pyrula_snapshot_bytes_total",
	} {
		if _, ok := g[name]; !ok {
			t.Errorf("there is no %s", name)
		}
	}
}

// Fails when values of one name aren't added up, or a label or a comment is taken for
// a value.
func TestParseGauges(t *testing.T) {
	g, err := parseGauges(bytes.NewBufferString("# HELP a 1 2\na{x=\"p q\",y=\"1\"} 2\na{x=\"r\"} 3\nb 1.5e+06\n\n"))
	if err != nil || g["a"] != 5 || g["b"] != 1.5e6 || len(g) != 2 {
		t.Errorf("gauges are %v, %v", g, err)
	}
	if _, err := parseGauges(bytes.NewBufferString("a x\n")); err == nil {
		t.Error("no number was taken for one")
	}
}
