package archive

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

// childVar makes the test binary put items for ever: its value is the directory.
// limitVar bounds the size of the child's files, in bytes.
const (
	childVar = "PYRULA_TEST_ARCHIVE"
	limitVar = "PYRULA_TEST_ARCHIVE_LIMIT"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVar); dir != "" {
		fmt.Println("error", child(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// child puts batches until it is killed, and says the number of each when it is
// acknowledged.
func child(dir string) error {
	a, err := Open(childConfig(dir))
	if err != nil {
		return err
	}
	// A hard limit on file sizes is a full disk that needs no privileges.
	if limit, err := strconv.ParseUint(os.Getenv(limitVar), 10, 64); err == nil {
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
			return err
		}
	}
	for n := int(a.Stats().Keys); ; n++ {
		items, key := childBatch(n)
		if err := a.Put(context.Background(), items, []engine.ArchivedKey{key}); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

func childConfig(dir string) Config {
	cfg := quiet(dir)
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stdout, nil))
	return cfg
}

// childBatch is batch n: up to 100 items over three days, a new day now and then, and
// a few items of the batch before once more, as after a crash.
func childBatch(n int) ([]engine.Archived, engine.ArchivedKey) {
	var items []engine.Archived
	for i := range 20 + n*37%80 {
		items = append(items, childItem(n, i))
	}
	for i := range 5 {
		if n > 0 {
			items = append(items, childItem(n-1, i))
		}
	}
	return items, engine.ArchivedKey{Text: fmt.Sprint("batch ", n), Value: fmt.Append(nil, n)}
}

func childItem(n, i int) engine.Archived {
	it := itemOf(n*1000+i, noon.Add(time.Duration(n/8+i%3)*day))
	if n%5 == 4 {
		it.Body = []byte(strings.Repeat(fmt.Sprint(n, " "), 1+i*120))
	}
	return it
}

// runChild lets a child put and kills it with SIGKILL after some lines, unless its
// own error ends it first. acked is the number of the last batch that it has
// acknowledged, or -1; said is the error.
func runChild(t *testing.T, dir string, lines int, limit string) (acked int, said string) {
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
	acked = -1
	in := bufio.NewScanner(out)
	for ; in.Scan(); lines-- {
		if text, ok := strings.CutPrefix(in.Text(), "error "); ok {
			said = text
			continue
		}
		var n int
		if _, err := fmt.Sscanf(in.Text(), "%d", &n); err != nil || said != "" {
			t.Fatalf("the child says %q", in.Text())
		}
		acked = n
		if lines == 0 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the child ended by itself")
	}
	return acked, said
}

// wantBatches checks that a child has left all batches up to one, in sound files.
func wantBatches(t *testing.T, dir string, upto int) {
	t.Helper()
	wantSound(t, dir)
	a := mustOpen(t, childConfig(dir))
	for n := range upto + 1 {
		items, key := childBatch(n)
		for _, it := range items {
			wantGet(t, a, it)
		}
		if v, err := a.Key(key.Text); err != nil || !slices.Equal(v, key.Value) {
			t.Fatalf("key %s = %q, %v", key.Text, v, err)
		}
	}
	mustClose(t, a)
}

// TestR14AcknowledgedSurvivesKill kills a process with SIGKILL while it puts, again
// and again. It fails when something acknowledged is missing or changed, or a file
// isn't sound.
func TestR14AcknowledgedSurvivesKill(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "archive")
	rng := rand.New(rand.NewPCG(14, 9))
	last := -1
	for range killRounds {
		acked, said := runChild(t, dir, 1+rng.IntN(8), "")
		if said != "" {
			t.Fatal(said)
		}
		last = max(last, acked)
		wantBatches(t, dir, last)
	}
	t.Logf("%d kills, %d batches", killRounds, last+1)
}

// TestR14FullDiskIsAnError gives a process a file size that it can't exceed. It fails
// when Put goes on, or when something acknowledged is missing afterwards.
func TestR14FullDiskIsAnError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "archive")
	mustClose(t, mustOpen(t, childConfig(dir)))
	acked, said := runChild(t, dir, 1<<30, "1200000")
	if !strings.Contains(said, syscall.EFBIG.Error()) || !strings.Contains(said, "2026-12-") {
		t.Errorf("the child says %q", said)
	}
	if acked < 3 {
		t.Errorf("only %d batches were put", acked+1)
	}
	wantBatches(t, dir, acked)
}
