package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/pyrula/pyrula-node/cmd/pyrula-node/node"
	"github.com/pyrula/pyrula-node/persistence/archive"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// TestJournalVerifyWhole fails when a directory that a node left isn't found whole, or
// is counted wrong.
func TestJournalVerifyWhole(t *testing.T) {
	dir := tell(t).dir
	code, data, talk := tool(t, "journal", "verify", "--data", dir, "-o", "json")
	v := gjson.Parse(data)
	_, dumped, _ := tool(t, "journal", "dump", "--data", dir)
	lives := 2 // the items of the only life that aren't records
	if code != exitOK || !v.Get("whole").Bool() || v.Get("snapshots").Int() != 16 || v.Get("torn_bytes").Int() != 0 ||
		v.Get("records").Int() != int64(strings.Count(dumped, "\n")-lives) {
		t.Errorf("verify ends with %d: %s%s", code, data, talk)
	}
	code, data, _ = tool(t, "journal", "verify", "--data", dir)
	if code != exitOK || strings.Count(data, "\n") != 1 || !strings.HasPrefix(data, dir+" is whole: 1 segments, ") {
		t.Errorf("verify ends with %d: %s", code, data)
	}
}

// TestJournalVerifyTornTail fails when what a crash leaves of the last write is taken
// for damage, or isn't reported with its place.
func TestJournalVerifyTornTail(t *testing.T) {
	dir := tell(t).dir
	segment := lastSegment(t, dir)
	info, err := os.Stat(segment)
	if err != nil {
		t.Fatal(err)
	}
	appendTo(t, segment, make([]byte, 37))
	code, data, _ := tool(t, "journal", "verify", "--data", dir)
	if code != exitOK || !strings.Contains(data, segment+" has a torn tail of 37 bytes at offset ") || !strings.Contains(data, "the next start cuts it off") {
		t.Errorf("verify ends with %d: %s", code, data)
	}
	_, data, _ = tool(t, "journal", "verify", "--data", dir, "-o", "json")
	if v := gjson.Parse(data); v.Get("torn_bytes").Int() != 37 || v.Get("torn_offset").Int() != info.Size() || v.Get("torn_file").String() != segment {
		t.Errorf("the tail begins at %d: %s", info.Size(), data)
	}
	code, _, talk := tool(t, "journal", "dump", "--data", dir)
	if code != exitOK || !strings.Contains(talk, "torn tail of 37 bytes") {
		t.Errorf("dump ends with %d: %s", code, talk)
	}
}

