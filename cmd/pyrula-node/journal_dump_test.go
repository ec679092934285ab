package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/persistence"
)

var updateDump = flag.Bool("update-dump", false, "write testdata/journal_dump.golden anew")

// volatile is what differs from one telling of the story to the next: times, places,
// and in which shard a run without a gate lives.
var volatile = regexp.MustCompile(`"(frame|seq|shard|other_shard|fence|number)":\d+|"\d{4}-\d\d-\d\dT[\d:.]+Z"`)

// settled is a dump without what is volatile, in an order that isn't.
func settled(data string, runs map[string]string) []string {
	for name, id := range runs {
		data = strings.ReplaceAll(data, id, "run_"+name)
	}
	data = volatile.ReplaceAllStringFunc(data, func(hit string) string {
		if name, _, ok := strings.Cut(hit, ":"); ok && !strings.HasPrefix(hit, `"2`) {
			return name + `:0`
		}
		return `"TIME"`
	})
	lines := strings.Split(strings.TrimRight(data, "\n"), "\n")
	slices.Sort(lines)
	return lines
}

// TestJournalDumpTellsTheStory fails when a dump leaves a record or a field out, or
// names one differently than before.
func TestJournalDumpTellsTheStory(t *testing.T) {
	s := tell(t)
	code, data, talk := tool(t, "journal", "dump", "--data", s.dir)
	if code != exitOK || talk != "" {
		t.Fatalf("it ends with %d: %s", code, talk)
	}
	got := strings.Join(settled(data, s.runs), "\n") + "\n"
	name := filepath.Join("testdata", "journal_dump.golden")
	if *updateDump {
		if err := os.WriteFile(name, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
	frame, seqs := uint64(1), map[string]uint64{}
	for line := range strings.Lines(data) {
		at := gjson.Parse(line)
		if n := at.Get("frame").Uint(); n < frame {
			t.Errorf("frame %d comes behind %d", n, frame)
		} else {
			frame = n
		}
		shard, seq := at.Get("shard").Raw, at.Get("seq").Uint()
		if shard != "" && seq != seqs[shard] && seq != seqs[shard]+1 {
			t.Errorf("shard %s: entry %d comes behind %d", shard, seq, seqs[shard])
		}
		seqs[shard] = seq
	}
}

// TestJournalDumpPicks fails when a flag lets through what it shouldn't, or holds back
// what is asked for.
func TestJournalDumpPicks(t *testing.T) {
	s := tell(t)
	dump := func(more ...string) []gjson.Result {
		t.Helper()
		code, data, talk := tool(t, append([]string{"journal", "dump", "--data", s.dir}, more...)...)
		if code != exitOK {
			t.Fatalf("%v ends with %d: %s", more, code, talk)
		}
		return gjson.Parse("[" + strings.ReplaceAll(strings.TrimSpace(data), "\n", ",") + "]").Array()
	}
	all := dump()
	picked := func(want func(gjson.Result) bool, more ...string) {
		t.Helper()
		var expected, got []string
		for _, line := range all {
			if want(line) {
				expected = append(expected, line.Raw)
			}
		}
		for _, line := range dump(more...) {
			got = append(got, line.Raw)
		}
		if len(expected) == 0 || !slices.Equal(got, expected) {
			t.Errorf("%v: %s", more, cmp.Diff(expected, got))
		}
	}
	home := ""
	for _, line := range all {
		if line.Get("kind").String() == "admitted" && line.Get("run").String() == s.runs["paid"] {
			home = line.Get("shard").Raw
		}
	}
	frame := all[len(all)-4].Get("frame")
	about := func(line gjson.Result, names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			return line.Get("run").String() == s.runs[name] || line.Get("letter.run").String() == s.runs[name]
		})
	}
	ofMail := func(line gjson.Result) bool {
		return about(line, "late", "broken", "stopped", "dropped", "asleep", "ended") || line.Get("workflow").String() == "mail"
	}
	picked(func(line gjson.Result) bool { return line.Get("shard").Raw == home }, "--shard", home)
	picked(func(line gjson.Result) bool { return about(line, "paid") }, "--run", s.runs["paid"])
	picked(func(line gjson.Result) bool { return line.Get("frame").Uint() >= frame.Uint() }, "--from", frame.Raw)
	picked(ofMail, "--workflow", "mail")
	picked(func(line gjson.Result) bool { return ofMail(line) && line.Get("frame").Uint() >= frame.Uint() },
		"--workflow", "mail", "--from", frame.Raw)

	for _, more := range [][]string{{"--run", flow.RunID{1}.String()}, {"--workflow", "none"}, {"--from", "9999"}} {
		code, data, talk := tool(t, append([]string{"journal", "dump", "--data", s.dir}, more...)...)
		if code != exitOK || data != "" || !strings.Contains(talk, ": no record in frames 1 to ") {
			t.Errorf("%v ends with %d: %s%s", more, code, data, talk)
		}
	}
	for _, c := range []struct{ flag, value, want string }{
		{"--shard", "16", "the directory has shards 0 to 15"}, {"--run", "run_1", `"run_1" is not a run id`}, {"--from", "x", `--from "x"`},
	} {
		if code, _, talk := tool(t, "journal", "dump", "--data", s.dir, c.flag, c.value); code != exitUsage || !strings.Contains(talk, c.want) {
			t.Errorf("%s %s ends with %d: %s", c.flag, c.value, code, talk)
		}
	}
}

