package persistence

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/persistence/enginetest"
)

// childVar makes the test binary play a node: its value is the data directory.
// limitVar bounds the size of the child's files, in bytes.
const (
	childVar = "PYRULA_TEST_CHILD"
	limitVar = "PYRULA_TEST_FILE_LIMIT"
	// childShards is the number of shards of the child.
	childShards = 2
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVar); dir != "" {
		os.Exit(child(dir))
	}
	os.Exit(m.Run())
}

// child appends batches of growing size until it is killed, and says on its output
// how many of each shard are acknowledged: "ready", then lines "shard count". It
// exits with 3 when the journal stops.
func child(dir string) int {
	cfg := childConfig(dir)
	cfg.OnFatal = func(err error) {
		fmt.Println("fatal", err)
		os.Exit(3)
	}
	l, err := Open(cfg)
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	told := make(chan string, 1024)
	for i := range childShards {
		m := &talking{Ledger: enginetest.NewLedger(), shard: i, told: told}
		log, err := l.Open(engine.ShardID(i), m)
		if err != nil {
			return 1
		}
		m.Use(log)
	}
	// A hard limit on file sizes is a full disk that needs no privileges.
	if limit, err := strconv.ParseUint(os.Getenv(limitVar), 10, 64); err == nil {
		signal.Ignore(syscall.SIGXFSZ)
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			fmt.Println("error", err)
			return 1
		}
	}
	if err := l.Start(context.Background()); err != nil {
		fmt.Println("error", err)
		return 1
	}
	fmt.Println("ready")
	for i := range childShards {
		go l.shards[i].machine.(*talking).pump(l.shards[i])
	}
	for line := range told {
		fmt.Println(line)
	}
	return 0
}

func childConfig(dir string) Config {
	cfg := testConfig(dir, childShards)
	cfg.SegmentBytes = 1 << 20
	return cfg
}

// talking is a ledger that says what is acknowledged.
type talking struct {
	*enginetest.Ledger
	shard int
	told  chan string
}

func (m *talking) Committed(ep engine.Epoch, upto engine.Seq) {
	m.Ledger.Committed(ep, upto)
	_, acked := m.Lines()
	m.told <- fmt.Sprintf("%d %d", m.shard, acked)
}

// pump appends for ever. Every batch says its number, at its beginning and its end.
func (m *talking) pump(log engine.Log) {
	lines, _ := m.Lines()
	for n := len(lines); ; n++ {
		for log.Room() == 0 {
			if err := log.ReadBarrier(context.Background(), m.Epoch(), true); err != nil {
				return
			}
		}
		if _, err := m.Append(int64(n), childBatch(n)); err != nil {
			return
		}
	}
}

// childBatch is batch number n: some have up to 300 KB, because a kill tears large
// writes.
func childBatch(n int) string {
	size := n % 100
	if n%4 == 3 {
		size = n * 7919 % 300_000
	}
	return fmt.Sprintf("%d:%s:%d", n, strings.Repeat("x", size), n)
}

// childRun is a child and what it said.
type childRun struct {
	acked [childShards]int
	fatal bool
}

// runChild plays a node until it has said wait lines, and then kills it with
// SIGKILL; with 0 it waits for its end.
func runChild(t *testing.T, dir string, wait int, limit string) childRun {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childVar+"="+dir, limitVar+"="+limit)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var run childRun
	in := bufio.NewScanner(out)
	for lines := 0; in.Scan(); lines++ {
		run.note(t, in.Text())
		if wait > 0 && lines == wait {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := in.Err(); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, os.ErrClosed) {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("child ended by itself")
	}
	return run
}

func (r *childRun) note(t *testing.T, line string) {
	t.Helper()
	var shard, n int
	switch {
	case line == "ready":
	case strings.HasPrefix(line, "fatal"):
		r.fatal = true
	case strings.HasPrefix(line, "error"):
		t.Fatal(line)
	default:
		// A kill may cut the last line.
		if c, err := fmt.Sscanf(line, "%d %d", &shard, &n); err == nil && c == 2 && r.acked[shard] < n {
			r.acked[shard] = n
		}
	}
}

// survivors starts an engine over what a child left and checks every batch.
func survivors(t *testing.T, dir string, run childRun) (lines int, rec Recovery) {
	t.Helper()
	l := openLocal(t, childConfig(dir))
	ledgers := startAll(t, l)
	for s, ledger := range ledgers {
		got, _ := ledger.Lines()
		if len(got) < run.acked[s] {
			t.Fatalf("shard %d: %d batches came back, %d were acknowledged", s, len(got), run.acked[s])
		}
		for n, line := range got {
			if line.Body != childBatch(n) || line.Wall != int64(n) {
				t.Fatalf("shard %d: batch %d isn't whole", s, n)
			}
		}
		lines += len(got)
	}
	rec = l.Recovery()
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return lines, rec
}

// TestR9AcknowledgedSurvivesKill kills a real process with SIGKILL while it appends,
// again and again. It fails when an acknowledged batch is missing afterwards, one
// isn't whole, or the start is refused.
func TestR9AcknowledgedSurvivesKill(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	torn := 0
	for round := 0; round < killRounds; {
		// A test of its own for each directory: what it opened goes with it.
		t.Run(fmt.Sprint("from ", round), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			for life := 0; life < 5 && round < killRounds; life++ {
				run := runChild(t, dir, 1+rng.IntN(killLines), "")
				_, rec := survivors(t, dir, run)
				if rec.Dropped > 0 {
					torn++
				}
				round++
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d kills, %d of them left a torn tail", killRounds, torn)
}

// TestS16FullDiskStopsTheProcess gives a real process a file size that it can't
// exceed: a short write by the kernel under the real library. It fails when the
// process goes on, or when an acknowledged batch is missing afterwards.
func TestS16FullDiskStopsTheProcess(t *testing.T) {
	for _, limit := range []string{"300000", "777777", "1000000"} {
		dir := filepath.Join(t.TempDir(), "data")
		run := runChild(t, dir, 0, limit)
		if !run.fatal {
			t.Errorf("limit %s: the process ended without a fatal error", limit)
		}
		if lines, _ := survivors(t, dir, run); lines == 0 {
			t.Errorf("limit %s: nothing came back", limit)
		}
	}
}
