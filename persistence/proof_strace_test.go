package persistence

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/persistence/enginetest"
)

const (
	// writerVar makes the test binary, run with TestWriterProcess alone, a writer over the
	// data directory that it names; writerFsyncVar is its fsync mode.
	writerVar      = "PYRULA_TEST_WRITER"
	writerFsyncVar = "PYRULA_TEST_WRITER_FSYNC"

	writerLines = 10 // of one life
	// Ways for a writer to end, beside 0.
	exitRefused = 4 // no start
	exitStopped = 3 // the journal stopped
	exitUnclean = 5 // the close said something
)

// straced are the system calls that a trace shows: all that change a directory, and
// those that acknowledgements are told with.
const straced = "write,writev,pwrite64,pwritev,fsync,fdatasync,openat,renameat,renameat2,unlinkat,ftruncate," +
	"fallocate,mkdirat,lseek,copy_file_range,sendfile"

// needStrace skips the test where no process can be traced.
func needStrace(t *testing.T) {
	t.Helper()
	if err := straceWorks(); err != nil {
		t.Skipf("no proof with real system calls: strace doesn't work here: %v", err)
	}
}

var straceWorks = sync.OnceValue(func() error {
	out, err := exec.Command("strace", "-f", "-o", os.DevNull, "-e", "trace=fsync", "true").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
})

// TestWriterProcess is the writer that other tests run as a process of its own.
func TestWriterProcess(t *testing.T) {
	dir := os.Getenv(writerVar)
	if dir == "" {
		t.Skip("the tests with strace run it in a process of its own")
	}
	fsync, err := ParseFsync(os.Getenv(writerFsyncVar))
	if err != nil {
		t.Fatal(err)
	}
	os.Exit(writer(dir, fsync))
}

// tellf says a line with a system call that no fault is put into.
func tellf(format string, args ...any) {
	line := []byte(fmt.Sprintf(format, args...) + "\n")
	if _, err := unix.Writev(1, [][]byte{line}); err != nil {
		os.Exit(exitUnclean)
	}
}

// writer plays one life: recovery, appends that fill segments, snapshots that cut the
// journal, close. It tells each acknowledgement on the committing goroutine, before the
// next write can begin.
func writer(dir string, fsync Fsync) int {
	cfg := testConfig(dir, imageShards)
	cfg.Fsync = fsync
	cfg.OnFatal = func(err error) {
		tellf("fatal %v", err)
		os.Exit(exitStopped)
	}
	l, err := Open(cfg)
	if err != nil {
		tellf("refused %v", err)
		return exitRefused
	}
	var machines []*telling
	for s := range imageShards {
		m := &telling{Ledger: enginetest.NewLedger(), shard: s}
		log, err := l.Open(engine.ShardID(s), m)
		if err != nil {
			return exitRefused
		}
		m.Use(log)
		machines = append(machines, m)
	}
	ctx := context.Background()
	if err := l.Start(ctx); err != nil {
		tellf("refused %v", err)
		return exitRefused
	}
	for i := range writerLines {
		alone := i >= writerLines-4 // beside a shard at rest
		shard := i % imageShards
		if alone {
			shard = 0
		}
		appendLine(ctx, l.shards[shard], machines[shard])
		if alone || i == 3 {
			snapshotAll(ctx, l)
		}
	}
	if err := l.Close(ctx); err != nil {
		tellf("unclean %v", err)
		return exitUnclean
	}
	tellf("closed")
	return 0
}

// appendLine appends the next line of a shard and waits until it is acknowledged.
func appendLine(ctx context.Context, s *shard, m *telling) {
	lines, _ := m.Lines()
	_, err := m.Append(int64(len(lines)), writerLine(m.shard, len(lines)))
	if err == nil {
		err = s.ReadBarrier(ctx, m.Epoch(), true)
	}
	if err != nil {
		select {} // the journal has stopped: OnFatal ends the process
	}
}

// snapshotAll takes a snapshot of every shard. It may fail; a journal that stops says so
// itself.
func snapshotAll(ctx context.Context, l *Local) {
	for _, s := range slices.Backward(l.shards) {
		if err := s.Snapshot(ctx); err != nil {
			tellf("no snapshot: %v", err)
		}
	}
}

// telling is a ledger that tells what is acknowledged.
type telling struct {
	*enginetest.Ledger
	shard int
}

func (m *telling) Committed(ep engine.Epoch, upto engine.Seq) {
	m.Ledger.Committed(ep, upto)
	_, acked := m.Lines()
	tellf("ack %d %d", m.shard, acked)
}

// writerLine is line number n of a shard.
func writerLine(shard, n int) string {
	return fmt.Sprintf("writer %d/%d:%s:%d", shard, n, strings.Repeat("w", 500+n*271%900), n)
}

// writerKnown is what a writer may have appended behind base, with what it has told.
func writerKnown(base []witness, acked []int) []witness {
	var out []witness
	for s, w := range base {
		lines := append([]enginetest.Line(nil), w.lines[:w.acked]...)
		for n := len(lines); n < w.acked+writerLines; n++ {
			lines = append(lines, enginetest.Line{
				Pos: engine.Pos(n + 1), Wall: int64(n), Body: writerLine(s, n),
			})
		}
		out = append(out, witness{lines: lines, acked: max(w.acked, acked[s])})
	}
	return out
}

