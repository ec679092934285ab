package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// TestSnapshotListShowsTheFiles fails when the list isn't what lies in the directory.
func TestSnapshotListShowsTheFiles(t *testing.T) {
	dir := tell(t).dir
	code, data, talk := tool(t, "snapshot", "list", "--data", dir, "-o", "json")
	list := gjson.Get(data, "snapshots").Array()
	if code != exitOK || len(list) != 16 {
		t.Fatalf("list ends with %d: %s%s", code, data, talk)
	}
	_, stat, _ := tool(t, "journal", "stat", "--data", dir, "-o", "json")
	last := gjson.Get(stat, "last_frame").Uint() // the node was stopped: nothing is behind its snapshots
	for i, s := range list {
		info, err := os.Stat(s.Get("file").String())
		if err != nil {
			t.Fatal(err)
		}
		if s.Get("shard").Int() != int64(i) || s.Get("bytes").Int() != info.Size() || s.Get("epoch").Uint() != 1 ||
			s.Get("seq").Uint() != s.Get("position").Uint() || s.Get("frame").Uint() != last || !strings.HasPrefix(s.Get("at").String(), "20") {
			t.Errorf("snapshot %d of %d bytes: %s", i, info.Size(), s)
		}
	}
	_, table, _ := tool(t, "snapshot", "list", "--data", dir)
	if strings.Count(table, "\n") != 17 || !strings.HasPrefix(table, "SHARD  EPOCH  SEQ  POSITION  FRAME  BYTES  TIME ") {
		t.Errorf("the table is\n%s", table)
	}
}

// TestSnapshotVerifyReadsTheState fails when a snapshot's content isn't looked at, or
// is counted wrong.
func TestSnapshotVerifyReadsTheState(t *testing.T) {
	s := tell(t)
	code, data, talk := tool(t, "snapshot", "verify", "--data", s.dir, "-o", "json")
	v := gjson.Parse(data)
	if code != exitOK || !v.Get("whole").Bool() || v.Get("snapshots").Int() != 16 || v.Get("runs").Int() != int64(len(s.runs)) ||
		v.Get("request_ids").Int() != 1 || v.Get("idempotency_keys").Int() != 1 || v.Get("letters").Int() != 0 {
		t.Errorf("verify ends with %d: %s%s", code, data, talk)
	}
	names, err := filepath.Glob(filepath.Join(s.dir, "snapshots", "shard-00007-*"))
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	if err := os.Truncate(names[0], 100); err != nil {
		t.Fatal(err)
	}
	code, data, talk = tool(t, "snapshot", "verify", "--data", s.dir)
	if code != exitOther || !strings.HasPrefix(talk, "pyrula-node: "+names[0]+" is damaged at offset ") || !strings.Contains(data, names[0]) {
		t.Errorf("verify ends with %d: %s%s", code, data, talk)
	}
}
