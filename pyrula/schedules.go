package pyrula

import (
	"context"
	"fmt"
	"net/http"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

type (
	// Schedule says when runs of a workflow are made: by Cron in a TimeZone, every so many
	// seconds, or once at AtMS. Exactly one of the three is given.
	Schedule = wire.Schedule
	// ScheduleInfo is a schedule as it stands: its next times, and what it has done.
	ScheduleInfo = wire.ScheduleView
)

// What becomes of times that were missed: the values of Schedule.CatchUp.
const (
	CatchUpOne  = wire.CatchUpOne
	CatchUpNone = wire.CatchUpNone
	CatchUpAll  = wire.CatchUpAll
)

// PutSchedule keeps a schedule under its Name; one of that name is replaced, and the
// same one twice changes nothing. Its runs are stamped when they are made, by name
// (P16). Error: [ErrInvalid] for one that can't be right, [ErrConfiguration] for a
// workflow whose key is a function (P20).
func (c *Client) PutSchedule(ctx context.Context, s Schedule) (*ScheduleInfo, error) {
	name := s.Name
	if err := checkScheduleName(name); err != nil {
		return nil, fmt.Errorf("put schedule %q: %w", name, err)
	}
	s.Name = "" // it stands in the path
	var view ScheduleInfo
	req := request{method: http.MethodPut, path: path(wire.PathSchedules, name), body: s}
	if err := c.call(ctx, &req, &view); err != nil {
		return nil, fmt.Errorf("put schedule %q: %w", name, err)
	}
	return &view, nil
}

// Schedules are all schedules, sorted by name.
func (c *Client) Schedules(ctx context.Context) ([]ScheduleInfo, error) {
	all, err := get[wire.ScheduleList](ctx, c, wire.PathSchedules)
	if err != nil {
		return nil, err
	}
	return all.Schedules, nil
}

// Schedule is one schedule as it stands. Error: [ErrUnknownSchedule].
func (c *Client) Schedule(ctx context.Context, name string) (*ScheduleInfo, error) {
	if err := checkScheduleName(name); err != nil {
		return nil, fmt.Errorf("read schedule %q: %w", name, err)
	}
	return get[ScheduleInfo](ctx, c, path(wire.PathSchedules, name))
}

// DeleteSchedule ends a schedule; runs that it made go on. Sent again for want of an
// answer, it may find the schedule gone. Error: [ErrUnknownSchedule].
func (c *Client) DeleteSchedule(ctx context.Context, name string) error {
	err := checkScheduleName(name)
	if err == nil {
		err = c.call(ctx, &request{method: http.MethodDelete, path: path(wire.PathSchedules, name)}, nil)
	}
	if err != nil {
		return fmt.Errorf("delete schedule %q: %w", name, err)
	}
	return nil
}

func checkScheduleName(name string) error {
	if !flow.ValidName(name) {
		return fmt.Errorf("%w: name must be %s", ErrInvalid, flow.NameRule)
	}
	return nil
}
