package schedule

import (
	"math"
	"time"
)

// zone is a time zone: what its clocks show at each moment. Moments and local times are
// Unix seconds.
type zone struct{ loc *time.Location }

// stretch is a time in which the clocks are not put forward or back: from begin to before
// end, local time is the moment plus offset. The stretch before and the one behind may
// have the same offset.
type stretch struct{ begin, end, offset int64 }

// Bounds of a stretch that has none.
const (
	never   = math.MinInt64 / 4
	forever = math.MaxInt64 / 4
)

// farApart is more than the offsets of a zone ever differ by, and more than any of them.
const farApart = 2 * secondsOfDay

// at is the stretch that holds a moment.
func (z zone) at(moment int64) stretch {
	t := time.Unix(moment, 0).In(z.loc)
	_, offset := t.Zone()
	s := stretch{never, forever, int64(offset)}
	begin, end := t.ZoneBounds()
	if !begin.IsZero() {
		s.begin = begin.Unix()
	}
	if !end.IsZero() {
		s.end = end.Unix()
	}
	if s.end <= moment { // the library ends years after 365 days, leap years too
		s.end = (floorDiv(moment, secondsOfDay) + 1) * secondsOfDay
	}
	return s
}

// reached is the latest local time that the clocks have shown until a moment.
func (z zone) reached(moment int64) int64 {
	s := z.at(moment)
	latest := moment + s.offset
	for s.begin > moment-farApart {
		begin := s.begin
		s = z.at(begin - 1)
		latest = max(latest, begin-1+s.offset)
	}
	return latest
}

// reach is the first moment at which the clocks show a local time or a later one. Until
// the moment after they haven't.
func (z zone) reach(local, after int64) int64 {
	for moment := max(after+1, local-farApart); ; {
		s := z.at(moment)
		if at := max(moment, local-s.offset); at < s.end {
			return at
		}
		moment = s.end
	}
}