// TestJournalDumpShowsEveryField fails when a field of records can't be seen in a dump.
func TestJournalDumpShowsEveryField(t *testing.T) {
	plain := shown(t, &flow.Record{Kind: flow.RecWoken})
	fields := reflect.TypeFor[flow.Fields]()
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		if name == "Claim" { // it is never in a record
			continue
		}
		rec := flow.Record{Kind: flow.RecWoken}
		switch f := reflect.ValueOf(&rec.Fields).Elem().Field(i).Addr().Interface().(type) {
		case *flow.RunID:
			f[0] = 1
		case *flow.KeyID:
			f.Workflow = "w"
		case **flow.Stamp:
			*f = &flow.Stamp{}
		case *[]byte:
			*f = []byte("1")
		case *string:
			*f = "x"
		default:
			if v := reflect.ValueOf(f).Elem(); v.CanInt() {
				v.SetInt(1)
			} else {
				v.SetUint(1)
			}
		}
		if shown(t, &rec) == plain {
			t.Errorf("%s isn't shown", name)
		}
	}
	all := flow.FlagRetryable | flow.FlagToken | flow.FlagOK | flow.FlagCancel | flow.FlagRepeat |
		flow.FlagForfeited | flow.FlagDropped | flow.FlagAbsolute | flow.FlagStarted | flow.FlagCredit |
		flow.FlagSignal | flow.FlagRuns | flow.FlagRecorded | flow.FlagPosted | flow.FlagChild | flow.FlagDebounce
	if got := len(flagNames(all)); got != len(flagWords) || all != 1<<len(flagWords)-1 {
		t.Errorf("there are %d words for flags, and %d flags", len(flagWords), got)
	}
	for flag, word := range map[flow.Flags]string{
		flow.FlagToken: "token", flow.FlagForfeited: "forfeited", flow.FlagDropped: "dropped", flow.FlagAbsolute: "absolute",
	} {
		if got := flagNames(flag); !slices.Equal(got, []string{word}) {
			t.Errorf("flag %b is shown as %v, want %s", flag, got, word)
		}
	}
	if got := shown(t, &flow.Record{Kind: flow.RecReceived, Fields: flow.Fields{Number: 2}}); got != `{"other_shard":0,"number":2}` {
		t.Errorf("a letter of shard 0 is shown as %s", got)
	}
	if got := string(payload([]byte{'"', 0xFF, '"'})); got != `{"hex":"22ff22"}` {
		t.Errorf("what isn't JSON is shown as %s", got)
	}
}

// TestJournalDumpShowsLists fails when the list that a record carries is shown as bytes.
func TestJournalDumpShowsLists(t *testing.T) {
	ids := []flow.RunID{{1}, {2}}
	luggage := flow.Luggage{Last: 3, Signals: []flow.Signal{{Number: 2, Name: "go", Payload: []byte("{}")}}, Waiters: []flow.Waiter{{Waits: ids[0], Asked: ids[1], Number: 4}}}
	names := strings.NewReplacer("A", ids[0].String(), "B", ids[1].String())
	for want, rec := range map[string]flow.Record{
		`{"runs":["A","B"]}`: {Kind: flow.RecStarted, Fields: flow.Fields{Extra: flow.EncodeRunIDs(ids)}},
		`{"flags":["runs"],"name":"both","runs":["A","B"]}`: {Kind: flow.RecSuspended, Fields: flow.Fields{Name: "both", Flags: flow.FlagRuns, Extra: flow.EncodeRunIDs(ids)}},
		`{"other":"A","luggage":{"signals":[{"number":2,"name":"go","bytes":2}],"last":3,"waiters":[{"waits":"A","asked":"B","number":4}]}}`: {
			Kind: flow.RecSubmitted, Fields: flow.Fields{Other: ids[0], Extra: luggage.Encode()},
		},
		`{"result":[1],"name":"s","visit":2,"cost":3}`: {Kind: flow.RecStep, Fields: flow.Fields{Name: "s", Visit: 2, Cost: 3, Payload: []byte("[1]")}},
	} {
		if got := shown(t, &rec); got != names.Replace(want) {
			t.Errorf("%v is shown as %s, want %s", rec.Kind, got, names.Replace(want))
		}
	}
	broken := flow.Record{Kind: flow.RecSubmitted, Fields: flow.Fields{Extra: []byte{1}}}
	if _, err := recordView(&broken); err == nil {
		t.Error("luggage that can't be read is no fault")
	}
}

