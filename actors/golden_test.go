package actors_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
)

var update = flag.Bool("update", false, "write the golden snapshot if there is none, and what it is to be read as")

// The golden snapshot is one that a build has written and every later one must read. It
// is never written anew: a change of format has a file of its own beside it.
const (
	goldenSnapshot = "testdata/snapshot.1.hex"
	goldenState    = "testdata/snapshot.1.txt"
)

// goldenStory leaves something of every part of a snapshot.
func goldenStory(t *testing.T) (data []byte) {
	setup{shards: 2, window: 1, recentFor: flow.Second}.play(t, func(w *world) {
		f := newTraffic(w, 7)
		for range 60 {
			f.step()
		}
		w.pass(3 * time.Second) // some of it leaves memory
		w.declare("g", `{"version":"1","limit":{"key":"k","max":2},"rate":{"key":"r","per_second":2,"burst":3}}`)
		params := fmt.Sprintf(`{"k":%q,"r":"b"}`, w.keyIn(0, "g", "k"))
		for i := range 4 {
			await(w, w.submitting(requested("g", params, fmt.Sprint("request", i))))
		}
		await(w, w.submitting(keyedSubmit("g", params, w.textIn(0, "golden"))))
		w.claim("g", "1", 1)
		snap, err := w.spy.machines[0].Capture()
		must(w, err)
		var b bytes.Buffer
		_, err = snap.WriteTo(&b)
		must(w, err)
		snap.Release()
		data = b.Bytes()
	})
	return data
}

// TestGoldenSnapshotStaysReadable fails when a snapshot of format 1 is refused, or makes
// another state than when it was written.
func TestGoldenSnapshotStaysReadable(t *testing.T) {
	if _, err := os.Stat(goldenSnapshot); *update && errors.Is(err, fs.ErrNotExist) {
		if err := os.WriteFile(goldenSnapshot, wrapped(hex.EncodeToString(goldenStory(t))), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(goldenSnapshot)
	if err != nil {
		t.Fatal(err)
	}
	data, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatal(err)
	}
	at := flow.Instant(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()) // where the bubble's clock begins
	got, err := actors.Replay(2, bytes.NewReader(data), nil, at)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(goldenState, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(goldenState)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the snapshot is read otherwise (-want +got):\n%s", diff)
	}
	content, err := actors.CheckSnapshot(bytes.NewReader(data), 2)
	if err != nil || content.Runs == 0 || content.Keys == 0 || content.Requests == 0 || content.IdempotencyKeys == 0 || !strings.Contains(got, "archived 2 keys, runs map[") {
		t.Errorf("the golden snapshot holds %+v, %v: something isn't shown", content, err)
	}
	for cut := range data {
		if _, err := actors.CheckSnapshot(bytes.NewReader(data[:cut]), 2); !errors.Is(err, actors.ErrSnapshot) {
			t.Fatalf("the first %d of %d bytes: %v", cut, len(data), err)
		}
	}
	newer := bytes.Clone(data)
	newer[0]++ // the version is the first number
	if _, err := actors.CheckSnapshot(bytes.NewReader(newer), 2); !errors.Is(err, actors.ErrSnapshot) || !strings.Contains(err.Error(), "format 2, this build knows 1") {
		t.Errorf("a snapshot of the next format: %v", err)
	}
}

// wrapped is hex in lines.
func wrapped(text string) []byte {
	var b bytes.Buffer
	for len(text) > 0 {
		n := min(len(text), 96)
		b.WriteString(text[:n] + "\n")
		text = text[n:]
	}
	return b.Bytes()
}
