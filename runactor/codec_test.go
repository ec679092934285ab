package runactor

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/pyrula/pyrula-node/flow"
)

var update = flag.Bool("update", false, "rewrite the golden files of this build's formats")

func decode(t failer, r *Run, body []byte) {
	t.Helper()
	if err := r.DecodeMsgpack(msgpack.NewDecoder(bytes.NewReader(body))); err != nil {
		t.Fatalf("decode: %v", err)
	}
}

// samples are runs in every state, with every field used by one of them.
func samples(t failer) map[string]*Run {
	t.Helper()
	out := map[string]*Run{}
	for name, life := range lives {
		w := newWorld(t)
		w.now = epoch
		life.make(w)
		out[name] = w.run
	}
	w := newWorld(t)
	w.now = epoch
	w.step(flow.InSubmit, flow.Fields{
		Order: epoch - 1, Workflow: "wörk", Payload: []byte(`{}`), Trigger: "odd", IdempotencyKey: "k", RequestID: "r",
		Stamp: &flow.Stamp{Version: "v", VersionRank: -3, Unknown: true, Gates: []flow.Gate{
			{Kind: flow.GateLimit, KeyName: "n", Key: "k", Max: 1},
			{Kind: flow.GateRate, KeyName: "n", Key: "k", Interval: 5, Burst: 7},
		}},
	})
	w.hold(1)
	w.step(flow.InSuspend, flow.Fields{Fence: 1, Until: flow.MaxInstant, Flags: flow.FlagAbsolute})
	out["until a date"] = w.run
	w = started(t)
	w.step(flow.InFail, flow.Fields{Fence: 1, ErrType: "E", ErrText: "boom"})
	out["failed"] = w.run
	w = started(t)
	w.step(flow.InTerminate, flow.Fields{Reason: "enough"})
	out["held for a reason"] = w.run
	return out
}

// Fails when anything of a run but the end of its lease doesn't come back.
func TestSnapshotHoldsTheWholeRun(t *testing.T) {
	whole := cmp.Exporter(func(reflect.Type) bool { return true })
	for name, r := range samples(t) {
		got := New(flow.RunID{})
		decode(t, got, r.Fingerprint())
		want := *r
		if r.past != nil {
			p := *r.past
			p.expiry = 0
			if b := p.book; b != nil && b.empty() && b.bytes == 0 && b.wait.kind == waitNone && b.chain == 0 && b.successor.IsZero() {
				p.book = nil
			}
			want.past = &p
		}
		if diff := cmp.Diff(&want, got, whole, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Fails when a field was added to the state and not to the samples above: then
// nothing shows that the snapshot has it.
func TestSnapshotSamplesUseEveryField(t *testing.T) {
	used := map[string]bool{}
	var walk func(prefix string, v reflect.Value)
	walk = func(prefix string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				walk(prefix, v.Elem())
			}
		case reflect.Struct:
			for i := range v.NumField() {
				if name := v.Type().Field(i).Name; name != "places" { // made of the rest
					walk(prefix+"."+name, v.Field(i))
				}
			}
		case reflect.Slice:
			if v.Type().Elem().Kind() == reflect.Struct {
				for i := range v.Len() {
					walk(prefix+"[]", v.Index(i))
				}
			}
			used[prefix] = used[prefix] || v.Len() > 0
		default:
			used[prefix] = used[prefix] || !v.IsZero()
		}
	}
	for _, r := range samples(t) {
		walk("", reflect.ValueOf(r))
	}
	walk("", reflect.ValueOf(failing(flow.MaxRunEvents, "boom")))
	for field, yes := range used {
		if !yes {
			t.Errorf("%s is never used", field)
		}
	}
}

// Fails when today's format changed: give it a new version and keep this file.
func TestSnapshotFormat2(t *testing.T) {
	const golden = "testdata/snapshot.2.golden"
	var b strings.Builder
	for _, name := range []string{
		"queued", "asked", "until a date", "failed", "held for a reason",
		"recorded", "waits for a signal", "waits for runs", "successor", "continued", "chain over", "telling",
	} {
		b.WriteString(name + " " + hex.EncodeToString(samples(t)[name].Fingerprint()) + "\n")
	}
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("snapshot bytes (-want +got):\n%s", diff)
	}
}

