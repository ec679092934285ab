package schedule

import (
	"errors"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the same zones on every machine

	"github.com/pyrula/pyrula-node/flow"
)

// cronIn is the spec of an expression.
func cronIn(zone, cron string) Spec { return Spec{Cron: cron, Zone: zone} }

func mustParse(t testing.TB, s Spec) *Times {
	t.Helper()
	times, err := Parse(s, 0, time.LoadLocation)
	if err != nil {
		t.Fatalf("%+v: %v", s, err)
	}
	return times
}

// Fails when a spec that can't be right is taken, or refused under another field.
func TestRefusedSpecs(t *testing.T) {
	cases := []struct {
		spec  Spec
		field string
		says  string
	}{
		{Spec{}, "cron", "exactly one"},
		{Spec{Cron: "* * * * *", Every: flow.Second}, "cron", "exactly one"},
		{Spec{Every: flow.Second, At: 1}, "cron", "exactly one"},
		{Spec{Every: flow.Second, Zone: "UTC"}, "time_zone", "cron"},
		{Spec{At: 1, Zone: "UTC"}, "time_zone", "cron"},
		{Spec{Cron: "* * * * *", Start: 1}, "start_ms", "every_seconds"},
		{Spec{At: 1, Start: 1}, "start_ms", "every_seconds"},
		{Spec{Every: MinEvery - 1}, "every_seconds", "from 0.1 to"},
		{Spec{Every: MaxEvery + 1}, "every_seconds", "from 0.1 to"},
		{Spec{Every: -1}, "every_seconds", "from 0.1 to"},
		{Spec{Every: flow.Second, Start: -1}, "start_ms", "from 0"},
		{Spec{Every: flow.Second, Start: lastInstant + 1}, "start_ms", "2262"},
		{Spec{At: -1}, "at_ms", "from 0"},
		{Spec{At: flow.MaxInstant}, "at_ms", "2262"},

		{cronIn("", "* * * *"), "cron", "five fields"},
		{cronIn("", "0 * * * * *"), "cron", "seconds"},
		{cronIn("", "0 0 1 1 * 2030"), "cron", "seconds and years"},
		{cronIn("", "TZ=UTC * * * * *"), "cron", "time_zone"},
		{cronIn("", "CRON_TZ=Europe/Sofia 0 * * * *"), "cron", "time_zone"},
		{cronIn("", "@every 5m"), "cron", "every_seconds"},
		{cronIn("", "@reboot"), "cron", "@hourly"},
		{cronIn("", "60 * * * *"), "cron", `the minute, or a list, a range or a step of these, not "60"`},
		{cronIn("", "* 24 * * *"), "cron", "the hour"},
		{cronIn("", "* * 0 * *"), "cron", "the day of month"},
		{cronIn("", "* * 32 * *"), "cron", "the day of month"},
		{cronIn("", "* * * 13 *"), "cron", "the month"},
		{cronIn("", "* * * juny *"), "cron", "the month"},
		{cronIn("", "* * * * 8"), "cron", "the day of week"},
		{cronIn("", "* * * * L"), "cron", "the day of week"},
		{cronIn("", "* * L * *"), "cron", "the day of month"},
		{cronIn("", "* * 15W * *"), "cron", "the day of month"},
		{cronIn("", "* * * * fri#2"), "cron", "the day of week"},
		{cronIn("", "H * * * *"), "cron", "the minute"},
		{cronIn("", "*-5 * * * *"), "cron", "the minute"},
		{cronIn("", ", * * * *"), "cron", "the minute"},
		{cronIn("", "1,,2 * * * *"), "cron", "the minute"},
		{cronIn("", "*/0 * * * *"), "cron", "the minute"},
		{cronIn("", "*/60 * * * *"), "cron", "the minute"},
		{cronIn("", "1/2/3 * * * *"), "cron", "the minute"},
		{cronIn("", "-1 * * * *"), "cron", "the minute"},
		{cronIn("", "0 0 * * sat-tue/2"), "cron", "the day of week"},
		{cronIn("", strings.Repeat("1,", 200)+"1 * * * *"), "cron", "at most 256"},

		{cronIn("", "0 0 31 2 *"), "cron", "a day that exists"},
		{cronIn("", "0 0 30 2 *"), "cron", "a day that exists"},
		{cronIn("", "0 0 31 2,4,6,9,11 *"), "cron", "a day that exists"},

		{cronIn("Mars/Olympus", "* * * * *"), "time_zone", "Europe/Sofia"},
		{cronIn("Local", "* * * * *"), "time_zone", "IANA"},
		{cronIn("localtime", "* * * * *"), "time_zone", "IANA"},
		{cronIn("right/UTC", "* * * * *"), "time_zone", "IANA"},
		{cronIn("../UTC", "* * * * *"), "time_zone", "IANA"},
		{cronIn("Europe/", "* * * * *"), "time_zone", "IANA"},
		{cronIn("+02:00", "* * * * *"), "time_zone", "IANA"},
		{cronIn(strings.Repeat("a", 65), "* * * * *"), "time_zone", "IANA"},
	}
	for _, c := range cases {
		_, err := Parse(c.spec, 0, time.LoadLocation)
		var f *flow.FieldError
		if !errors.As(err, &f) || !errors.Is(err, flow.ErrInvalid) || f.Field != c.field || !strings.Contains(f.Want, c.says) {
			t.Errorf("%+v: %v, want one of %s that says %q", c.spec, err, c.field, c.says)
		}
	}
}

