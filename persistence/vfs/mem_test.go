package vfs_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// put writes a file without syncing anything.
func put(t *testing.T, f vfs.FS, name, text string) vfs.File {
	t.Helper()
	file, err := f.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(file, text); err != nil {
		t.Fatal(err)
	}
	return file
}

// get reads a file; "-" stands for a missing one.
func get(t *testing.T, f vfs.FS, name string) string {
	t.Helper()
	file, err := f.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "-"
	}
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(file)
	if err = errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func newMem(t *testing.T) *vfs.Mem {
	t.Helper()
	m := vfs.NewMem()
	if err := m.MkdirAll("/d"); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestCrashCloneKeepsOnlyWhatWasSynced fails when a clone has bytes or names that
// were never synced, or lacks some that were.
func TestCrashCloneKeepsOnlyWhatWasSynced(t *testing.T) {
	m := newMem(t)
	sync := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	file := put(t, m, "/d/a", "one")
	want := func(step, text string) {
		t.Helper()
		if got := get(t, m.CrashClone(nil), "/d/a"); got != text {
			t.Errorf("%s: %q on the disk, want %q", step, got, text)
		}
	}
	want("written", "-")
	sync(file.Sync())
	want("file synced", "-")
	sync(m.SyncDir("/d"))
	want("name synced", "one")
	if _, err := io.WriteString(file, "two"); err != nil {
		t.Fatal(err)
	}
	want("written again", "one")
	sync(file.Sync())
	want("synced again", "onetwo")
	sync(file.Truncate(2))
	want("cut", "onetwo")
	sync(file.Sync())
	want("cut and synced", "on")
	sync(m.Rename("/d/a", "/d/b"))
	want("renamed", "on")
	sync(m.SyncDir("/d"))
	want("rename synced", "-")
	sync(m.Rename("/d/b", "/d/a"), m.SyncDir("/d"), m.Remove("/d/a"))
	want("removed", "on")
	sync(m.SyncDir("/d"))
	want("removal synced", "-")
}

// TestCrashCloneTearsWrites fails when no clone has a torn write, when one tears
// inside a sector, or touches what was synced.
func TestCrashCloneTearsWrites(t *testing.T) {
	m := newMem(t)
	file := put(t, m, "/d/a", "synced")
	if err := errors.Join(file.Sync(), m.SyncDir("/d")); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(bytes.Repeat([]byte{'x'}, 2000)); err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]int)
	for n := range uint64(200) {
		got := get(t, m.CrashClone(rand.New(rand.NewPCG(n, 1))), "/d/a")
		if len(got) < 6 || got[:6] != "synced" {
			t.Fatalf("clone %d begins with %q", n, got[:min(6, len(got))])
		}
		switch rest := got[6:]; {
		case rest == "":
			seen["lost"]++
		case rest == string(bytes.Repeat([]byte{'x'}, 2000)):
			seen["whole"]++
		default:
			seen["torn"]++
			for i := range len(got) - 1 {
				if i >= 6 && got[i] != got[i+1] && (i+1)%512 != 0 {
					t.Fatalf("clone %d is torn at byte %d", n, i+1)
				}
			}
		}
	}
	if seen["lost"] == 0 || seen["whole"] == 0 || seen["torn"] == 0 {
		t.Errorf("clones: %v", seen)
	}
}

// TestFaultFailsTheChosenOperation fails when another operation fails than the one
// that was chosen, or when a failed write leaves nothing behind.
func TestFaultFailsTheChosenOperation(t *testing.T) {
	broken := errors.New("broken")
	var ops []vfs.Kind
	m := newMem(t)
	f := vfs.NewFault(m, func(op vfs.Op) error {
		ops = append(ops, op.Kind)
		if op.Index == 2 {
			return broken
		}
		return nil
	})
	file := put(t, f, "/d/a", "one")
	if n, err := file.Write([]byte("four")); n != 2 || !errors.Is(err, broken) {
		t.Errorf("write: %d, %v", n, err)
	}
	if err := errors.Join(file.Sync(), file.Close(), f.Rename("/d/a", "/d/b"), f.SyncDir("/d")); err != nil {
		t.Error(err)
	}
	want := []vfs.Kind{vfs.OpCreate, vfs.OpWrite, vfs.OpWrite, vfs.OpSync, vfs.OpClose, vfs.OpRename, vfs.OpSyncDir}
	if !slices.Equal(ops, want) || f.Count() != len(want) {
		t.Errorf("operations %v, count %d", ops, f.Count())
	}
	if got := get(t, m, "/d/b"); got != "onefo" {
		t.Errorf("file has %q", got)
	}
}

// TestFileSystemsAgree fails when OS and Mem answer the same calls differently.
func TestFileSystemsAgree(t *testing.T) {
	for name, f := range map[string]vfs.FS{"os": vfs.OS{}, "mem": vfs.NewMem()} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "a", "b")
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(f.MkdirAll(dir))
			must(f.MkdirAll(dir))
			one, two := filepath.Join(dir, "1"), filepath.Join(dir, "2")
			file := put(t, f, one, "hello")
			must(file.Sync())
			must(file.Truncate(3))
			_, err := io.WriteString(file, "p")
			must(err)
			must(file.Close())
			if err := file.Close(); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("second close: %v", err)
			}
			file, err = f.OpenWrite(one)
			must(err)
			_, err = io.WriteString(file, "!")
			must(err)
			must(file.Close())
			must(put(t, f, two, "other").Close())
			must(f.Rename(one, two))
			must(f.SyncDir(dir))
			if got := get(t, f, two); got != "help!" {
				t.Errorf("file has %q", got)
			}
			infos, err := f.ReadDir(dir)
			if err != nil || len(infos) != 1 || infos[0] != (vfs.Info{Name: "2", Size: 5}) {
				t.Errorf("listing %v, %v", infos, err)
			}
			for what, err := range map[string]error{
				"stat": second(f.Stat(one)), "open": second(f.Open(one)), "open to write": second(f.OpenWrite(one)),
				"remove": f.Remove(one), "rename": f.Rename(one, two), "list": second(f.ReadDir(one)),
				"create": second(f.Create(filepath.Join(one, "x"))),
			} {
				if !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s of what isn't there: %v", what, err)
				}
			}
			if free, err := f.Free(dir); err != nil || free == 0 {
				t.Errorf("free space %d, %v", free, err)
			}
			lock, err := f.Lock(filepath.Join(dir, "lock"))
			must(err)
			if _, err := f.Lock(filepath.Join(dir, "lock")); !errors.Is(err, vfs.ErrLocked) {
				t.Errorf("second lock: %v", err)
			}
			must(lock.Close())
			lock, err = f.Lock(filepath.Join(dir, "lock"))
			must(err)
			must(lock.Close())
		})
	}
}

func second[T any](_ T, err error) error { return err }
