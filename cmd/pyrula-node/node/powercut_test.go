package node_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/cmd/pyrula-node/node"
	"github.com/pyrula/pyrula-node/persistence"
	archivepkg "github.com/pyrula/pyrula-node/persistence/archive"
)

// powered starts a node whose journal is synced once a minute at most and whose
// runs and keys leave memory as soon as they may.
func powered(t *testing.T, dir string) *served {
	t.Helper()
	s := &served{t: t, dir: dir, pool: newPool()}
	s.client = checked(t, s.pool)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n, err := node.Start(ctx, node.Config{
		DataDir: dir, Addr: "127.0.0.1:0", Fsync: persistence.FsyncEvery(time.Minute),
		RecentFor: time.Second, RecentRuns: 1,
		Fatal: func(err error) { panic(fmt.Sprintf("the node stops itself: %v", err)) },
	})
	if err != nil {
		t.Fatalf("start a node: %v", err)
	}
	s.node = n
	t.Cleanup(s.close)
	return s
}

// TestR14PowerCutDoesNotSwallowAKeyedSubmit: the archive syncs its files, so what is in
// there outlives a power cut. With `every=D` a key must not be in there before the
// journal has its run on disk: a repeat would be answered with a run that never was.
func TestR14PowerCutDoesNotSwallowAKeyedSubmit(t *testing.T) {
	const keys = 20
	s := powered(t, t.TempDir())
	s.declare("w", `{"version":""}`)
	segment := filepath.Join("journal", "00000000000000000001")
	syncs := s.gauge("pyrula_wal_fsync_seconds_count")
	synced, err := os.Stat(filepath.Join(s.dir, segment))
	if err != nil {
		t.Fatal(err)
	}
	for i := range keys {
		s.must(202, "/v1/workflows/w/runs", fmt.Sprintf(`{"idempotency_key":"k%d"}`, i))
	}
	s.waitFor("pyrula_archive_keys", keys)
	if s.gauge("pyrula_wal_fsync_seconds_count") > syncs {
		return // the journal was synced behind the submits: nothing may be cut off
	}
	dir := s.image()
	if err := os.Truncate(filepath.Join(dir, segment), synced.Size()); err != nil {
		t.Fatal(err)
	}
	after := powered(t, dir)
	for i := range keys {
		a := after.must(202, "/v1/workflows/w/runs", fmt.Sprintf(`{"idempotency_key":"k%d"}`, i))
		if got := after.get("/v1/runs/" + a.at("run_id").String()); got.status != 200 {
			t.Fatalf("behind a power cut key k%d answers %v, and its run %v", i, a, got)
		}
	}
}

// TestR14ArchiveThatIsGoneIsRefused fails when a node serves although the directory of its
// archive is gone, or is that of another node, or when it doesn't when told to.
func TestR14ArchiveThatIsGoneIsRefused(t *testing.T) {
	config := func(dir string) node.Config {
		return node.Config{DataDir: dir, Addr: "127.0.0.1:0", RecentFor: time.Second, RecentRuns: 1}
	}
	made := func() (dir string) {
		s := powered(t, t.TempDir())
		s.declare("w", `{"version":""}`)
		for i := range 3 {
			s.must(202, "/v1/workflows/w/runs", fmt.Sprintf(`{"idempotency_key":"k%d"}`, i))
		}
		s.waitFor("pyrula_archive_keys", 3)
		s.close()
		return s.dir
	}
	mine, other := made(), made()
	archive := filepath.Join(mine, "archive")
	refused := func(what string, want error) {
		t.Helper()
		n, err := node.Start(t.Context(), config(mine))
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", what, err)
		}
		if err == nil {
			t.Error(n.Close(t.Context()))
		}
	}
	if err := errors.Join(os.Rename(archive, archive+".away"), os.CopyFS(archive, os.DirFS(filepath.Join(other, "archive")))); err != nil {
		t.Fatal(err)
	}
	refused("another node's archive", archivepkg.ErrDamaged)
	if err := os.RemoveAll(archive); err != nil {
		t.Fatal(err)
	}
	refused("no archive", actors.ErrArchiveLost)
	accepting := config(mine)
	accepting.AcceptArchiveLoss = true
	n, err := node.Start(t.Context(), accepting)
	if err != nil {
		t.Fatalf("told to accept it: %v", err)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
