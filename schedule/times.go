package schedule

import "github.com/pyrula/pyrula-node/flow"

// lastInstant is the end of all times: a year before the last moment that can be named,
// so that no sum with it wraps (S84).
const lastInstant = flow.MaxInstant - flow.Instant(366*flow.Day)

// Times are the times of a schedule; see Parse. They never change and are safe for any
// goroutine.
type Times struct {
	cron  *calendar // nil for an interval and for one time
	zone  zone
	start flow.Instant // the first time of an interval, or the only one
	every flow.Span    // zero for one time
}

// Next is the first time after a moment; ok is false when none comes any more.
func (t *Times) Next(after flow.Instant) (at flow.Instant, ok bool) {
	switch {
	case t.cron != nil:
		second, ok := t.nextSecond(seconds(after))
		return flow.Instant(second) * flow.Instant(flow.Second), ok
	case after < t.start:
		return t.start, true
	case t.every == 0 || after >= lastInstant:
		return 0, false
	}
	at = after.Add(t.every - flow.Span(after-t.start)%t.every)
	return at, at <= lastInstant
}

// NextN are the next n times after a moment, or as many as come.
func (t *Times) NextN(after flow.Instant, n int) []flow.Instant {
	var all []flow.Instant
	for range n {
		at, ok := t.Next(after)
		if !ok {
			break
		}
		all = append(all, at)
		after = at
	}
	return all
}

// Count is the number of times after a moment, up to and with another one. It costs some
// nanoseconds for each day in between.
func (t *Times) Count(after, upto flow.Instant) int64 {
	upto = min(upto, lastInstant)
	switch {
	case after >= upto:
		return 0
	case t.cron != nil:
		return t.countSeconds(seconds(after), seconds(upto))
	}
	return t.count(upto) - t.count(after)
}

// count is the number of times of an interval until a moment.
func (t *Times) count(upto flow.Instant) int64 {
	switch {
	case upto < t.start:
		return 0
	case t.every == 0:
		return 1
	}
	return int64(upto-t.start)/int64(t.every) + 1
}

// latest is the n-th time from the end of those up to a moment. There are that many after
// low.
func (t *Times) latest(n int64, low, upto flow.Instant) flow.Instant {
	width := flow.Minute
	from := upto.Add(-width)
	for from > low && t.Count(from, upto) < n {
		width *= 2
		from = upto.Add(-width)
	}
	low, high := max(low, from), upto // after low there are n, after high there are fewer
	for high-low > 1 {
		if mid := low + (high-low)/2; t.Count(mid, upto) < n {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

func seconds(at flow.Instant) int64 { return floorDiv(int64(at), int64(flow.Second)) }

// nextSecond is Next for a cron expression, in seconds.
func (t *Times) nextSecond(after int64) (int64, bool) {
	end := seconds(lastInstant)
	if !t.cron.everyHour {
		local, ok := t.cron.next(t.zone.reached(after)+1, end)
		if !ok {
			return 0, false
		}
		at := t.zone.reach(local, after)
		return at, at <= end
	}
	for moment := after + 1; moment <= end; {
		s := t.zone.at(moment)
		if local, ok := t.cron.next(moment+s.offset, min(s.end-1, end)+s.offset); ok {
			return local - s.offset, true
		}
		moment = s.end
	}
	return 0, false
}

// countSeconds is Count for a cron expression, in seconds.
func (t *Times) countSeconds(after, upto int64) int64 {
	var n int64
	if !t.cron.everyHour {
		n = t.cron.count(t.zone.reached(after)+1, t.zone.reached(upto))
	}
	for moment := after + 1; moment <= upto; {
		s := t.zone.at(moment)
		if t.cron.everyHour {
			n += t.cron.count(moment+s.offset, min(s.end-1, upto)+s.offset)
		} else if reached := t.zone.reached(moment - 1); moment+s.offset > reached+1 {
			// A jump: whatever it reaches at once fires as one.
			n -= max(t.cron.count(reached+1, moment+s.offset)-1, 0)
		}
		moment = s.end
	}
	return n
}