func shown(t *testing.T, rec *flow.Record) string {
	t.Helper()
	view, err := recordView(rec)
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(view)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// entryOf is the body of an entry of the given pieces.
func entryOf(t testing.TB, pieces ...any) []byte {
	t.Helper()
	out := bytes.NewBuffer([]byte{1})
	enc := msgpack.NewEncoder(out)
	enc.UseCompactInts(true)
	for _, piece := range pieces {
		if err := enc.Encode(piece); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// TestJournalToolsShowWhatTheyDoNotKnow fails when a record of another build hides its
// neighbours, isn't shown with its bytes, or is passed over without an error.
func TestJournalToolsShowWhatTheyDoNotKnow(t *testing.T) {
	promoted, unknown, newer := []any{64, 1, 16, 7}, []any{99, 1, 0}, []any{7, 2, 0}
	dir := crafted(t, entryOf(t, promoted, unknown, newer, promoted), []byte{9, 1}, entryOf(t, promoted, 5))
	code, data, talk := tool(t, "journal", "dump", "--data", dir, "--shard", "1")
	if code != exitOther || !strings.Contains(talk, "4 records are not known to this build") {
		t.Errorf("dump ends with %d: %s", code, talk)
	}
	raw := func(piece []any) string { return hex.EncodeToString(entryOf(t, piece)[1:]) }
	want := []string{"promoted ", "kind(99) " + raw(unknown), "woken " + raw(newer), "promoted ", "unknown 0901", "promoted ", "unknown 05"}
	var got []string
	for line := range strings.Lines(data) {
		got = append(got, gjson.Get(line, "kind").String()+" "+gjson.Get(line, "raw").String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%s", diff, data)
	}
	if code, _, talk := tool(t, "journal", "verify", "--data", dir); code != exitOther ||
		!strings.Contains(talk, "is damaged at offset ") || !strings.Contains(talk, "shard 1 entry 1 of epoch 1") || !strings.Contains(talk, "record kind 99") {
		t.Errorf("verify ends with %d: %s", code, talk)
	}
	code, data, talk = tool(t, "journal", "stat", "--data", dir, "-o", "json")
	if st := gjson.Parse(data); code != exitOK || st.Get("unknown_entries").Int() != 3 || st.Get("records_by_kind.promoted").Int() != 2 {
		t.Errorf("stat ends with %d: %s%s", code, data, talk)
	}
}

// FuzzJournalDumpEntry fails when an entry of any bytes makes the dump panic, or print
// what isn't one JSON object a line.
func FuzzJournalDumpEntry(f *testing.F) {
	f.Add(entryOf(f, []any{64, 1, 16, 7}))
	f.Add(entryOf(f, []any{99, 1, 0}, []any{1, 1, 1 << 25, []byte("{}")}))
	f.Add(entryOf(f, []any{65, 1, 1 << 25, []byte{1, 0x93, 1, 1, 0}}))
	f.Add(append([]byte{1}, bytes.Repeat([]byte{0x91}, 1000)...))
	f.Add([]byte{1, 0xDD, 0xFF, 0xFF, 0xFF, 0xFF})
	f.Fuzz(func(t *testing.T, data []byte) {
		var out bytes.Buffer
		w := &dumpWriter{pick: selection{shard: -1}, entries: newEntryReader(), enc: json.NewEncoder(&out), ours: map[flow.RunID]bool{}}
		if err := w.entry(&persistence.FrameInfo{Index: 1}, &persistence.ItemInfo{Kind: entryKind, Body: data}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%q", line)
			}
		}
	})
}

// TestJournalDumpDeepBody fails when a body can end the process by its depth.
func TestJournalDumpDeepBody(t *testing.T) {
	const levels = 128 << 10 // a body of the largest size can have sixteen times as many
	defer debug.SetMaxStack(debug.SetMaxStack(8 << 20))
	deep := append([]byte{1}, bytes.Repeat([]byte{0x91}, levels)...)
	if pieces, rest := split(append(deep, 0)); len(pieces) != 1 || len(rest) != 0 {
		t.Errorf("%d pieces, %d bytes left", len(pieces), len(rest))
	}
	if pieces, rest := split(deep); len(pieces) != 0 || len(rest) != levels {
		t.Errorf("%d pieces, %d bytes left", len(pieces), len(rest))
	}
}
