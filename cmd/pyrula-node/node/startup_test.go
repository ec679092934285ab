package node_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/cmd/pyrula-node/node"
)

// refuses fails when a node starts on a directory, or its error doesn't match.
func refuses(t *testing.T, dir, pattern string) {
	t.Helper()
	n, err := startIn(dir)
	if err == nil {
		t.Errorf("a node starts, want an error with %s", pattern)
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
		return
	}
	if !regexp.MustCompile(pattern).MatchString(err.Error()) {
		t.Errorf("the error is %q, want one with %s", err, pattern)
	}
}

// Fails when a second node can open a directory, the first takes notice, or the
// directory stays locked.
func TestSecondNodeIsRefused(t *testing.T) {
	t.Parallel()
	s := serve(t)
	id := s.submit("w", `{}`)
	for range 3 {
		refuses(t, s.dir, regexp.QuoteMeta(s.dir)+`.* is in use by another process`)
	}
	s.is(id, "queued")
	s.reopen()
	s.is(id, "queued")
}

// Fails when a node starts on a journal that was changed, or doesn't say in which
// file and where.
func TestDamagedJournalIsRefused(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"limit":{"key":"k","max":1}}`)
	for range 30 {
		s.submit("w", `{"k":"a"}`)
	}
	good, err := os.ReadFile(journalOf(t, s.image()))
	if err != nil {
		t.Fatal(err)
	}
	for _, damage := range []func(b []byte) []byte{
		func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		func(b []byte) []byte { b[len(b)/3] ^= 0x80; return b },
		func(b []byte) []byte { b[0] ^= 0xff; return b },
		func(b []byte) []byte { return append(b[:len(b)/2:len(b)/2], b[len(b)/2+7:]...) },
		func(b []byte) []byte { copy(b[len(b)/2:], make([]byte, 64)); return b },
	} {
		dir := s.image()
		file := journalOf(t, dir)
		if err := os.WriteFile(file, damage(bytes.Clone(good)), 0o600); err != nil {
			t.Fatal(err)
		}
		n, err := startIn(dir)
		if err == nil {
			if err := n.Close(context.Background()); err != nil {
				t.Error(err)
			}
			t.Error("a node starts on a damaged journal")
			continue
		}
		if !strings.Contains(err.Error(), file) || !regexp.MustCompile(`offset \d+`).MatchString(err.Error()) {
			t.Errorf("the error is %q, want %s and an offset", err, file)
		}
		if kept, readErr := os.ReadFile(file); readErr != nil || !bytes.Equal(kept, damage(bytes.Clone(good))) {
			t.Errorf("a refused start changed the journal, %v", readErr)
		}
	}
}

// Fails when a tail that a crash tore keeps a node from starting, or costs more than
// what was in it.
func TestTornTailIsCut(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var ids []string
	for range 10 {
		ids = append(ids, s.submit("w", `{}`))
	}
	for _, cut := range []int{1, 5, 13} {
		dir := s.image()
		file := journalOf(t, dir)
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, b[:len(b)-cut], 0o600); err != nil {
			t.Fatal(err)
		}
		torn := serveIn(t, dir)
		if torn.node.Dropped() == 0 {
			t.Errorf("with %d bytes cut nothing was dropped", cut)
		}
		for _, id := range ids[:9] {
			torn.is(id, "queued")
		}
		torn.submit("w", `{}`)
		torn.reopen()
		torn.is(ids[0], "queued")
	}
}

// Fails when a snapshot that was changed is believed.
func TestS09DamagedSnapshot(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var ids []string
	for range 40 {
		ids = append(ids, s.submit("w", `{}`))
	}
	s.reopen()
	dir := s.image()
	all, err := filepath.Glob(filepath.Join(dir, "snapshots", "*.snap"))
	if err != nil || len(all) == 0 {
		t.Fatalf("the snapshots are %v, %v", all, err)
	}
	for _, file := range all {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)/2] ^= 1
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n, err := startIn(dir)
	if err != nil {
		if !strings.Contains(err.Error(), ".snap") {
			t.Errorf("the error is %q, want the file", err)
		}
		return
	}
	// The journal is still whole, so the node may read that instead.
	other := &served{t: t, node: n, client: s.client, pool: s.pool, dir: dir}
	t.Cleanup(other.close)
	for _, id := range ids {
		other.is(id, "queued")
	}
}

// Fails when a place where no directory can be isn't refused with its name.
func TestBadDirectories(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	refuses(t, file, regexp.QuoteMeta(file))
	refuses(t, filepath.Join(file, "below"), regexp.QuoteMeta(file))
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "manifest.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	refuses(t, foreign, "manifest")
	missing := filepath.Join(t.TempDir(), "a", "b", "c")
	serveIn(t, missing).submit("w", `{}`)
}

// Fails when a directory that can't be written isn't refused.
func TestReadOnlyDirectory(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root may write anywhere")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	refuses(t, dir, regexp.QuoteMeta(dir)+".*permission denied")
}

// Fails when a port that is taken isn't refused, or the refusal leaves the directory
// locked.
func TestPortInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := t.TempDir()
	n, err := node.Start(t.Context(), node.Config{DataDir: dir, Addr: l.Addr().String()})
	if err == nil {
		t.Fatalf("a node listens on %s beside another", n.Addr())
	}
	if !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("the error is %q", err)
	}
	serveIn(t, dir)
}

// Fails when a start that is given up doesn't end, or leaves the directory locked.
func TestStartIsGivenUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	n, err := node.Start(ctx, node.Config{DataDir: dir, Addr: "127.0.0.1:0"})
	if err == nil {
		t.Log("the node was ready before it looked at its context")
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	} else if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	serveIn(t, dir)
}
