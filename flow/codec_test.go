package flow

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite the golden files of this build's formats")

// recordKinds and inputKinds are all that this build writes.
func recordKinds() []RecordKind {
	var all []RecordKind
	for k := range int(RecVolatile) {
		if RecordKind(k).Known() {
			all = append(all, RecordKind(k))
		}
	}
	return all
}

func inputKinds() []InputKind {
	var all []InputKind
	for k := range 256 {
		if inputNames[k] != "" {
			all = append(all, InputKind(k))
		}
	}
	return all
}

// full has every field set, each to a value of its own; the codec writes all of
// them but Claim.
func full() Fields {
	f := early()
	f.Other, f.Root, f.Parent = RunID{2, 15: 3}, RunID{3, 15: 4}, RunID{4, 15: 5}
	f.Visit, f.Cost, f.Status = 1<<62, -13, StatusContinued
	f.Name, f.Origin, f.Extra = "approve", "nightly", []byte{1, 2, 3}
	return f
}

// early has every field set that a record had before there were steps, signals and
// hand-ons: up to the stamp.
func early() Fields {
	return Fields{
		Run: RunID{1, 15: 2}, Key: KeyID{Workflow: "w", Value: "k", Kind: KeyUngated}, Peer: KeyID{Workflow: "w", Value: "p"},
		Order: 3, Fence: 1<<53 - 1, Until: MaxInstant, Before: -6, After: 7, Interval: 8, Burst: 9, Lease: 10, Backoff: 11,
		Attempts: 12, Shard: 65535, Number: 1<<64 - 1, Flags: 1<<32 - 1, Workflow: "sync", Version: "2", Worker: "w1",
		Trigger: "client", IdempotencyKey: "key", RequestID: "r", Reason: "why", ErrType: "E", ErrText: "böse",
		Payload: []byte(`{"a":1}`), Stamp: &Stamp{
			Version: "2", VersionRank: -2, Unknown: true, Gates: []Gate{
				{Kind: GateLimit, KeyName: "tenant", Key: "acme", Max: 2},
				{Kind: GateRate, KeyName: "function:f", Key: "", Interval: Second, Burst: 5},
			},
		},
	}
}

func encoded(records ...Record) []byte {
	w := NewWriter()
	for i := range records {
		w.Record(&records[i])
	}
	return w.Bytes()
}

