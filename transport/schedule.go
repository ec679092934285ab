package transport

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// createSchedule serves POST /v1/schedules: the body has the name.
func (x *exchange) createSchedule() error {
	s, err := decode(x, (*reader).namedSchedule)
	if err != nil {
		return err
	}
	return x.keepSchedule(s)
}

// putSchedule serves PUT /v1/schedules/{name}.
func (x *exchange) putSchedule() error {
	s, err := decode(x, (*reader).schedule)
	if err != nil {
		return err
	}
	if s.Name != "" && s.Name != x.vars[0] {
		return flow.Invalid("name", "must be left out, or be the name in the path")
	}
	s.Name = x.vars[0]
	return x.keepSchedule(s)
}

func (x *exchange) keepSchedule(s wire.Schedule) error {
	if err := checkSchedule(&s); err != nil {
		return err
	}
	got, err := x.s.node.PutSchedule(x.r.Context(), s)
	if err != nil {
		return err
	}
	got.Next = filled(got.Next)
	return x.json(http.StatusOK, got)
}

// listSchedules serves GET /v1/schedules.
func (x *exchange) listSchedules() error {
	got, err := x.s.node.Schedules(x.r.Context())
	if err != nil {
		return err
	}
	got.Schedules = filled(got.Schedules)
	for i := range got.Schedules {
		got.Schedules[i].Next = filled(got.Schedules[i].Next)
	}
	return x.json(http.StatusOK, got)
}

// readSchedule serves GET /v1/schedules/{name}.
func (x *exchange) readSchedule() error {
	name, err := x.scheduleName()
	if err != nil {
		return err
	}
	got, err := x.s.node.Schedule(x.r.Context(), name)
	if err != nil {
		return err
	}
	got.Next = filled(got.Next)
	return x.json(http.StatusOK, got)
}

// deleteSchedule serves DELETE /v1/schedules/{name}.
func (x *exchange) deleteSchedule() error {
	name, err := x.scheduleName()
	if err != nil {
		return err
	}
	got, err := x.s.node.DeleteSchedule(x.r.Context(), name)
	if err != nil {
		return err
	}
	return x.json(http.StatusOK, got)
}

// scheduleName is the schedule that the path names. No schedule has a name that is
// refused when it is made.
func (x *exchange) scheduleName() (string, error) {
	name := x.vars[0]
	if flow.ValidName(name) {
		return name, nil
	}
	p := fieldProblem(wire.CodeUnknownSchedule, "name", "must be "+flow.NameRule)
	p.Detail = "no schedule has this name: it must be " + flow.NameRule
	return "", p
}

// checkSchedule refuses what can be seen in the request alone: names, bounds, and not
// exactly one way to say when. What a cron expression or a time zone means is the
// Node's to check.
func checkSchedule(s *wire.Schedule) error {
	if !flow.ValidName(s.Name) {
		return flow.Invalid("name", "must be "+flow.NameRule)
	}
	if f, ok := errors.AsType[*flow.FieldError](flow.CheckWorkflowName(s.Workflow)); ok {
		return flow.Invalid("workflow", f.Want)
	}
	ways := 0
	for _, given := range [...]bool{s.Cron != "", s.EverySeconds != nil, s.AtMS != nil} {
		if given {
			ways++
		}
	}
	switch {
	case len(s.Params) > flow.MaxPayloadBytes:
		return flow.Invalid("params", fmt.Sprintf("must be at most %d bytes", flow.MaxPayloadBytes))
	case ways == 0:
		return flow.Invalid("cron", "is required, unless every_seconds or at_ms is given")
	case ways > 1:
		return flow.Invalid("cron", "must stand alone: a schedule has one of cron, every_seconds and at_ms")
	case s.TimeZone != "" && s.Cron == "":
		return flow.Invalid("time_zone", "belongs to cron")
	case s.StartMS != nil && s.EverySeconds == nil:
		return flow.Invalid("start_ms", "belongs to every_seconds")
	case s.EverySeconds != nil && !(*s.EverySeconds > 0):
		return flow.Invalid("every_seconds", "must be a number of seconds above 0")
	case s.AtMS != nil && *s.AtMS < 1:
		return flow.Invalid("at_ms", wantMoment)
	case s.StartMS != nil && *s.StartMS < 1:
		return flow.Invalid("start_ms", wantMoment)
	case !slices.Contains(catchUps, s.CatchUp):
		return flow.Invalid("catch_up", "must be one, none or all")
	}
	return nil
}

// wantMoment is what a moment of a schedule must be. Its start isn't one: 0 would read as
// none.
const wantMoment = "must be Unix milliseconds, an integer of at least 1"

// catchUps are the policies for missed times; "" is the default.
var catchUps = []string{"", wire.CatchUpOne, wire.CatchUpNone, wire.CatchUpAll}