// Fails when an expression isn't what it says, on days without a change of clocks.
func TestExpressions(t *testing.T) {
	cases := []struct {
		cron string
		next string // the first three times after Thursday, 1 January 2026, 00:00 UTC
	}{
		{"* * * * *", "01-01 00:01, 01-01 00:02, 01-01 00:03"},
		{"*/20 * * * *", "01-01 00:20, 01-01 00:40, 01-01 01:00"},
		{"5/25 * * * *", "01-01 00:05, 01-01 00:30, 01-01 00:55"},
		{"50-1 3 * * *", "01-01 03:00, 01-01 03:01, 01-01 03:50"},
		{"0 22-1 * * *", "01-01 01:00, 01-01 22:00, 01-01 23:00"},
		{" 30  6,18 * * ? ", "01-01 06:30, 01-01 18:30, 01-02 06:30"},
		{"0 9 * * MON-FRI", "01-01 09:00, 01-02 09:00, 01-05 09:00"},
		{"0 9 * * 7", "01-04 09:00, 01-11 09:00, 01-18 09:00"},
		{"0 9 * * 0", "01-04 09:00, 01-11 09:00, 01-18 09:00"},
		{"0 9 * * sat-mon", "01-03 09:00, 01-04 09:00, 01-05 09:00"},
		{"0 9 * * fri-7/2", "01-02 09:00, 01-04 09:00, 01-09 09:00"},
		{"0 0 13 * fri", "01-02 00:00, 01-09 00:00, 01-13 00:00"}, // one of the two is enough
		{"0 0 */10 * fri", "01-02 00:00, 01-09 00:00, 01-11 00:00"},
		{"0 0 13 * *", "01-13 00:00, 02-13 00:00, 03-13 00:00"},
		{"0 0 31 2 fri", "02-06 00:00, 02-13 00:00, 02-20 00:00"}, // the Fridays of February
		{"0 0 30 jan-mar *", "01-30 00:00, 03-30 00:00, 01-30 00:00"},
		{"@hourly", "01-01 01:00, 01-01 02:00, 01-01 03:00"},
		{"@daily", "01-02 00:00, 01-03 00:00, 01-04 00:00"},
		{"@weekly", "01-04 00:00, 01-11 00:00, 01-18 00:00"},
		{"@monthly", "02-01 00:00, 03-01 00:00, 04-01 00:00"},
		{"@yearly", "01-01 00:00, 01-01 00:00, 01-01 00:00"},
	}
	for _, c := range cases {
		var got []string
		for _, at := range mustParse(t, cronIn("", c.cron)).NextN(instant("2026-01-01 00:00"), 3) {
			got = append(got, time.Unix(0, int64(at)).UTC().Format("01-02 15:04"))
		}
		if s := strings.Join(got, ", "); s != c.next {
			t.Errorf("%s: %s, want %s", c.cron, s, c.next)
		}
	}
}

