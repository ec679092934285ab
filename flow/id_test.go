package flow

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

func drawID(t *rapid.T) (id RunID, now Instant, p Partition) {
	now = Instant(rapid.Int64Range(0, int64(MaxInstant)).Draw(t, "now"))
	p = Partition(rapid.Uint16Range(0, Partitions-1).Draw(t, "partition"))
	var e Entropy
	copy(e[:], rapid.SliceOfN(rapid.Byte(), len(e), len(e)).Draw(t, "entropy"))
	return NewRunID(now, p, e), now, p
}

// Fails when an id loses its partition or its time, isn't a UUIDv7, or doesn't
// come back from its text.
func TestP14RunIDCarriesItsPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, now, p := drawID(t)
		if id.Partition() != p {
			t.Fatalf("partition %d, want %d", id.Partition(), p)
		}
		if u := uuid.UUID(id); u.Version() != 7 || u.Variant() != uuid.RFC4122 {
			t.Fatalf("%v has version %v and variant %v", u, u.Version(), u.Variant())
		}
		ms := int64(id[0])<<40 | int64(id[1])<<32 | int64(id[2])<<24 | int64(id[3])<<16 | int64(id[4])<<8 | int64(id[5])
		if ms != now.Millis() {
			t.Fatalf("time %d, want %d", ms, now.Millis())
		}
		got, err := ParseRunID(id.String())
		if err != nil || got != id {
			t.Fatalf("%v came back as %v, error %v", id, got, err)
		}
		if got, err := ParseRunID("run_" + strings.ToLower(id.String()[4:])); err != nil || got != id {
			t.Fatalf("%v in lower case came back as %v, error %v", id, got, err)
		}
	})
}

// Fails when the text of an id and Compare order ids in two ways, or not by time.
func TestP14RunIDOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, at, _ := drawID(t)
		b, bt, _ := drawID(t)
		c := a.Compare(b)
		if c != bytes.Compare(a[:], b[:]) || c != cmp.Compare(a.String(), b.String()) || c != -b.Compare(a) {
			t.Fatalf("%v and %v: Compare %d", a, b, c)
		}
		if at.Millis() < bt.Millis() && c >= 0 {
			t.Fatalf("%v is of %d, %v of %d: Compare %d", a, at, b, bt, c)
		}
	})
}

// Fails when the text of a known id changes: texts are kept by callers for ever.
func TestP14RunIDText(t *testing.T) {
	id := NewRunID(1_796_000_000_000*Instant(Millisecond), 1023, Entropy{1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
	for want, id := range map[string]RunID{
		"run_00000000000000000000000000": {},
		"run_7ZZZZZZZZZZZZZZZZZZZZZZZZZ": RunID(bytes.Repeat([]byte{0xFF}, 16)),
		"run_00000000000000000000000001": {15: 1},
		"run_40000000000000000000000000": {0: 0x80},
		"run_01M8MZ2A00FZYR61050R3GG28A": id,
	} {
		if got := id.String(); got != want {
			t.Errorf("text %q, want %q", got, want)
		}
	}
}

// Fails when a text that is no run id is taken for one.
func TestParseRunIDRefuses(t *testing.T) {
	good := RunID{15: 1}.String()
	for name, s := range map[string]string{
		"empty": "", "prefix alone": "run_", "short": good[:len(good)-1], "long": good + "0",
		"other prefix": "job_" + good[4:], "upper prefix": "RUN_" + good[4:], "no prefix": good[4:] + "0000",
		"too large": "run_8" + strings.Repeat("0", 25), "I": "run_" + strings.Repeat("0", 25) + "I",
		"L": "run_" + strings.Repeat("0", 25) + "l", "O": "run_" + strings.Repeat("0", 25) + "O",
		"U": "run_" + strings.Repeat("0", 25) + "u", "space": "run_ " + strings.Repeat("0", 25),
		"NUL": "run_" + strings.Repeat("0", 25) + "\x00", "not ASCII": "run_" + strings.Repeat("0", 24) + "é",
		"very long": strings.Repeat("x", 1<<20),
	} {
		id, err := ParseRunID(s)
		if !errors.Is(err, ErrBadRunID) || !id.IsZero() {
			t.Errorf("%s: %v, error %v", name, id, err)
		}
		if err != nil && len(err.Error()) > 512 {
			t.Errorf("%s: the error has %d bytes", name, len(err.Error()))
		}
	}
}

// Fails when an id isn't its text in JSON, or a bad text changes the id it is read
// into.
func TestRunIDInJSON(t *testing.T) {
	id := RunID{3, 15: 9}
	b, err := json.Marshal(id)
	if err != nil || string(b) != strconv.Quote(id.String()) {
		t.Fatalf("JSON %s, error %v", b, err)
	}
	var got RunID
	if err := json.Unmarshal(b, &got); err != nil || got != id {
		t.Fatalf("came back as %v, error %v", got, err)
	}
	if err := json.Unmarshal([]byte(`"run_x"`), &got); !errors.Is(err, ErrBadRunID) || got != id {
		t.Fatalf("after a bad text it is %v, error %v", got, err)
	}
}

// Fails when a key's partition changes: runs lie where their partition was.
func TestP14PartitionsAreFixedForEver(t *testing.T) {
	for _, c := range []struct {
		key  KeyID
		want Partition
	}{
		{KeyID{}, 317},
		{KeyID{Workflow: "sync_account", Value: "acme"}, 880},
		{KeyID{Workflow: "a", Value: "bc"}, 896},
		{KeyID{Workflow: "ab", Value: "c"}, 681},
		{KeyID{Workflow: "w", Value: strings.Repeat("k", MaxKeyBytes)}, 628},
	} {
		if got := c.key.Partition(); got != c.want {
			t.Errorf("%v is in partition %d, want %d", c.key, got, c.want)
		}
	}
	if got := TextPartition("order-1"); got != 118 {
		t.Errorf("an idempotency key is in partition %d, want 118", got)
	}
}

// Fails when keys crowd in some partitions: each has 0.5 to 1.6 of its share.
func TestP14PartitionsShareTheKeys(t *testing.T) {
	var count [Partitions]int
	const share = 100
	for i := range Partitions * share {
		count[KeyID{Workflow: "sync", Value: strconv.Itoa(i)}.Partition()]++
	}
	for p, n := range count {
		if n < share/2 || n > share*16/10 {
			t.Errorf("partition %d has %d keys of a share of %d", p, n, share)
		}
	}
}

// FuzzParseRunID holds that whatever is taken is the text of what came out.
func FuzzParseRunID(f *testing.F) {
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseRunID(s)
		if err != nil {
			if !errors.Is(err, ErrBadRunID) || !id.IsZero() {
				t.Fatalf("%q: %v, error %v", s, id, err)
			}
			return
		}
		if want := "run_" + strings.ToUpper(s[4:]); id.String() != want {
			t.Fatalf("%q is %v", s, id)
		}
		if p := id.Partition(); p >= Partitions {
			t.Fatalf("%q is in partition %d", s, p)
		}
	})
}
