package actors_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// TestP16ScheduleStampsItsRuns fails when a run of a schedule isn't stamped by what is
// declared at its time, whatever was before; or with gates when nothing is (P22).
func TestP16P18P22ScheduleStampsItsRuns(t *testing.T) {
	play(t, func(w *world) {
		w.schedule("early", `{"workflow":"sync","params":{"k": "a"},"cron":"30 * * * *"}`)
		w.until("00:40:00")
		w.declare("sync", one)
		w.until("01:40:00")
		w.declare("sync", `{"version":"2","limit":{"key":"k","max":7},"rate":{"key":"r","per_second":1}}`)
		w.until("02:40:00")
		all := w.firedAt("early", "01 00:30:00", "01 01:30:00", "01 02:30:00")
		a, b, c := w.status(all[0].run), w.status(all[1].run), w.status(all[2].run)
		if !a.GatesUnknown || len(a.Gates) != 0 {
			t.Errorf("before a declaration: %+v", a)
		}
		if b.GatesUnknown || len(b.Gates) != 1 || b.Gates[0].Key != "a" || b.Gates[0].Max != 1 || b.StampedVersion != "1" {
			t.Errorf("under version 1: %+v", b)
		}
		if len(c.Gates) != 2 || c.Gates[0].Max != 7 || c.Gates[1].Key != "" || c.StampedVersion != "2" {
			t.Errorf("under version 2: %+v", c)
		}
		for _, r := range w.scheduledRuns() {
			if got := w.status(r.run).Provenance.Source; got.Trigger != "schedule" || got.Schedule == nil || *got.Schedule != "early" || r.origin != "early" || r.params != `{"k":"a"}` {
				t.Errorf("run %s comes from %+v, its record says %+v", r.run, got, r)
			}
		}
		v := w.scheduled("early")
		if v.Runs != 3 || v.Missed != 0 || *v.LastRunID != all[2].run.String() || *v.LastAt != all[2].at.UnixMilli() || v.LastError != nil {
			t.Errorf("the schedule says %+v", v)
		}
	})
}

// TestP20ScheduleOfAFunctionKey fails when a schedule is taken whose runs' key only the
// workflow's code can compute, or when one whose workflow becomes so makes runs, stops, or
// doesn't say why.
func TestP20ScheduleOfAFunctionKey(t *testing.T) {
	const function = `{"version":"2","limit":{"key":{"function":"tenant"},"max":1}}`
	play(t, func(w *world) {
		w.declare("sync", one)
		w.declare("other", function)
		err := w.notScheduled("s", `{"workflow":"other","every_seconds":60}`)
		if f, ok := errors.AsType[*flow.FieldError](err); !ok || !errors.Is(err, flow.ErrConfiguration) || f.Field != "workflow" || !strings.Contains(f.Want, `"tenant"`) {
			t.Errorf("refused with %v", err)
		}
		w.schedule("s", `{"workflow":"sync","params":{"k":"a"},"cron":"0 * * * *"}`)
		w.until("01:10:00")
		w.declare("sync", function)
		w.until("03:10:00")
		v := w.scheduled("s")
		if v.Runs != 1 || v.LastError == nil || !strings.Contains(*v.LastError, "tenant") || len(v.Next) == 0 {
			t.Errorf("with a function key: %+v", v)
		}
		w.restart()
		if again := w.scheduled("s"); again.LastError == nil || *again.LastError != *v.LastError {
			t.Errorf("after a restart: %+v", again)
		}
		w.declare("sync", `{"version":"3","limit":{"key":"k","max":1}}`)
		w.until("04:10:00")
		if v := w.scheduled("s"); v.Runs != 2 || v.LastError != nil {
			t.Errorf("with a parameter again: %+v", v)
		}
		w.onePerTime("s")
		if n := len(w.firedOf("s")); n != 4 {
			t.Errorf("%d of 4 times were seen", n)
		}
	})
}