func decoded(t failer, body []byte) Record {
	t.Helper()
	r := NewReader()
	if err := r.Reset(body); err != nil {
		t.Fatalf("reset: %v", err)
	}
	var rec Record
	if err := r.Record(&rec); err != nil {
		t.Fatalf("record: %v", err)
	}
	if r.More() {
		t.Fatalf("a record leaves something behind")
	}
	return rec
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Fails when a field of Fields isn't written: a new one has no bit, say. Each is
// tried alone and all together, in every kind of record and input.
func TestCodecHoldsEveryFieldOfEveryKind(t *testing.T) {
	whole := full()
	v := reflect.ValueOf(whole)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if v.Field(i).IsZero() {
			if name != "Claim" {
				t.Errorf("%s isn't set in full()", name)
			}
			continue
		}
		var alone Fields
		reflect.ValueOf(&alone).Elem().Field(i).Set(v.Field(i))
		if diff := cmp.Diff(alone, decoded(t, encoded(Record{Kind: RecAdmitted, Fields: alone})).Fields); diff != "" {
			t.Errorf("%s alone (-want +got):\n%s", name, diff)
		}
	}
	for _, k := range recordKinds() {
		want := Record{Kind: k, Fields: whole}
		if diff := cmp.Diff(want, decoded(t, encoded(want))); diff != "" {
			t.Errorf("%v (-want +got):\n%s", k, diff)
		}
	}
	for _, k := range inputKinds() {
		want := Input{Kind: k, Fields: whole}
		w, r := NewWriter(), NewReader()
		w.Input(&want)
		var got Input
		if err := errors.Join(r.Reset(w.Bytes()), r.Input(&got)); err != nil {
			t.Fatalf("%v: %v", k, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", k, diff)
		}
	}
}

// drawFields draws fields of which any may be zero.
func drawFields(t *rapid.T) Fields {
	num := func(name string) int64 { return rapid.OneOf(rapid.Just(int64(0)), rapid.Int64()).Draw(t, name) }
	text := func(name string) string { return rapid.StringN(0, 6, 300).Draw(t, name) }
	f := Fields{
		Order: Instant(num("order")), Fence: uint64(num("fence")), Until: Instant(num("until")),
		Before: Instant(num("before")), After: Instant(num("after")), Interval: Span(num("interval")), Burst: num("burst"),
		Lease: Span(num("lease")), Backoff: Span(num("backoff")), Attempts: num("attempts"),
		Shard: rapid.Uint16().Draw(t, "shard"), Number: uint64(num("number")), Flags: Flags(rapid.Uint32().Draw(t, "flags")),
		Workflow: text("workflow"), Version: text("version"), Worker: text("worker"), Trigger: text("trigger"),
		IdempotencyKey: text("key"), RequestID: text("request"), Reason: text("reason"), ErrType: text("type"), ErrText: text("text"),
		Visit: num("visit"), Cost: num("cost"), Status: Status(rapid.IntRange(0, int(StatusContinued)).Draw(t, "status")),
		Name: text("name"), Origin: text("origin"),
	}
	for name, id := range map[string]*RunID{"run": &f.Run, "other": &f.Other, "root": &f.Root, "parent": &f.Parent} {
		copy(id[:], rapid.SliceOfN(rapid.Byte(), 0, 16).Draw(t, name))
	}
	if rapid.Bool().Draw(t, "keyed") {
		f.Key = KeyID{Workflow: text("key workflow"), Value: text("key value"), Kind: KeyKind(rapid.IntRange(0, 1).Draw(t, "kind"))}
		f.Peer = KeyID{Workflow: f.Key.Workflow, Value: text("peer value")}
	}
	for name, to := range map[string]*[]byte{"payload": &f.Payload, "extra": &f.Extra} {
		if b := rapid.SliceOfN(rapid.Byte(), 0, 1000).Draw(t, name); len(b) > 0 {
			*to = b
		}
	}
	if rapid.Bool().Draw(t, "stamped") {
		f.Stamp = &Stamp{Version: text("stamp version"), VersionRank: num("rank"), Unknown: rapid.Bool().Draw(t, "unknown")}
		for range rapid.IntRange(0, 2).Draw(t, "gates") {
			f.Stamp.Gates = append(f.Stamp.Gates, Gate{
				Kind: GateKind(rapid.IntRange(1, 2).Draw(t, "gate")), KeyName: text("key name"), Key: text("gate key"),
				Max: num("max"), Interval: Span(num("gate interval")), Burst: num("gate burst"),
			})
		}
	}
	return f
}

// Fails when records don't come back in order and whole from one body, through one
// Writer and one Reader that are reused, or from a foreign encoder.
func TestCodecRoundTrip(t *testing.T) {
	w, r := NewWriter(), NewReader()
	rapid.Check(t, func(t *rapid.T) {
		var want []Record
		w.Reset()
		for range rapid.IntRange(1, 4).Draw(t, "records") {
			rec := Record{Kind: rapid.SampledFrom(recordKinds()).Draw(t, "kind"), Fields: drawFields(t)}
			w.Record(&rec)
			want = append(want, rec)
		}
		body := w.Bytes()
		if err := r.Reset(body); err != nil || len(body) != w.Len() {
			t.Fatalf("reset: %v; %d bytes, length %d", err, len(body), w.Len())
		}
		for i := range want {
			var got, foreign Record
			if err := r.Record(&got); err != nil || r.More() != (i+1 < len(want)) {
				t.Fatalf("record %d: error %v, more %t", i, err, r.More())
			}
			if diff := cmp.Diff(want[i], got); diff != "" {
				t.Fatalf("record %d (-want +got):\n%s", i, diff)
			}
			b, err := msgpack.Marshal(&want[i])
			if err == nil {
				err = msgpack.Unmarshal(b, &foreign)
			}
			if diff := cmp.Diff(want[i], foreign); err != nil || diff != "" {
				t.Fatalf("record %d, foreign: error %v (-want +got):\n%s", i, err, diff)
			}
		}
	})
}

// Fails when a record of a body that was cut back is still there, or an earlier one
// isn't: the host drops what a refused message has written.
func TestWriterTruncate(t *testing.T) {
	w := NewWriter()
	w.Record(&Record{Kind: RecWoken, Fields: full()})
	n := w.Len()
	w.Record(&Record{Kind: RecExpired, Fields: full()})
	w.Truncate(n)
	if got := decoded(t, w.Bytes()); got.Kind != RecWoken {
		t.Errorf("left is %v", got.Kind)
	}
	b := w.Bytes()
	w.Reset()
	if w.Record(&Record{Kind: RecExpired}); decoded(t, b).Kind != RecWoken {
		t.Error("a body changed with its Writer")
	}
}

// Fails when today's formats changed: give them a new version, and keep these files.
func TestCodecFormat1(t *testing.T) {
	small := Fields{Run: RunID{1, 15: 2}, Fence: 1 << 24}
	var b strings.Builder
	line := func(name string, body []byte) { b.WriteString(name + " " + hex.EncodeToString(body) + "\n") }
	for _, k := range recordKinds() {
		line("record "+k.String(), encoded(Record{Kind: k, Fields: small}))
	}
	line("record full", encoded(Record{Kind: RecSubmitted, Fields: early()}))
	line("record late", encoded(Record{Kind: RecSubmitted, Fields: full()}))
	line("records two", encoded(Record{Kind: RecExpired, Fields: small}, Record{Kind: RecWoken, Fields: small}))
	for _, k := range inputKinds() {
		w := NewWriter()
		w.Input(&Input{Kind: k, Fields: small})
		line("input "+k.String(), w.Bytes())
	}
	w := NewWriter()
	w.Definition(sampleDefinition())
	line("definition", w.Bytes())
	for _, name := range []string{"collect", "debounce"} {
		w := NewWriter()
		w.Definition(triggeredDefinition(triggers()[name]))
		line("definition "+name, w.Bytes())
	}
	line("luggage", sampleLuggage().Encode())
	line("run ids", EncodeRunIDs([]RunID{{1, 15: 2}, {3}}))
	const golden = "testdata/codec.1.golden"
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
		t.Errorf("bytes (-want +got):\n%s", diff)
	}
}

