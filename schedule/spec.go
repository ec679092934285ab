package schedule

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pyrula/pyrula-node/flow"
)

// Bounds of a spec.
const (
	MinEvery     = 100 * flow.Millisecond
	MaxEvery     = 100 * 365 * flow.Day
	MaxCronBytes = 256
	maxZoneBytes = 64
)

// DefaultZone is the time zone of a cron expression that names none.
const DefaultZone = "UTC"

// Spec says when, in exactly one of three ways: Cron, Every or At. Its zero value says
// nothing and is refused by Parse.
type Spec struct {
	Cron  string       // five fields, or one of @hourly, @daily, @weekly, @monthly, @yearly
	Zone  string       // of Cron: an IANA name; empty for DefaultZone
	Every flow.Span    // from MinEvery to MaxEvery
	Start flow.Instant // of Every: the first time; zero for one Every after the declaration
	At    flow.Instant // the only time
}

// Zones finds a time zone by its IANA name, like time.LoadLocation.
type Zones func(name string) (*time.Location, error)

// Normal is the spec as it is kept: with single spaces, and with its zone. Two specs that
// say the same in other words may stay different.
func (s Spec) Normal() Spec {
	if s.Cron != "" {
		s.Cron = strings.Join(strings.Fields(s.Cron), " ")
		if s.Zone == "" {
			s.Zone = DefaultZone
		}
	}
	return s
}

// Parse checks a spec and makes its times. since is the moment of its declaration, from
// which Every counts if it has no Start. Error: *flow.FieldError of flow.ErrInvalid, also
// for a spec that has no time at all.
func Parse(s Spec, since flow.Instant, zones Zones) (*Times, error) {
	s = s.Normal()
	if err := s.shape(); err != nil {
		return nil, err
	}
	switch {
	case s.Every != 0:
		if s.Every < MinEvery || s.Every > MaxEvery {
			return nil, flow.Invalid("every_seconds", fmt.Sprintf("must be a number of seconds from %g to %g",
				float64(MinEvery)/float64(flow.Second), float64(MaxEvery)/float64(flow.Second)))
		}
		start := s.Start
		if start == 0 {
			if start = since.Add(s.Every); start > lastInstant {
				return nil, flow.Invalid("every_seconds", "must be smaller: the first time is "+tooLate)
			}
		}
		return &Times{every: s.Every, start: start}, nil
	case s.At != 0:
		return &Times{start: s.At}, nil
	}
	cal, err := parseCron(s.Cron)
	if err != nil {
		return nil, err
	}
	loc, err := findZone(s.Zone, zones)
	if err != nil {
		return nil, err
	}
	return &Times{cron: cal, zone: zone{loc}}, nil
}

const tooLate = "beyond the year 2262"

// shape refuses what doesn't fit together, and moments that can't be named.
func (s Spec) shape() error {
	kinds := 0
	for _, given := range [...]bool{s.Cron != "", s.Every != 0, s.At != 0} {
		if given {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return flow.Invalid("cron", "must be given, or every_seconds, or at_ms: exactly one of the three")
	case s.Zone != "" && s.Cron == "":
		return flow.Invalid("time_zone", "belongs to cron")
	case s.Start != 0 && s.Every == 0:
		return flow.Invalid("start_ms", "belongs to every_seconds")
	case s.Start < 0 || s.Start > lastInstant:
		return flow.Invalid("start_ms", "must be Unix milliseconds from 0, and not "+tooLate)
	case s.At < 0 || s.At > lastInstant:
		return flow.Invalid("at_ms", "must be Unix milliseconds from 0, and not "+tooLate)
	}
	return nil
}

// zoneName is what an IANA name may be made of.
var zoneName = regexp.MustCompile(`^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$`)

// ofMachine are names that a machine may know and that mean something of its own, or
// count leap seconds.
var ofMachine = []string{"Local", "localtime", "posixrules", "right", "posix"}

func findZone(name string, zones Zones) (*time.Location, error) {
	want := flow.Invalid("time_zone", `must be the name of an IANA time zone, such as "Europe/Sofia" or "UTC"`)
	if name == "" {
		name = DefaultZone
	}
	first, _, _ := strings.Cut(name, "/")
	if len(name) > maxZoneBytes || !zoneName.MatchString(name) || slices.Contains(ofMachine, first) {
		return nil, want
	}
	loc, err := zones(name)
	if err != nil {
		return nil, want // why it isn't found is of no use to who wrote it
	}
	return loc, nil
}