// TestP16ScheduleTimesOfDay fails when a schedule fires at another instant than its cron
// expression names in its time zone, on the days on which clocks are changed; or an
// interval or a single time at another than it says.
func TestP16ScheduleTimesOfDay(t *testing.T) {
	setup{}.playOn(t, "2026-03-28 12:00:00", func(w *world) {
		w.schedule("skipped", `{"workflow":"sync","cron":"30 3 * * *","time_zone":"Europe/Sofia"}`)
		w.pass(48 * time.Hour)
		w.firedAt("skipped", "29 01:00:00", "30 00:30:00")
	})
	setup{}.playOn(t, "2026-10-24 12:00:00", func(w *world) {
		w.schedule("doubled", `{"workflow":"sync","cron":"30 3 * * *","time_zone":"Europe/Sofia"}`)
		w.pass(48 * time.Hour)
		w.firedAt("doubled", "25 00:30:00", "26 01:30:00")
	})
	play(t, func(w *world) {
		w.until("00:00:10")
		w.schedule("every", `{"workflow":"sync","every_seconds":0.5}`)
		w.until("00:00:12")
		w.unschedule("every")
		w.until("00:00:13")
		var got []time.Duration
		for _, f := range w.firedOf("every") {
			got = append(got, f.at.Sub(f.at.Truncate(time.Minute)))
		}
		if want := []time.Duration{10_500 * time.Millisecond, 11 * time.Second, 11_500 * time.Millisecond, 12 * time.Second}; !slices.Equal(got, want) {
			t.Errorf("the interval fired at %s", got)
		}
		w.onePerTime("every")
	})
	play(t, func(w *world) {
		start := w.wall().Add(-25 * time.Second).UnixMilli()
		w.schedule("anchored", `{"workflow":"sync","every_seconds":10,"start_ms":`+number(start)+`}`)
		w.until("00:00:20")
		w.firedAt("anchored", "01 00:00:05", "01 00:00:15")
	})
	play(t, func(w *world) {
		v := w.schedule("once", `{"workflow":"sync","at_ms":`+number(w.wall().Add(time.Hour).UnixMilli())+`}`)
		if len(v.Next) != 1 {
			t.Errorf("one time has %d next ones", len(v.Next))
		}
		w.until("03:00:00")
		w.firedAt("once", "01 01:00:00")
		if v := w.scheduled("once"); len(v.Next) != 0 || v.Runs != 1 {
			t.Errorf("it is over: %+v", v)
		}
		w.restart()
		w.pass(time.Hour)
		w.firedAt("once", "01 01:00:00")
	})
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// TestP16ScheduleIsPutTwice fails when the same definition changes anything, or when
// another one doesn't count from now.
func TestP16ScheduleIsPutTwice(t *testing.T) {
	play(t, func(w *world) {
		const hourly = `{"workflow":"sync","params":{"k":"a"},"cron":"0 * * * *"}`
		first := w.schedule("s", hourly)
		if first.CreatedAt != w.wall().UnixMilli() || !first.Changed || first.CatchUp != "one" || first.TimeZone != "UTC" || len(first.Next) != 5 {
			t.Errorf("the first: %+v", first)
		}
		w.until("01:30:00")
		entries := len(w.firedOf("s"))
		again := w.schedule("s", `{"workflow":"sync","params":{ "k" : "a" },"cron":" 0  * * * *","time_zone":"UTC","catch_up":"one"}`)
		if again.Changed || again.Runs != 1 || again.CreatedAt != first.CreatedAt {
			t.Errorf("the same again: %+v", again)
		}
		if n := w.countAll(flow.RecScheduled); n != 1 || entries != 1 {
			t.Errorf("%d records of a definition", n)
		}
		w.until("01:50:00")
		w.schedule("s", `{"workflow":"sync","every_seconds":600}`)
		w.until("02:15:00") // 02:00 came twice: by the old definition and by the new one
		w.firedAt("s", "01 01:00:00", "01 02:00:00", "01 02:10:00")
		w.schedule("s", `{"workflow":"sync","every_seconds":7200}`)
		w.until("04:10:00") // nothing of the interval of before
		w.firedAt("s", "01 01:00:00", "01 02:00:00", "01 02:10:00")
		w.until("04:16:00")
		w.firedAt("s", "01 01:00:00", "01 02:00:00", "01 02:10:00", "01 04:15:00")
		if v := w.scheduled("s"); v.CreatedAt != first.CreatedAt || v.Runs != 4 || v.Changed {
			t.Errorf("in the end: %+v", v)
		}
	})
}

// TestP16SchedulePause fails when a paused schedule fires, or when its times count as missed
// once it goes on.
func TestP16SchedulePause(t *testing.T) {
	play(t, func(w *world) {
		w.schedule("s", `{"workflow":"sync","cron":"*/10 * * * *","catch_up":"all"}`)
		w.until("00:15:00")
		if v := w.schedule("s", `{"workflow":"sync","cron":"*/10 * * * *","catch_up":"all","paused":true}`); len(v.Next) != 0 || !v.Paused {
			t.Errorf("paused: %+v", v)
		}
		w.until("00:35:00")
		w.restart()
		w.until("01:15:00")
		w.schedule("s", `{"workflow":"sync","cron":"*/10 * * * *","catch_up":"all"}`)
		w.until("01:25:00")
		w.firedAt("s", "01 00:10:00", "01 01:20:00")
		if v := w.scheduled("s"); v.Missed != 0 {
			t.Errorf("%d times are missed", v.Missed)
		}
	})
}

// TestP16ScheduleIsDropped fails when a schedule that is gone fires or is there, or takes
// its runs with it.
func TestP16S86ScheduleIsDropped(t *testing.T) {
	play(t, func(w *world) {
		w.declare("sync", leased)
		w.schedule("s", `{"workflow":"sync","params":{"k":"a"},"cron":"*/10 * * * *"}`)
		w.until("00:15:00")
		w.unschedule("s")
		for _, f := range []func() error{
			func() error { _, err := w.Schedule(w.life, "s"); return err },
			func() error { _, err := w.DeleteSchedule(w.life, "s"); return err },
			func() error { _, err := w.Schedule(w.life, "never"); return err },
		} {
			if err := f(); !errors.Is(err, flow.ErrUnknownSchedule) {
				t.Errorf("it is gone: %v", err)
			}
		}
		w.until("00:25:00")
		w.restart()
		w.until("00:35:00")
		all := w.firedAt("s", "01 00:10:00")
		w.complete(w.claimRun("sync", "1", all[0].run))
		w.schedule("s", `{"workflow":"sync","params":{"k":"a"},"cron":"*/20 * * * *"}`)
		if v := w.scheduled("s"); v.Runs != 0 || v.LastAt != nil {
			t.Errorf("a new one of that name: %+v", v)
		}
		w.until("00:45:00")
		w.firedAt("s", "01 00:10:00", "01 00:40:00")
	})
}

// TestP16ScheduleList fails when a list lacks a schedule, isn't sorted, or shows another
// state than the schedules themselves.
func TestP16ScheduleList(t *testing.T) {
	play(t, func(w *world) {
		list := func() []wire.ScheduleView {
			return await(w, begin(func() (wire.ScheduleList, error) { return w.Schedules(w.life) })).Schedules
		}
		if all := list(); all == nil || len(all) != 0 {
			t.Errorf("none are %v", all)
		}
		for _, name := range []string{"c", "a", "d", "b"} {
			w.schedule(name, `{"workflow":"sync","params":{"k":"a"},"cron":"*/10 * * * *"}`)
		}
		w.unschedule("d")
		w.until("00:15:00")
		all := list()
		if len(all) != 3 || all[0].Name != "a" || all[1].Name != "b" || all[2].Name != "c" {
			t.Fatalf("the list is %+v", all)
		}
		for _, v := range all {
			one := w.scheduled(v.Name)
			if v.Params != nil || v.Runs != 1 || *v.LastRunID != *one.LastRunID || !slices.Equal(v.Next, one.Next) || string(one.Params) != `{"k":"a"}` {
				t.Errorf("in the list %+v, by itself %+v", v, one)
			}
		}
	})
}

// TestP57ScheduleOutOfRange fails when a schedule that can't be right is taken, or refused
// under another field or family.
func TestP57ScheduleOutOfRange(t *testing.T) {
	play(t, func(w *world) {
		past := number(w.wall().Add(-2 * time.Minute).UnixMilli())
		for _, c := range []struct{ name, text, field string }{
			{"", `{"workflow":"sync","every_seconds":1}`, "name"},
			{strings.Repeat("n", 129), `{"workflow":"sync","every_seconds":1}`, "name"},
			{"s", `{"every_seconds":1}`, "workflow"},
			{"s", `{"workflow":"sync"}`, "cron"},
			{"s", `{"workflow":"sync","cron":"0 0 30 2 *"}`, "cron"},
			{"s", `{"workflow":"sync","cron":"* * * * *","time_zone":"Atlantis"}`, "time_zone"},
			{"s", `{"workflow":"sync","every_seconds":0}`, "every_seconds"},
			{"s", `{"workflow":"sync","every_seconds":-5}`, "every_seconds"},
			{"s", `{"workflow":"sync","every_seconds":0.05}`, "every_seconds"},
			{"s", `{"workflow":"sync","every_seconds":1e300}`, "every_seconds"},
			{"s", `{"workflow":"sync","at_ms":` + past + `}`, "at_ms"},
			{"s", `{"workflow":"sync","at_ms":0}`, "at_ms"},
			{"s", `{"workflow":"sync","at_ms":9223372036854775807}`, "at_ms"},
			{"s", `{"workflow":"sync","every_seconds":1,"start_ms":9223372036854775807}`, "start_ms"},
			{"s", `{"workflow":"sync","every_seconds":1,"catch_up":"some"}`, "catch_up"},
			{"s", `{"workflow":"sync","every_seconds":1,"params":[1]}`, "params"},
			{"s", `{"workflow":"sync","every_seconds":1,"params":{"k":"` + strings.Repeat("x", 64<<10) + `"}}`, "params"},
		} {
			err := w.notScheduled(c.name, c.text)
			if f, ok := errors.AsType[*flow.FieldError](err); !ok || !errors.Is(err, flow.ErrInvalid) || f.Field != c.field {
				t.Errorf("%s: %v, want one of %s", c.text[:min(len(c.text), 80)], err, c.field)
			}
		}
		if n := w.countAll(flow.RecScheduled); n != 0 {
			t.Errorf("%d schedules were kept", n)
		}
		w.schedule("s", `{"workflow":"sync","every_seconds":3600,"start_ms":0}`)
		w.schedule("just", `{"workflow":"sync","at_ms":`+number(w.wall().Add(-5*time.Second).UnixMilli())+`}`)
		w.pass(time.Second)
		if v := w.scheduled("just"); v.Runs != 1 {
			t.Errorf("a time that has just passed: %+v", v)
		}
	})
}

// TestR7ScheduleNamesAreBounded fails when there can be more schedules than there may be,
// or when one that is dropped, or demoted with its shard, keeps its place.
func TestR7ScheduleNamesAreBounded(t *testing.T) {
	setup{shards: 2, chaos: new(uint64(1))}.play(t, func(w *world) {
		actors.SetMaxSchedules(w.Node, 5)
		const daily = `{"workflow":"sync","cron":"@daily"}`
		full := func() {
			t.Helper()
			err := w.notScheduled("z", daily)
			if f, ok := errors.AsType[*flow.FieldError](err); !ok || !errors.Is(err, flow.ErrConfiguration) || f.Field != "name" {
				t.Errorf("one too many: %v", err)
			}
			if counted, there := actors.ScheduleCount(w.Node); counted != 5 || there != 5 {
				t.Errorf("%d schedules are counted, %d there", counted, there)
			}
		}
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			w.schedule(name, daily)
		}
		full()
		w.schedule("a", `{"workflow":"sync","cron":"@weekly"}`) // that exists
		w.unschedule("b")
		w.schedule("f", daily)
		full()
		must(w, w.chaos.Demote(w.Context(), 0, 0))
		must(w, w.chaos.Demote(w.Context(), 1, 0))
		w.settle()
		must(w, w.chaos.Settle(w.Context()))
		w.commit()
		full()
	})
}

