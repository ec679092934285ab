package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/netresearch/go-cron"

	"github.com/pyrula/pyrula-node/flow"
)

// expression is a cron expression that was made from its sets: what it means is known
// without reading it.
type expression struct {
	sets [5][]int // nil for all
}

var fieldBounds = [5][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}}

// draw makes an expression of a few values in some of its fields. Sparse ones name few
// days.
func draw(rng *rand.Rand) expression {
	var e expression
	for i, b := range fieldBounds {
		all := [5]int{3, 3, 2, 2, 2}[i]
		if rng.IntN(all) == 0 {
			continue
		}
		for range 1 + rng.IntN(4) {
			v := b[0] + rng.IntN(b[1]-b[0]+1)
			if i == 2 && rng.IntN(4) == 0 {
				v = 28 + rng.IntN(2) // every month, or nearly, has it
			}
			if !slices.Contains(e.sets[i], v) {
				e.sets[i] = append(e.sets[i], v)
			}
		}
		if i == 3 && rng.IntN(3) > 0 {
			e.sets[i] = append(e.sets[i], 3, 10) // when most clocks are changed
		}
	}
	return e
}

func (e expression) String() string {
	var fields [5]string
	for i, set := range e.sets {
		var items []string
		for _, v := range set {
			items = append(items, fmt.Sprint(v))
		}
		fields[i] = strings.Join(items, ",")
		if set == nil {
			fields[i] = "*"
		}
	}
	return strings.Join(fields[:], " ")
}

// names says whether a local time, in the fields of a UTC time, is one of the times.
func (e expression) names(t time.Time) bool {
	in := func(i, v int) bool { return e.sets[i] == nil || slices.Contains(e.sets[i], v) }
	if !in(0, t.Minute()) || !in(1, t.Hour()) || !in(3, int(t.Month())) {
		return false
	}
	if e.sets[2] != nil && e.sets[4] != nil {
		return in(2, t.Day()) || in(4, int(t.Weekday()))
	}
	return in(2, t.Day()) && in(4, int(t.Weekday()))
}

// walkMinutes is the dumb model: it walks over the real minutes behind from up to to, looks
// what the clocks show, and remembers how far they have come.
func walkMinutes(e expression, loc *time.Location, from, to time.Time) []time.Time {
	shown := func(at int64) int64 {
		_, offset := time.Unix(at, 0).In(loc).Zone()
		return at + int64(offset)
	}
	names := func(local int64) bool { return e.names(time.Unix(local, 0).UTC()) }
	var all []time.Time
	at := from.Unix() - 3*24*3600
	reached := shown(at)
	for at += 60; at <= to.Unix(); at += 60 {
		fires := false
		if now := shown(at); e.sets[1] == nil {
			fires = names(now)
		} else {
			for reached < now {
				reached += 60
				fires = names(reached) || fires
			}
		}
		if fires && at > from.Unix() {
			all = append(all, time.Unix(at, 0).UTC())
		}
	}
	return all
}

// walkedZones are zones with all kinds of changes; their offsets are whole minutes.
var walkedZones = []string{
	"UTC", "Europe/Sofia", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "America/Santiago",
	"Pacific/Apia", "Africa/Cairo", "Asia/Gaza", "Pacific/Chatham", "America/Nuuk", "Asia/Kathmandu", "Europe/Dublin",
}

