package schedule

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow"
)

// Fails when a time that has come unseen gets a run it shouldn't, or none, or when those
// that are left out aren't counted.
func TestDue(t *testing.T) {
	const date = "2026-06-01 "
	at := func(clock string) flow.Instant {
		if clock == "" {
			return 0
		}
		day, err := time.ParseInLocation("2006-01-02 15:04:05", date+clock, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		return flow.Instant(day.UnixNano())
	}
	show := func(d Due) string {
		text := func(i flow.Instant) string {
			if i == 0 {
				return "none"
			}
			return time.Unix(0, int64(i)).UTC().Format("02 15:04:05")
		}
		return fmt.Sprintf("%s, left %d, next %s", text(d.At), d.Left, text(d.Next))
	}
	hourly, minutely := cronIn("", "0 * * * *"), cronIn("", "* * * * *")
	cases := []struct {
		spec       Spec
		armed, now string
		want       [3]string // one, none, all
	}{
		{hourly, "09:00:00", "09:00:00", [3]string{"01 09:00:00, left 0, next 01 10:00:00"}},
		{hourly, "09:00:00", "09:01:00", [3]string{"01 09:00:00, left 0, next 01 10:00:00"}}, // Grace is at most a minute
		{hourly, "09:00:00", "09:01:01", [3]string{"01 09:00:00, left 0, next 01 10:00:00", "none, left 1, next 01 10:00:00"}},
		{hourly, "09:00:00", "12:00:30", [3]string{
			"01 12:00:00, left 3, next 01 13:00:00", "", "01 09:00:00, left 0, next 01 10:00:00",
		}},
		{hourly, "09:00:00", "12:30:00", [3]string{
			"01 12:00:00, left 3, next 01 13:00:00", "none, left 4, next 01 13:00:00", "01 09:00:00, left 0, next 01 10:00:00",
		}},
		{minutely, "09:00:00", "09:00:06", [3]string{"01 09:00:00, left 0, next 01 09:01:00"}}, // a tenth of a minute
		{minutely, "09:00:00", "09:00:07", [3]string{"01 09:00:00, left 0, next 01 09:01:00", "none, left 1, next 01 09:01:00"}},
		{minutely, "09:00:00", "10:38:30", [3]string{
			"01 10:38:00, left 98, next 01 10:39:00", "none, left 99, next 01 10:39:00", "01 09:00:00, left 0, next 01 09:01:00",
		}},
		{minutely, "09:00:00", "12:00:30", [3]string{ // 181 times
			"01 12:00:00, left 180, next 01 12:01:00", "none, left 181, next 01 12:01:00", "01 10:21:00, left 81, next 01 10:22:00",
		}},
		{Spec{Every: flow.Second, Start: at("09:00:00")}, "09:00:00", "09:00:10", [3]string{
			"01 09:00:10, left 10, next 01 09:00:11", "", "01 09:00:00, left 0, next 01 09:00:01",
		}},
		{Spec{Every: 100 * flow.Second, Start: at("09:00:00")}, "09:00:00", "09:00:10", [3]string{"01 09:00:00, left 0, next 01 09:01:40"}},
		{Spec{Every: 100 * flow.Second, Start: at("09:00:00")}, "09:00:00", "09:00:11", [3]string{
			"01 09:00:00, left 0, next 01 09:01:40", "none, left 1, next 01 09:01:40",
		}},
		{Spec{At: at("09:00:00")}, "09:00:00", "09:01:00", [3]string{"01 09:00:00, left 0, next none"}},
		{Spec{At: at("09:00:00")}, "09:00:00", "23:00:00", [3]string{"01 09:00:00, left 0, next none", "none, left 1, next none"}},
		{cronIn("", "0 3 * * *"), "03:00:00", "02:59:59", [3]string{"01 03:00:00, left 0, next 02 03:00:00"}}, // a clock was set back
	}
	for _, c := range cases {
		times := mustParse(t, c.spec)
		for i, policy := range []CatchUp{CatchUpOne, CatchUpNone, CatchUpAll} {
			want := c.want[i]
			if want == "" {
				want = c.want[0]
			}
			if got := show(times.Due(policy, at(c.armed), at(c.now))); got != want {
				t.Errorf("%+v %s, armed for %s, at %s: %s\nwant %s", c.spec, policy, c.armed, c.now, got, want)
			}
		}
	}
}

// Fails when a time is run for twice or out of order, or when one is neither run for nor
// counted; over random stretches of time that nobody looks.
func TestDueLosesNoTime(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 100 {
		e := draw(rng)
		spec := cronIn(walkedZones[rng.IntN(len(walkedZones))], e.String())
		if rng.IntN(4) == 0 {
			spec = Spec{Every: flow.Span(1+rng.IntN(5000)) * flow.Second, Start: instant("2026-01-01 00:00")}
		}
		times, err := Parse(spec, 0, time.LoadLocation)
		if err != nil {
			continue
		}
		policy := []CatchUp{CatchUpOne, CatchUpNone, CatchUpAll}[rng.IntN(3)]
		begin, end := instant("2026-02-01 00:00"), instant("2026-04-15 00:00")
		armed, _ := times.Next(begin)
		var last flow.Instant
		var runs, left int64
		for now := begin; armed != 0 && armed < end; {
			if armed > now {
				now = armed.Add(flow.Span(rng.Int64N(int64(flow.Second))))
				if rng.IntN(8) == 0 {
					now = armed.Add(flow.Span(rng.Int64N(int64(20 * flow.Day))))
				}
			}
			d := times.Due(policy, armed, now)
			if d.At != 0 && (d.At <= last || d.At > now || d.At < armed) {
				t.Fatalf("%+v %s: a run for %d after one for %d, armed for %d, at %d", spec, policy, d.At, last, armed, now)
			}
			if d.At != 0 {
				last = d.At
				runs++
			}
			left += d.Left
			if d.Next != 0 && d.Next <= armed {
				t.Fatalf("%+v %s: armed for %d after %d", spec, policy, d.Next, armed)
			}
			armed = d.Next
		}
		if armed == 0 {
			continue
		}
		if n := times.Count(begin, armed-1); n != runs+left {
			t.Fatalf("%+v %s: %d runs and %d left out, of %d times", spec, policy, runs, left, n)
		}
	}
}

// Fails when a schedule that was down for years costs a look at each of its times.
func TestDueAfterYearsIsCheap(t *testing.T) {
	times := mustParse(t, cronIn("America/New_York", "* * * * *"))
	armed, now := instant("2020-01-01 00:00"), instant("2026-01-01 00:00")
	d := times.Due(CatchUpAll, armed, now)
	const minutes = (6*365 + 2) * 24 * 60
	if d.Left != minutes+1-MaxCatchUp || d.At != now.Add(-(MaxCatchUp-1)*flow.Minute) {
		t.Errorf("%d left out, the first run is for %d", d.Left, d.At)
	}
	if n := testing.AllocsPerRun(1, func() { times.Due(CatchUpAll, armed, now) }); n > 10 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDueAfterAWeekend(b *testing.B) {
	times := mustParse(b, cronIn("America/New_York", "* * * * *"))
	armed, now := instant("2026-03-06 18:00"), instant("2026-03-09 08:00")
	for b.Loop() {
		times.Due(CatchUpOne, armed, now)
	}
}

func BenchmarkNext(b *testing.B) {
	for name, cron := range map[string]string{"minute": "* * * * *", "day": "0 3 * * *", "leap day": "0 0 29 2 *"} {
		b.Run(name, func(b *testing.B) {
			times := mustParse(b, cronIn("America/New_York", cron))
			for b.Loop() {
				times.Next(instantOfBench)
			}
		})
	}
}

var instantOfBench = instant("2026-03-06 18:00")