// TestJournalVerifyRefusedTail fails when verify says that a start cuts off what a start
// refuses: the last frame of a node that was stopped.
func TestJournalVerifyRefusedTail(t *testing.T) {
	dir := tell(t).dir
	segment := lastSegment(t, dir)
	rewrite(t, segment, func(data []byte) []byte {
		data[len(data)-5] ^= 1
		return data
	})
	code, data, talk := tool(t, "journal", "verify", "--data", dir)
	if code != exitOther || !strings.Contains(data, segment+" has a torn tail of ") || !strings.Contains(data, "so a start refuses it") ||
		strings.Contains(data, "cuts it off") || !strings.Contains(talk, "expected a journal up to frame ") {
		t.Errorf("verify ends with %d: %s%s", code, data, talk)
	}
	dir = tell(t).dir
	names, err := filepath.Glob(filepath.Join(dir, "snapshots", "*"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	if err := os.Remove(names[0]); err != nil {
		t.Fatal(err)
	}
	appendTo(t, lastSegment(t, dir), make([]byte, 37))
	if _, data, _ := tool(t, "journal", "verify", "--data", dir); !strings.Contains(data, "a start that isn't refused cuts it off") {
		t.Errorf("with a snapshot gone: %s", data)
	}
}

// TestJournalVerifyNamesTheDamage fails when damage anywhere in a directory is passed
// over, or is told without its file and place.
func TestJournalVerifyNamesTheDamage(t *testing.T) {
	flip := func(at func(size int) int) func([]byte) []byte {
		return func(data []byte) []byte {
			data[at(len(data))] ^= 0x10
			return data
		}
	}
	middle := func(size int) int { return size / 2 }
	snapshot := func(dir string) string {
		t.Helper()
		names, err := filepath.Glob(filepath.Join(dir, "snapshots", "shard-00003-*"))
		if err != nil || len(names) != 1 {
			t.Fatal(names, err)
		}
		return names[0]
	}
	cases := []struct {
		name string
		file func(dir string) string
		what func([]byte) []byte // nil: it is removed
		want string
		of   string // damage is told of this directory; empty: of the file
	}{
		{"a frame", func(dir string) string { return lastSegment(t, dir) }, flip(middle), "expected frame ", ""},
		{"a snapshot", snapshot, flip(middle), "expected chunk 0 with checksum ", ""},
		{"the head of a snapshot", snapshot, flip(func(int) int { return 20 }), "expected checksum ", ""},
		{"a snapshot that is gone", snapshot, nil, "found no file", ""},
		{"the journal", func(dir string) string { return filepath.Join(dir, "journal") }, nil, "expected a journal up to frame ", ""},
		{"a segment", func(dir string) string { return lastSegment(t, dir) }, nil, "expected a journal up to frame ", "journal"},
		{"the manifest", func(dir string) string { return filepath.Join(dir, "manifest.json") }, flip(middle), "expected a whole manifest", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := tell(t).dir
			file := c.file(dir)
			if c.what != nil {
				rewrite(t, file, c.what)
			} else if err := os.RemoveAll(file); err != nil {
				t.Fatal(err)
			}
			blamed := file
			if c.of != "" {
				blamed = filepath.Join(dir, c.of)
			}
			code, data, talk := tool(t, "journal", "verify", "--data", dir)
			if code != exitOther || !strings.Contains(talk, c.want) || !strings.Contains(talk, blamed+" is damaged at offset ") {
				t.Errorf("verify of %s ends with %d: %s%s", file, code, data, talk)
			}
			if c.name == "the manifest" {
				return // nothing else is read then
			}
			code, data, _ = tool(t, "journal", "verify", "--data", dir, "-o", "json")
			fault := gjson.Get(data, "faults.0")
			if code != exitOther || gjson.Get(data, "whole").Bool() || !strings.Contains(talk, fault.Get("found").String()) || fault.Get("file").String() == "" {
				t.Errorf("verify of %s ends with %d: %s", file, code, data)
			}
		})
	}
}

// TestJournalVerifyCountsAllFaults fails when damage in a snapshot keeps the journal
// from being checked.
func TestJournalVerifyCountsAllFaults(t *testing.T) {
	dir := tell(t).dir
	names, err := filepath.Glob(filepath.Join(dir, "snapshots", "*"))
	if err != nil || len(names) != 16 {
		t.Fatal(names, err)
	}
	for _, name := range []string{names[2], names[5], lastSegment(t, dir)} {
		rewrite(t, name, func(data []byte) []byte {
			data[len(data)/2]++
			return data
		})
	}
	code, data, talk := tool(t, "journal", "verify", "--data", dir)
	if code != exitOther || strings.Count(data, "\n") != 4 || !strings.HasPrefix(data, "FILE ") || !strings.Contains(talk, "(and 2 more)") {
		t.Errorf("verify ends with %d: %s%s", code, data, talk)
	}
	code, dumped, talk := tool(t, "journal", "dump", "--data", dir)
	if code != exitOther || dumped == "" || !strings.Contains(talk, "is damaged at offset") {
		t.Errorf("dump ends with %d, %d bytes: %s", code, len(dumped), talk)
	}
	code, data, _ = tool(t, "journal", "stat", "--data", dir, "-o", "json")
	if code != exitOther || gjson.Get(data, "frames").Int() == 0 || gjson.Get(data, "records").Int() != int64(strings.Count(dumped, "\n")-2) {
		t.Errorf("stat ends with %d: %s", code, data)
	}
}

// TestJournalStatCounts fails when a figure isn't that of the journal.
func TestJournalStatCounts(t *testing.T) {
	dir := tell(t).dir
	code, data, talk := tool(t, "journal", "stat", "--data", dir, "-o", "json")
	if code != exitOK {
		t.Fatal(code, talk)
	}
	st := gjson.Parse(data)
	var size int64
	if info, err := os.Stat(lastSegment(t, dir)); err != nil {
		t.Fatal(err)
	} else {
		size = info.Size()
	}
	sum := int64(0)
	for _, n := range st.Get("records_by_kind").Map() {
		sum += n.Int()
	}
	for _, c := range []struct {
		path string
		want int64
	}{
		{"bytes", size}, {"records", sum}, {"shards", 16}, {"boot", 1}, {"segments", 1}, {"first_frame", 1},
		{"records_by_kind.promoted", 16}, {"records_by_kind.submitted", 8}, {"records_by_kind.retrying", 1},
		{"lives.#", 1}, {"lives.0.epoch", 1}, {"by_shard.#", 16}, {"unknown_entries", 0},
		{"last_frame", st.Get("frames").Int()},
	} {
		if got := st.Get(c.path).Int(); got != c.want {
			t.Errorf("%s is %d, want %d", c.path, got, c.want)
		}
	}
	if st.Get("oldest").String() >= st.Get("newest").String() {
		t.Errorf("from %s to %s", st.Get("oldest"), st.Get("newest"))
	}
	_, table, _ := tool(t, "journal", "stat", "--data", dir)
	if st.Get("may_have_lost").Bool() || strings.Contains(table, "\nloss ") {
		t.Errorf("a loss is told of where none can be:\n%s", table)
	}
	rewrite(t, filepath.Join(dir, "manifest.json"), func(data []byte) []byte {
		return otherManifest(data, `"format":1`, `"format":1,"lost":true`)
	})
	if _, lost, _ := tool(t, "journal", "stat", "--data", dir); !strings.Contains(lost, "\nloss          a power cut may have taken") {
		t.Errorf("a loss isn't told of:\n%s", lost)
	}
	for _, want := range []string{"node          n1 of cluster local\n", "\npromoted      16\n", "\nLIFE  FRAME  BEGAN "} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
}

// TestJournalVerifyMissesTheKeys fails when an archive without the file of its keys is
// called whole, or when verify doesn't say what it can't see.
func TestJournalVerifyMissesTheKeys(t *testing.T) {
	dir := tell(t).dir
	store, err := archive.Open(archive.Config{Dir: filepath.Join(dir, node.ArchiveDir)})
	if err != nil {
		t.Fatal(err)
	}
	err = store.Put(t.Context(), []engine.Archived{{ID: engine.ArchiveID{1}, Ended: time.Now().UnixNano(), Group: "charge", Kind: 1, Body: []byte("x")}}, nil)
	if err := errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
	if code, data, _ := tool(t, "journal", "verify", "--data", dir); code != exitOK ||
		!strings.HasSuffix(data, ", 1 archived runs; whether the archive lacks any only a start sees\n") {
		t.Errorf("verify ends with %d: %s", code, data)
	}
	keys := filepath.Join(dir, node.ArchiveDir, archive.KeysName)
	if err := os.Remove(keys); err != nil {
		t.Fatal(err)
	}
	code, data, talk := tool(t, "journal", "verify", "--data", dir, "-o", "json")
	if code != exitOther || gjson.Get(data, "faults.0.file").String() != keys || !strings.Contains(talk, "idempotency keys of before are unknown") {
		t.Errorf("verify ends with %d: %s%s", code, data, talk)
	}
}

// TestJournalVerifyReadsTheArchive fails when damage in the archive isn't found, or runs
// in it aren't counted.
func TestJournalVerifyReadsTheArchive(t *testing.T) {
	dir := tell(t).dir
	store, err := archive.Open(archive.Config{Dir: filepath.Join(dir, node.ArchiveDir)})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	err = store.Put(t.Context(), []engine.Archived{
		{ID: engine.ArchiveID{1}, Ended: now.UnixNano(), Group: "charge", Kind: 1, Body: []byte("a body to be found")},
		{ID: engine.ArchiveID{2}, Ended: now.UnixNano(), Group: "charge", Kind: 1, Body: []byte("another")},
	}, nil)
	if err := errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
	code, data, talk := tool(t, "journal", "verify", "--data", dir, "-o", "json")
	if code != exitOK || gjson.Get(data, "archived_runs").Int() != 2 {
		t.Errorf("verify ends with %d: %s%s", code, data, talk)
	}
	name := filepath.Join(dir, node.ArchiveDir, now.UTC().Format(time.DateOnly)+".db")
	rewrite(t, name, func(data []byte) []byte { return bytes.ReplaceAll(data, []byte("a body"), []byte("A body")) })
	code, data, talk = tool(t, "journal", "verify", "--data", dir, "-o", "json")
	if code != exitOther || gjson.Get(data, "faults.0.file").String() != name || !strings.Contains(talk, name+" is damaged: value of run_01000000000000000000000000 has") ||
		!strings.Contains(gjson.Get(data, "faults.0.found").String(), "value of run_01000000000000000000000000 has") || !strings.Contains(talk, "gives up the runs in it") {
		t.Errorf("verify ends with %d: %s%s", code, data, talk)
	}
	keys := filepath.Join(dir, node.ArchiveDir, archive.KeysName)
	rewrite(t, keys, func(data []byte) []byte {
		data[40] ^= 1
		return data
	})
	if code, _, talk = tool(t, "journal", "verify", "--data", dir); code != exitOther || !strings.Contains(talk, "(and 1 more)") {
		t.Errorf("with damaged keys verify ends with %d: %s", code, talk)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if _, _, talk = tool(t, "journal", "verify", "--data", dir); !strings.Contains(talk, "lets each idempotency key in it make a new run") {
		t.Errorf("damaged keys are told as %s", talk)
	}
	if err := os.RemoveAll(filepath.Join(dir, node.ArchiveDir)); err != nil {
		t.Fatal(err)
	}
	if code, _, talk := tool(t, "journal", "verify", "--data", dir); code != exitOK {
		t.Errorf("without an archive verify ends with %d: %s", code, talk)
	}
}