// noteAck raises what is acknowledged if the line says so.
func noteAck(line string, acked []int) bool {
	var shard, n int
	if c, err := fmt.Sscanf(line, "ack %d %d", &shard, &n); err != nil || c != 2 {
		return false
	}
	acked[shard] = max(acked[shard], n)
	return true
}

// traced is a writer's end and its system calls.
type traced struct {
	exit  int // -1: killed
	said  string
	acked []int
	calls []call
}

// trace runs a writer under strace, with more options for it.
func trace(t *testing.T, dir string, fsync Fsync, options ...string) traced {
	t.Helper()
	log := filepath.Join(t.TempDir(), "calls")
	args := append([]string{"-f", "-y", "-xx", "-s", "65536", "-o", log, "-e", "trace=" + straced}, options...)
	if !slices.ContainsFunc(options, func(o string) bool { return strings.Contains(o, "signal=") }) {
		args = append([]string{"--seccomp-bpf"}, args...) // much quicker, but its signals don't come
	}
	args = append(args, os.Args[0], "-test.run=^TestWriterProcess$")
	cmd := exec.CommandContext(t.Context(), "strace", args...)
	// The runtime then moves less between threads; strace counts calls for each thread.
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1", "GORACE=atexit_sleep_ms=0",
		writerVar+"="+dir, writerFsyncVar+"="+fsync.String())
	var said, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &complaint
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || strings.Contains(complaint.String(), "strace:")) {
		t.Fatalf("strace: %v, %v: %s", err, exit, complaint.String())
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	// strace ends as its child does: 128 and more, or -1, is a signal.
	out := traced{exit: cmd.ProcessState.ExitCode(), said: said.String() + complaint.String(), acked: make([]int, imageShards)}
	for line := range strings.Lines(said.String()) {
		noteAck(line, out.acked)
	}
	out.calls = parseCalls(t, text)
	return out
}

// call is one system call, in the order of their ends; a tell stands where it began.
type call struct {
	name     string
	fd       int    // first argument, if it is one
	path     string // of the file descriptor, or the first name
	to       string // second name, of a rename
	data     []byte
	args     string // as strace shows them
	ret      int64
	failed   bool
	injected bool
}

var (
	callWhole   = regexp.MustCompile(`^(\d+) +(\w+)\((.*)\) += (-?\d+|\?)(.*)$`)
	callBegun   = regexp.MustCompile(`^(\d+) +(\w+)\((.*) <unfinished \.\.\.>$`)
	callResumed = regexp.MustCompile(`^(\d+) +<\.\.\. (\w+) resumed>(.*)\) += (-?\d+|\?)(.*)$`)
	quoted      = regexp.MustCompile(`"((?:\\x[0-9a-f]{2})*)"`)
	described   = regexp.MustCompile(`^(\d+)<((?:\\x[0-9a-f]{2})*)>`)
)

// parseCalls reads what strace has written.
func parseCalls(t *testing.T, text []byte) []call {
	t.Helper()
	var out []call
	begun := make(map[string]string) // arguments of the call under way in each thread
	in := bufio.NewScanner(bytes.NewReader(text))
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		line := in.Text()
		if m := callBegun.FindStringSubmatch(line); m != nil {
			begun[m[1]] = m[3]
			if m[2] == "writev" {
				out = append(out, newCall(m[2], m[3], "0", ""))
			}
			continue
		}
		if m := callResumed.FindStringSubmatch(line); m != nil {
			if m[2] != "writev" {
				out = append(out, newCall(m[2], begun[m[1]]+m[3], m[4], m[5]))
			}
			continue
		}
		if m := callWhole.FindStringSubmatch(line); m != nil {
			out = append(out, newCall(m[2], m[3], m[4], m[5]))
		}
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func newCall(name, args, ret, rest string) call {
	c := call{name: name, args: args, injected: strings.Contains(rest, "INJECTED")}
	n, err := strconv.ParseInt(ret, 10, 64)
	c.ret, c.failed = n, err != nil || n < 0
	var strs []string
	for _, m := range quoted.FindAllStringSubmatch(args, -1) {
		strs = append(strs, unhex(m[1]))
	}
	if m := described.FindStringSubmatch(args); m != nil {
		c.fd, err = strconv.Atoi(m[1])
		c.failed = c.failed || err != nil
		c.path = unhex(m[2])
		if len(strs) > 0 {
			c.data = []byte(strs[0])
		}
		return c
	}
	if len(strs) > 0 {
		c.path = strs[0]
	}
	if len(strs) > 1 {
		c.to = strs[1]
	}
	return c
}

// unhex reads \x2f\x74 and so on.
func unhex(s string) string {
	out := make([]byte, 0, len(s)/4)
	for i := 0; i+4 <= len(s); i += 4 {
		b, err := strconv.ParseUint(s[i+2:i+4], 16, 8)
		if err != nil {
			return s
		}
		out = append(out, byte(b))
	}
	return string(out)
}
