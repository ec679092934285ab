package schedule

import (
	"math/bits"
	"time"
)

const (
	secondsOfMinute = 60
	minutesOfHour   = 60
	hoursOfDay      = 24
	minutesOfDay    = hoursOfDay * minutesOfHour
	secondsOfDay    = minutesOfDay * secondsOfMinute
)

// calendar is the set of minutes that a cron expression names, on clocks that are never
// put forward or back. Its times are local seconds: what the clocks show, counted like
// Unix seconds.
type calendar struct {
	minutes, hours, days, months, weekdays uint64
	either                                 bool // a day needs to be one of days and weekdays, not both
	everyHour                              bool // all hours: minutes are named, and no time of the day
}

func newCalendar(sets *[len(cronFields)]uint64) *calendar {
	c := &calendar{
		minutes: sets[fieldMinute] &^ anyBit, hours: sets[fieldHour] &^ anyBit, days: sets[fieldDay] &^ anyBit,
		months: sets[fieldMonth] &^ anyBit, weekdays: sets[fieldWeekday] &^ anyBit,
		either: sets[fieldDay]&anyBit == 0 && sets[fieldWeekday]&anyBit == 0,
	}
	c.everyHour = bits.OnesCount64(c.hours) == hoursOfDay
	return c
}

// longestMonths are the days of each month in a leap year.
var longestMonths = [...]int{31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// comes says whether there is any such time. Every day of the week falls on every date
// sooner or later.
func (c *calendar) comes() bool {
	if c.minutes == 0 || c.hours == 0 || c.months == 0 || c.weekdays == 0 {
		return false
	}
	if c.either {
		return true
	}
	for month, days := range longestMonths {
		if c.months>>(month+1)&1 == 1 && c.days&(2<<days-1) != 0 {
			return true
		}
	}
	return false
}

// floorDiv is a/b rounded down; b is positive.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// has says whether times are named on a day, counted from 1 January 1970.
func (c *calendar) has(day int64) bool {
	date := time.Unix(day*secondsOfDay, 0).UTC()
	if c.months>>uint(date.Month())&1 == 0 {
		return false
	}
	byDate := c.days>>uint(date.Day())&1 == 1
	byWeek := c.weekdays>>uint(date.Weekday())&1 == 1
	if c.either {
		return byDate || byWeek
	}
	return byDate && byWeek
}

// next is the first time from low to high.
func (c *calendar) next(low, high int64) (int64, bool) {
	day := floorDiv(low, secondsOfDay)
	minute := floorDiv(low-day*secondsOfDay+secondsOfMinute-1, secondsOfMinute) // whole minutes only
	for ; day*secondsOfDay <= high; day, minute = day+1, 0 {
		if !c.has(day) {
			continue
		}
		if m, ok := c.minute(minute); ok {
			at := day*secondsOfDay + m*secondsOfMinute
			return at, at <= high
		}
	}
	return 0, false
}

// minute is the first time of a day from one of its minutes on.
func (c *calendar) minute(from int64) (int64, bool) {
	rest := from % minutesOfHour
	for hour := from / minutesOfHour; hour < hoursOfDay; hour, rest = hour+1, 0 {
		if later := c.minutes >> uint(rest); c.hours>>uint(hour)&1 == 1 && later != 0 {
			return hour*minutesOfHour + rest + int64(bits.TrailingZeros64(later)), true
		}
	}
	return 0, false
}

// count is the number of times from low to high.
func (c *calendar) count(low, high int64) int64 {
	return c.before(high+1, low) - c.before(low, low)
}

// before is the number of times before end, from the beginning of the day of from.
func (c *calendar) before(end, from int64) int64 {
	first, last := floorDiv(from, secondsOfDay), floorDiv(end, secondsOfDay)
	var n int64
	whole := int64(bits.OnesCount64(c.hours) * bits.OnesCount64(c.minutes))
	for day := first; day < last; day++ {
		if c.has(day) {
			n += whole
		}
	}
	if !c.has(last) {
		return n
	}
	minute := floorDiv(end-last*secondsOfDay+secondsOfMinute-1, secondsOfMinute) // the first that isn't before end
	hour := minute / minutesOfHour
	n += int64(bits.OnesCount64(c.hours&(1<<uint(hour)-1)) * bits.OnesCount64(c.minutes))
	if c.hours>>uint(hour)&1 == 1 {
		n += int64(bits.OnesCount64(c.minutes & (1<<uint(minute%minutesOfHour) - 1)))
	}
	return n
}
