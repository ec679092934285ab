package wire

import "encoding/json"

// The policies for times that came while the node was down or busy. A schedule that was
// paused has missed nothing.
const (
	CatchUpOne  = "one"  // one run for all of them, for the last, however late (default)
	CatchUpNone = "none" // none for a time that is later than a tenth of the way to the next one, or than a minute
	CatchUpAll  = "all"  // a run for each, the oldest first, at most MaxCatchUp of the latest
)

// MaxCatchUp bounds the runs that CatchUpAll makes for times that came unseen.
const MaxCatchUp = 100

// Schedule is the body of PUT /v1/schedules/{name}, and of POST /v1/schedules with Name.
// Exactly one of Cron, EverySeconds and AtMS says when.
//
// Cron has five fields (minute, hour, day of month, month, day of week) or one of
// @hourly, @daily, @weekly, @monthly, @yearly, and is read in TimeZone (an IANA name,
// UTC by default). A local time that is skipped when clocks go forward runs once just
// after; one that comes twice when they go back runs once, the first time; one whose hour
// is every hour goes on evenly. EverySeconds, at least 0.1, counts from StartMS, by default
// from the declaration. AtMS is a moment to come, or one of the last minute. Params are at
// most 64 KiB.
type Schedule struct {
	Name         string          `json:"name,omitempty"`
	Workflow     string          `json:"workflow"`
	Params       json.RawMessage `json:"params,omitempty"`
	Cron         string          `json:"cron,omitempty"`
	TimeZone     string          `json:"time_zone,omitempty"`
	EverySeconds *float64        `json:"every_seconds,omitempty"`
	StartMS      *int64          `json:"start_ms,omitempty"`
	AtMS         *int64          `json:"at_ms,omitempty"`
	CatchUp      string          `json:"catch_up,omitempty"` // one (default), none, all
	Paused       bool            `json:"paused,omitempty"`
}

// ScheduleView is a schedule as it stands, with its defaults filled in. Next are the next
// times, at most 5, the first of which is armed; none when it is over or paused. Missed
// counts the times that got no run of their own. LastError says why the last time made no
// run.
type ScheduleView struct {
	Schedule
	Next      []int64 `json:"next"`
	Runs      int64   `json:"runs"`
	Missed    int64   `json:"missed"`
	LastAt    *int64  `json:"last_at"` // the time that the last run was for
	LastRunID *string `json:"last_run_id"`
	LastError *string `json:"last_error"`
	CreatedAt int64   `json:"created_at"`
	Changed   bool    `json:"changed,omitempty"` // of the answer to a PUT or POST
}

// ScheduleList answers GET /v1/schedules, sorted by name. The params are left out: they
// are shown with each schedule by itself.
type ScheduleList struct {
	Schedules []ScheduleView `json:"schedules"`
}

// ScheduleDeleted answers DELETE /v1/schedules/{name}. Runs that it made go on.
type ScheduleDeleted struct {
	Name string `json:"name"`
}