// Fails when a run of a snapshot of the first version isn't read as what it was: the bytes
// are of a build that knew no steps, signals or hand-ons, the runs are today's.
func TestSnapshotFormat1IsStillRead(t *testing.T) {
	golden, err := os.ReadFile("testdata/snapshot.1.golden")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(golden)), "\n")
	if len(lines) != 5 {
		t.Fatalf("%d runs", len(lines))
	}
	for _, line := range lines {
		cut := strings.LastIndexByte(line, ' ')
		name := line[:cut]
		body, err := hex.DecodeString(line[cut+1:])
		if err != nil || body[1] != 1 {
			t.Fatalf("%s: version %d, error %v", name, body[1], err)
		}
		got := New(flow.RunID{})
		decode(t, got, body)
		want := samples(t)[name]
		if diff := cmp.Diff(want.Events(), got.Events()); diff != "" {
			t.Errorf("%s, events (-want +got):\n%s", name, diff)
		}
		wantView, view := want.View(), got.View()
		if want.past != nil && want.past.since != 0 {
			wantView.Since = view.Since // nobody kept it then
		}
		if diff := cmp.Diff(wantView, view); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		// It is written as a run of today and goes on like one.
		again := New(flow.RunID{})
		decode(t, again, got.Fingerprint())
		if !bytes.Equal(again.Fingerprint(), got.Fingerprint()) || got.Fingerprint()[1] != snapshotVersion {
			t.Errorf("%s is written as\n%x", name, got.Fingerprint())
		}
	}
}

// Fails when a format that this build doesn't know is read anyway, or the error
// doesn't say both versions.
func TestSnapshotOfANewerBuildIsRefused(t *testing.T) {
	body := samples(t)["queued"].Fingerprint()
	body[1] = snapshotVersion + 1
	err := New(flow.RunID{}).DecodeMsgpack(msgpack.NewDecoder(bytes.NewReader(body)))
	if !errors.Is(err, ErrSnapshot) || !strings.Contains(err.Error(), "version 3 and 13 parts, this build knows versions up to 2") {
		t.Errorf("error %v", err)
	}
}

// Fails when a cut or altered snapshot panics, is taken for a run that breaks an
// invariant, or is refused with an error of no family.
func TestSnapshotDamageIsRefused(t *testing.T) {
	for name, r := range samples(t) {
		body := r.Fingerprint()
		for n := range body {
			err := New(flow.RunID{}).DecodeMsgpack(msgpack.NewDecoder(bytes.NewReader(body[:n])))
			if !errors.Is(err, ErrSnapshot) {
				t.Fatalf("%s cut at %d: error %v", name, n, err)
			}
			for _, bit := range []byte{1, 2, 0x10, 0x80, 0xFF} {
				bad := bytes.Clone(body)
				bad[n] ^= bit
				got := New(flow.RunID{})
				err := got.DecodeMsgpack(msgpack.NewDecoder(bytes.NewReader(bad)))
				if err != nil && !errors.Is(err, ErrSnapshot) {
					t.Fatalf("%s with byte %d altered: error %v", name, n, err)
				}
				if err == nil && got.Check() != nil {
					t.Fatalf("%s with byte %d altered: %v", name, n, got.Check())
				}
			}
		}
	}
}

// Fails when a length that is only claimed is allocated.
func TestSnapshotClaimsAllocateLittle(t *testing.T) {
	body := samples(t)["queued"].Fingerprint()
	text, params := bytes.Index(body, []byte("sync"))-1, bytes.Index(body, []byte(`{"tenant"`))-2
	for _, c := range []struct {
		at    int
		claim []byte
	}{
		{text, []byte{0xDB, 0x40, 0, 0, 0}},
		{text, []byte{0xC6, 0, 0, 0xFF, 0xFF}},
		{params, []byte{0xC6, 0x40, 0, 0, 0}},
		{params, []byte{0xC6, 0, 0x1F, 0xFF, 0xFF}},
		{0, []byte{0xDD, 0x40, 0, 0, 0}},
		{len(body) - 1, []byte{0xDD, 0x40, 0, 0, 0}},
	} {
		bad := append(bytes.Clone(body[:c.at]), c.claim...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := New(flow.RunID{}).DecodeMsgpack(msgpack.NewDecoder(bytes.NewReader(bad)))
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrSnapshot) {
			t.Errorf("claim %x at %d: error %v", c.claim, c.at, err)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 4*(64<<10) {
			t.Errorf("claim %x at %d allocates %d bytes", c.claim, c.at, got)
		}
	}
}