// sameAsWalk fails unless Next and Count are what the walk over some weeks finds.
func sameAsWalk(t *testing.T, zone string, e expression, from time.Time, days int) {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	times, err := Parse(cronIn(zone, e.String()), 0, time.LoadLocation)
	if err != nil {
		return // a day that doesn't exist
	}
	to := from.AddDate(0, 0, days)
	want := walkMinutes(e, loc, from, to)
	after, end := flow.Instant(from.UnixNano()), flow.Instant(to.UnixNano())
	begin := after
	for i := 0; ; i++ {
		at, ok := times.Next(after)
		if ok && at <= after {
			t.Fatalf("%s %q: %d comes after %d", zone, e, at, after)
		}
		if i == len(want) {
			if ok && at <= end {
				t.Fatalf("%s %q: %s isn't found by the walk", zone, e, time.Unix(0, int64(at)).UTC())
			}
			break
		}
		if w := flow.Instant(want[i].UnixNano()); !ok || at != w {
			t.Fatalf("%s %q: after %s comes %s, want %s", zone, e, time.Unix(0, int64(after)).UTC(), time.Unix(0, int64(at)).UTC(), want[i])
		}
		after = at
		if mid, ok := times.Next(at - 1); !ok || mid != at {
			t.Fatalf("%s %q: a nanosecond before %s comes %d", zone, e, want[i], mid)
		}
		if i%(len(want)/100+1) > 0 {
			continue // counting costs a look at each day
		}
		if n := times.Count(begin, at); n != int64(i)+1 {
			t.Fatalf("%s %q: %d times are counted until %s, want %d", zone, e, n, want[i], i+1)
		}
	}
	if n := times.Count(begin, end); n != int64(len(want)) {
		t.Fatalf("%s %q: %d times are counted, want %d", zone, e, n, len(want))
	}
	for _, k := range []int{1, 2, 7, len(want)} {
		if 0 < k && k <= len(want) {
			if at, w := times.latest(int64(k), begin, end), want[len(want)-k]; at != flow.Instant(w.UnixNano()) {
				t.Fatalf("%s %q: number %d from the end is %s, want %s", zone, e, k, time.Unix(0, int64(at)).UTC(), w)
			}
		}
	}
}

// Fails when the times of a random expression aren't those that a walk over every minute
// finds, in weeks in which the clocks are changed and in others.
func TestTimesAreThoseOfAWalk(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		zone := walkedZones[rng.IntN(len(walkedZones))]
		from := time.Date(2024+rng.IntN(12), time.January, 1+rng.IntN(330), rng.IntN(24), rng.IntN(60), rng.IntN(60), rng.IntN(2), time.UTC)
		if rng.IntN(2) == 0 {
			from = time.Date(from.Year(), []time.Month{3, 10}[rng.IntN(2)], 1, 0, 0, 0, 0, time.UTC)
		}
		sameAsWalk(t, zone, draw(rng), from.Truncate(time.Minute), 30)
	}
	apia := expression{sets: [5][]int{{0, 30}, {0, 12}, nil, nil, nil}}
	sameAsWalk(t, "Pacific/Apia", apia, time.Date(2011, 12, 20, 0, 0, 0, 0, time.UTC), 20)
}

// Fails when it isn't so over a whole year, which has all changes of its clocks, also in
// the years that no table of zones lists, and in the last days of leap years.
func TestTimesOfAYear(t *testing.T) {
	for year, zone := range map[int]string{2028: "Europe/Sofia", 2063: "America/Santiago"} {
		rng := rand.New(rand.NewPCG(3, uint64(year)))
		e := draw(rng)
		e.sets[2], e.sets[3], e.sets[4] = nil, nil, nil // every day
		sameAsWalk(t, zone, e, time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), 366)
	}
}

// Fails when an expression means something else than to the library that reads it, where
// no clock is ever changed.
func TestTimesAreThoseOfTheLibrary(t *testing.T) {
	parser := cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.DowOrDom)
	rng := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		e := draw(rng)
		times, err := Parse(cronIn("", e.String()), 0, time.LoadLocation)
		if err != nil {
			continue
		}
		other, err := parser.Parse(e.String())
		if err != nil {
			t.Fatal(err)
		}
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for range 30 {
			want := other.Next(at)
			got, ok := times.Next(flow.Instant(at.UnixNano()))
			if want.IsZero() { // it looks 5 years ahead
				break
			}
			if !ok || int64(got) != want.UnixNano() {
				t.Fatalf("%q: after %s comes %s, want %s", e, at, time.Unix(0, int64(got)).UTC(), want)
			}
			at = want
		}
	}
}

// FuzzTimes fails when the times of any expression, anywhere and in any week, aren't those
// that a walk over every minute finds.
func FuzzTimes(f *testing.F) {
	for i := range walkedZones {
		f.Add(uint64(i), uint8(i), int64(i)*1_000_003)
	}
	f.Fuzz(func(t *testing.T, number uint64, zone uint8, minute int64) {
		const years70 = 70 * 365 * 24 * 60
		rng := rand.New(rand.NewPCG(number, 0))
		from := time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(((minute%years70)+years70)%years70) * time.Minute)
		sameAsWalk(t, walkedZones[int(zone)%len(walkedZones)], draw(rng), from, 15)
	})
}