// TestR7ScheduleWaitsWhileNewWorkIsRefused fails when a time is lost, or makes a run all
// the same, while the node takes no new work.
func TestR7ScheduleWaitsWhileNewWorkIsRefused(t *testing.T) {
	var full error
	setup{refuse: func() error { return full }}.play(t, func(w *world) {
		w.schedule("s", `{"workflow":"sync","cron":"0 * * * *"}`)
		w.until("00:59:00")
		full = flow.ErrOverloaded
		w.until("01:10:00")
		w.firedAt("s")
		full = nil
		w.until("01:10:02")
		all := w.firedOf("s")
		if len(all) != 1 || all[0].at.Minute() != 0 || all[0].left != 0 {
			t.Errorf("fired %+v", all)
		}
		w.until("02:10:00")
		w.onePerTime("s")
	})
}

// TestLaw1ScheduleAnswersWhenDurable fails when a schedule is acknowledged, shown or gone
// before the entry that makes it so is durable.
func TestLaw1ScheduleAnswersWhenDurable(t *testing.T) {
	setup{manual: true}.play(t, func(w *world) {
		w.schedule("old", `{"workflow":"sync","cron":"@daily"}`)
		put := w.scheduling("s", `{"workflow":"sync","cron":"@daily"}`)
		w.settle()
		again := w.scheduling("s", `{"workflow":"sync","cron":"@daily"}`)
		read := begin(func() (wire.ScheduleView, error) { return w.Schedule(w.life, "s") })
		list := begin(func() (wire.ScheduleList, error) { return w.Schedules(w.life) })
		drop := begin(func() (wire.ScheduleDeleted, error) { return w.DeleteSchedule(w.life, "old") })
		w.pass20ms()
		if put.over() || again.over() || read.over() || list.over() || drop.over() {
			t.Errorf("over: put %t, again %t, read %t, list %t, drop %t", put.over(), again.over(), read.over(), list.over(), drop.over())
		}
		w.commit()
		if !put.value.Changed || again.value.Changed || !read.over() || read.err != nil || !list.over() || !drop.over() {
			t.Errorf("after the commit: %+v %+v %v", put.value, again.value, read.err)
		}
	})
}

// TestScheduleAtALostShard fails when a schedule that a shard couldn't keep is acknowledged, or
// never answered: one whose entry is lost, and one that waited for room.
func TestScheduleAtALostShard(t *testing.T) {
	setup{shards: 1, window: 1, chaos: new(uint64(1))}.play(t, func(w *world) {
		first := w.scheduling("a", `{"workflow":"sync","cron":"@daily"}`)
		w.settle()
		second := w.scheduling("b", `{"workflow":"sync","cron":"@daily"}`)
		w.settle()
		must(w, w.chaos.Demote(w.Context(), 0, 0))
		w.settle()
		if !first.over() || !errors.Is(first.err, flow.ErrOutcomeUnknown) || !second.over() || !errors.Is(second.err, flow.ErrNotReady) {
			t.Errorf("first %t %v, second %t %v", first.over(), first.err, second.over(), second.err)
		}
		must(w, w.chaos.Settle(w.Context()))
		w.commit()
		if all := await(w, begin(func() (wire.ScheduleList, error) { return w.Schedules(w.life) })); len(all.Schedules) != 0 {
			t.Errorf("there are %+v", all)
		}
	})
}