// record1 is one record by hand: [kind, version, mask, ...].
func record1(parts ...byte) []byte {
	return append([]byte{entryVersion, 0x90 | byte(len(parts))}, parts...)
}

// mask1 is the start of a record with one field, of that bit.
func mask1(bit int) []byte {
	return binary.BigEndian.AppendUint64([]byte{entryVersion, 0x94, 7, codecVersion, 0xCF}, 1<<bit)
}

// Fails when what this build doesn't know is read anyway, or the error doesn't say
// what it found.
func TestCodecRefusesWhatItDoesNotKnow(t *testing.T) {
	for name, c := range map[string]struct {
		body []byte
		say  string
	}{
		"empty body":      {nil, "the body is empty"},
		"newer entry":     {[]byte{entryVersion + 1, 0x93, 7, 1, 0}, "format 2, this build knows 1"},
		"older entry":     {[]byte{0, 0x93, 7, 1, 0}, "format 0, this build knows 1"},
		"newer record":    {record1(7, codecVersion+1, 0), "version 2, this build knows 1"},
		"unknown kind":    {record1(31, 1, 0), "record kind 31 is unknown"},
		"kind 0":          {record1(0, 1, 0), "record kind 0 is unknown"},
		"volatile kind":   {append([]byte{entryVersion, 0x93, 0xCC, 128}, 1, 0), "record kind 128 is unknown"},
		"kind too large":  {append([]byte{entryVersion, 0x93, 0xCD, 1, 0}, 1, 0), "256 where 0 to 255 is legal"},
		"negative kind":   {record1(0xFF, 1, 0), "-1 where 0 to 255 is legal"},
		"unknown field":   {append(mask1(bitExtra+1), 1), "fields that this build doesn't know"},
		"negative mask":   {record1(7, 1, 0xFF), "fields that this build doesn't know"},
		"field too many":  {record1(7, 1, 0, 5), "1 fields too many"},
		"field too few":   {append(record1(7, 1, 0x08), 5), "-1 fields too many"},
		"not an array":    {[]byte{entryVersion, 7}, "decoding array"},
		"short id":        {append([]byte{entryVersion, 0x94, 7, 1, 1}, 0xC4, 2, 1, 2), "2 bytes where 16 are legal"},
		"long id":         {append([]byte{entryVersion, 0x94, 7, 1, 1, 0xC4, 17}, make([]byte, 17)...), "17 bytes are announced where at most 16 may come"},
		"shard too large": {[]byte{entryVersion, 0x94, 7, 1, 0xCD, 0x20, 0, 0xCE, 0, 1, 0, 0}, "65536 where 0 to 65535 is legal"},
		"three gates":     {append([]byte("\x01\x94\x01\x01\xce\x04\x00\x00\x00\x94\xa0\x00\xc2\x93"), bytes.Repeat([]byte("\x96\x01\xa0\xa0\x01\x01\x01"), 3)...), "an array of 3"},
		"no such status":  {append(mask1(bitStatus), byte(StatusContinued)+1), "9 where 0 to 8 is legal"},
		"negative status": {append(mask1(bitStatus), 0xFF), "-1 where 0 to 8 is legal"},
		"short parent":    {append(mask1(bitParent), 0xC4, 2, 1, 2), "2 bytes where 16 are legal"},
		"negative flags":  {[]byte{entryVersion, 0x94, 7, 1, 0xCD, 0x80, 0, 0xFF}, "-1 where 0 to 4294967295 is legal"},
	} {
		r := NewReader()
		err := r.Reset(c.body)
		var rec Record
		if err == nil {
			err = r.Record(&rec)
		}
		if !errors.Is(err, ErrCodec) || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: error %v, want %q", name, err, c.say)
		}
	}
	var in Input
	r := NewReader()
	if err := errors.Join(r.Reset(record1(31, 1, 0)), r.Input(&in)); !errors.Is(err, ErrCodec) || !strings.Contains(err.Error(), "input kind 31 is unknown") {
		t.Errorf("an unknown input: error %v", err)
	}
}

