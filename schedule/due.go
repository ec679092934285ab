package schedule

import "github.com/pyrula/pyrula-node/flow"

// Grace is how late a time may be looked at and still be on time: a tenth of the way to
// the next one, and at most this. It matters to CatchUpNone alone.
const Grace = 60 * flow.Second

// Due is what is to be done about the times that have come.
type Due struct {
	At   flow.Instant // the time to make a run for; zero for none
	Left int64        // times that are left out: they get no run
	Next flow.Instant // the next time to look at; zero when there is none any more
}

// Due decides about a schedule whose next time, armed, has come. With CatchUpAll the next
// time may have come as well: the caller asks again.
//
// Of the times that have come by now,
//
//	one   the last gets a run, however late it is
//	none  the last gets a run if it is on time (Grace)
//	all   the latest MaxCatchUp get a run each, one for each call, the oldest first
//
// and the others get none. A node that is a moment late thereby misses nothing, and one
// that was down for a day doesn't start a day's runs at once.
func (t *Times) Due(c CatchUp, armed, now flow.Instant) Due {
	now = max(now, armed)
	n := 1 + t.Count(armed, now)
	pick := func(k int64) flow.Instant { // the k-th from the end
		if k == n {
			return armed
		}
		return t.latest(k, armed, now)
	}
	d := Due{At: pick(1), Left: n - 1}
	if c == CatchUpAll {
		runs := min(n, MaxCatchUp)
		d.At, d.Left = pick(runs), n-runs
	}
	d.Next, _ = t.Next(d.At)
	if c == CatchUpNone && !onTime(d.At, d.Next, now) {
		d.At, d.Left = 0, n
	}
	return d
}

func onTime(at, next, now flow.Instant) bool {
	grace := Grace
	if next != 0 {
		grace = min(grace, next.Sub(at)/10)
	}
	return now.Sub(at) <= grace
}