// Fails when single spaces or the default zone aren't written into a spec, or when
// anything else is.
func TestNormalSpec(t *testing.T) {
	for _, c := range [][2]Spec{
		{cronIn("", "  0   3 * *  * "), cronIn("UTC", "0 3 * * *")},
		{cronIn("Europe/Sofia", "@daily"), cronIn("Europe/Sofia", "@daily")},
		{Spec{Every: flow.Second, Start: 3}, Spec{Every: flow.Second, Start: 3}},
		{Spec{At: 7}, Spec{At: 7}},
	} {
		if got := c[0].Normal(); got != c[1] {
			t.Errorf("%+v becomes %+v, want %+v", c[0], got, c[1])
		}
	}
}

// Fails when an interval doesn't count from its start, or without one from the moment of
// its declaration; or when one time comes more than once.
func TestIntervalsAndOneTime(t *testing.T) {
	at := func(since flow.Instant, s Spec, after flow.Instant, want ...flow.Instant) {
		t.Helper()
		times, err := Parse(s, since, time.LoadLocation)
		if err != nil {
			t.Fatal(err)
		}
		got := times.NextN(after, 3)
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				t.Fatalf("%+v since %d: after %d come %d, want %d", s, since, after, got, want)
			}
		}
	}
	sec := flow.Instant(flow.Second)
	at(100*sec, Spec{Every: 10 * flow.Second}, 100*sec, 110*sec, 120*sec, 130*sec)
	at(100*sec, Spec{Every: 10 * flow.Second}, 110*sec-1, 110*sec, 120*sec, 130*sec)
	at(100*sec, Spec{Every: 10 * flow.Second, Start: 3 * sec}, 100*sec, 103*sec, 113*sec, 123*sec)
	at(100*sec, Spec{Every: 10 * flow.Second, Start: 300 * sec}, 100*sec, 300*sec, 310*sec, 320*sec)
	at(100*sec, Spec{Every: 10 * flow.Second, Start: 300 * sec}, 300*sec, 310*sec, 320*sec, 330*sec)
	at(100*sec, Spec{Every: 100 * flow.Millisecond}, 100*sec+1, 100*sec+sec/10, 100*sec+sec/5, 100*sec+3*sec/10)
	at(0, Spec{At: 300 * sec}, 0, 300*sec)
	at(0, Spec{At: 300 * sec}, 300*sec-1, 300*sec)
	at(0, Spec{At: 300 * sec}, 300*sec)
}

// TestS84FarTimes fails when a time of the far future wraps round, is skipped, or when
// the end of all times isn't one.
func TestS84FarTimes(t *testing.T) {
	far := lastInstant - flow.Instant(flow.Second)
	for _, s := range []Spec{
		cronIn("", "* * * * *"), cronIn("America/New_York", "0 3 * * *"), cronIn("", "0 0 29 2 *"),
		{Every: MaxEvery, Start: 1}, {Every: flow.Second, Start: 1}, {At: lastInstant},
	} {
		times := mustParse(t, s)
		for _, after := range []flow.Instant{0, far, lastInstant, flow.MaxInstant} {
			for _, at := range times.NextN(after, 70) {
				if at <= after || at > lastInstant {
					t.Fatalf("%+v: %d comes after %d", s, at, after)
				}
			}
			if n := times.Count(after, flow.MaxInstant); n < 0 {
				t.Errorf("%+v: %d times", s, n)
			}
		}
		if at, ok := times.Next(flow.MaxInstant); ok {
			t.Errorf("%+v: %d comes after the end of all times", s, at)
		}
	}
	if _, err := Parse(Spec{Every: MaxEvery}, lastInstant-1, time.LoadLocation); err == nil {
		t.Error("an interval whose first time never comes was taken")
	}
}

// Fails when a time zone isn't there on a machine that has none installed: the program
// brings its own.
func TestZonesOfTheSpecs(t *testing.T) {
	for _, name := range []string{"UTC", "Europe/Sofia", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Etc/GMT+5", "EST5EDT", "America/Argentina/Buenos_Aires"} {
		mustParse(t, cronIn(name, "0 3 * * *"))
	}
}