// Fails when a cut or altered record panics or is refused with an error of no
// family, or a cut one is read.
func TestCodecDamageIsRefused(t *testing.T) {
	body := encoded(Record{Kind: RecSubmitted, Fields: full()})
	r := NewReader()
	for n := 1; n < len(body); n++ {
		var rec Record
		if err := errors.Join(r.Reset(body[:n]), r.Record(&rec)); !errors.Is(err, ErrCodec) {
			t.Fatalf("cut at %d: error %v", n, err)
		}
		for bit := range 8 {
			bad := bytes.Clone(body)
			bad[n] ^= 1 << bit
			if err := errors.Join(r.Reset(bad), r.Record(&rec)); err != nil && !errors.Is(err, ErrCodec) {
				t.Fatalf("bit %d of byte %d altered: error %v", bit, n, err)
			}
		}
	}
}

// Fails when a length that is only claimed is allocated, by a Reader or out of a
// foreign decoder.
func TestCodecClaimsAllocateLittle(t *testing.T) {
	const gib, big = "\x40\x00\x00\x00", "\x00\x1f\xff\xff" // 1 GiB, and just under MaxRecordBytes
	for name, body := range map[string]string{
		"text": "\x94\x07\x01\xce\x00\x01\x00\x00\xdb" + gib, "payload": "\x94\x07\x01\xce\x02\x00\x00\x00\xc6" + gib,
		"array": "\xdd" + gib, "id": "\x94\x07\x01\x01\xc6" + gib, "key": "\x94\x07\x01\x02\x93\xdb" + gib,
		"gates": "\x94\x07\x01\xce\x04\x00\x00\x00\x94\xa0\x00\xc2\xdd" + gib, "large payload": "\x94\x07\x01\xce\x02\x00\x00\x00\xc6" + big,
		"extra": string(mask1(bitExtra)[1:]) + "\xc6" + gib, "name": string(mask1(bitName)[1:]) + "\xdb" + gib,
		"large extra": string(mask1(bitExtra)[1:]) + "\xc6" + big,
	} {
		read := func(f func() error) uint64 {
			t.Helper()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if err := f(); !errors.Is(err, ErrCodec) {
				t.Errorf("%s: error %v", name, err)
			}
			runtime.ReadMemStats(&after)
			return after.TotalAlloc - before.TotalAlloc
		}
		r := NewReader()
		var rec Record
		if n := read(func() error { return errors.Join(r.Reset([]byte("\x01"+body)), r.Record(&rec)) }); n > 64<<10 {
			t.Errorf("%s: a Reader allocates %d bytes", name, n)
		}
		dec := msgpack.NewDecoder(strings.NewReader(body))
		if n := read(func() error { return rec.DecodeMsgpack(dec) }); n > 2*MaxRecordBytes {
			t.Errorf("%s: out of a foreign decoder it allocates %d bytes", name, n)
		}
	}
}

// Fails when encoding a record costs memory.
func TestCodecEncodesWithoutAllocating(t *testing.T) {
	w := NewWriter()
	for _, f := range []Fields{full(), {Run: RunID{1}, Fence: 2}, {}} {
		rec, in := Record{Kind: RecSubmitted, Fields: f}, Input{Kind: InSubmit, Fields: f}
		write := func() {
			w.Reset()
			w.Record(&rec)
			w.Input(&in)
		}
		write() // makes room
		if n := testing.AllocsPerRun(100, write); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

// Fails when two records of one workflow keep two copies of its name, its version
// or its worker (R23).
func TestR23ReaderSharesTexts(t *testing.T) {
	rec := Record{Kind: RecSubmitted, Fields: full()}
	r := NewReader()
	if err := r.Reset(encoded(rec, rec)); err != nil {
		t.Fatal(err)
	}
	var a, b Record
	if err := errors.Join(r.Record(&a), r.Record(&b)); err != nil {
		t.Fatal(err)
	}
	for name, texts := range map[string][2]string{
		"workflow": {a.Workflow, b.Workflow}, "version": {a.Version, b.Version}, "worker": {a.Worker, b.Worker},
		"name": {a.Name, b.Name}, "origin": {a.Origin, b.Origin},
		"trigger": {a.Trigger, b.Trigger}, "key's workflow": {a.Key.Workflow, b.Key.Workflow},
	} {
		if unsafe.StringData(texts[0]) != unsafe.StringData(texts[1]) {
			t.Errorf("%s is kept twice", name)
		}
	}
}
