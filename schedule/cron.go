package schedule

import (
	"fmt"
	"math/bits"
	"regexp"
	"strings"

	"github.com/netresearch/go-cron"

	"github.com/pyrula/pyrula-node/flow"
)

// cronField is one of the five fields of an expression.
type cronField struct {
	name string
	want string // what may stand there
	of   func(*cron.SpecSchedule) uint64
}

var cronFields = [...]cronField{
	{"minute", "0 to 59", func(s *cron.SpecSchedule) uint64 { return s.Minute }},
	{"hour", "0 to 23", func(s *cron.SpecSchedule) uint64 { return s.Hour }},
	{"day of month", "1 to 31", func(s *cron.SpecSchedule) uint64 { return s.Dom }},
	{"month", "1 to 12 or jan to dec", func(s *cron.SpecSchedule) uint64 { return s.Month }},
	{"day of week", "0 to 7 or sun to sat", func(s *cron.SpecSchedule) uint64 { return s.Dow }},
}

const (
	fieldMinute = iota
	fieldHour
	fieldDay
	fieldMonth
	fieldWeekday
)

// nicknames are the expressions that have a name.
var nicknames = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *",
}

// cronParser reads the five fields and nothing more.
var cronParser = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// cronList is what a field is made of: *, values and ranges, each with a step if need be,
// in a list. The parser takes more than that, and guesses what it means.
var cronList = func() *regexp.Regexp {
	const value = `([0-9]{1,2}|[a-z]{3})`
	const item = `(\*|\?|` + value + `(-` + value + `)?)(/[0-9]{1,2})?`
	return regexp.MustCompile(`^(?i:` + item + `(,` + item + `)*)$`)
}()

// anyBit is how the parser marks a field that restricts nothing.
const anyBit = 1 << 63

// parseCron reads an expression. Error: *flow.FieldError of the field cron.
func parseCron(text string) (*calendar, error) {
	wrong := func(format string, args ...any) error { return flow.Invalid("cron", fmt.Sprintf(format, args...)) }
	if len(text) > MaxCronBytes {
		return nil, wrong("must be at most %d bytes", MaxCronBytes)
	}
	if long, ok := nicknames[text]; ok {
		text = long
	}
	fields := strings.Fields(text)
	switch {
	case strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ="):
		return nil, wrong("must not name a time zone: that is what time_zone is for")
	case strings.HasPrefix(text, "@every"):
		return nil, wrong("must not be an interval: that is what every_seconds is for")
	case len(fields) == len(cronFields)+1:
		return nil, wrong("must have five fields: seconds and years have none")
	case len(fields) != len(cronFields):
		return nil, wrong("must be five fields (minute, hour, day of month, month, day of week), or one of @hourly, @daily, @weekly, @monthly, @yearly")
	}
	var sets [len(cronFields)]uint64
	for i, f := range cronFields {
		set, ok := cronSet(i, fields[i])
		if !ok {
			return nil, wrong("must have %s in the field for the %s, or a list, a range or a step of these, not %q", f.want, f.name, fields[i])
		}
		sets[i] = set
	}
	c := newCalendar(&sets)
	if !c.comes() {
		return nil, wrong("must name a day that exists: there is none of that number in these months")
	}
	return c, nil
}

// cronSet is the set of values that a field names.
func cronSet(field int, text string) (uint64, bool) {
	if !cronList.MatchString(text) {
		return 0, false
	}
	set, ok := parseField(field, text)
	if !ok {
		return 0, false
	}
	if field == fieldWeekday && strings.Contains(text, "/") {
		// Sunday is 0 and 7, so a step over the end of a week goes wrong by a day.
		for item := range strings.SplitSeq(text, ",") {
			if r, _, stepped := strings.Cut(item, "/"); stepped && wraps(r) {
				return 0, false
			}
		}
	}
	return set, true
}

// wraps says whether a range of days of the week goes over the end of the week.
func wraps(r string) bool {
	low, high, ok := strings.Cut(r, "-")
	if !ok || high == "7" {
		return false
	}
	from, ok1 := parseField(fieldWeekday, low)
	to, ok2 := parseField(fieldWeekday, high)
	return ok1 && ok2 && bits.TrailingZeros64(from) > bits.TrailingZeros64(to)
}

// parseField has the parser read one field alone, so that it is known which one is wrong.
func parseField(field int, text string) (uint64, bool) {
	all := [len(cronFields)]string{"*", "*", "*", "*", "*"}
	all[field] = text
	parsed, err := cronParser.Parse(strings.Join(all[:], " "))
	if err != nil {
		return 0, false
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return 0, false
	}
	return cronFields[field].of(spec), true
}
