package actors_test

import (
	"cmp"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// scheduling puts a schedule and doesn't wait.
func (w *world) scheduling(name, text string) *call[wire.ScheduleView] {
	s := wire.Schedule{Name: name}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		w.Error(err)
	}
	return begin(func() (wire.ScheduleView, error) { return w.PutSchedule(w.life, s) })
}

// schedule puts a schedule from its JSON.
func (w *world) schedule(name, text string) wire.ScheduleView {
	w.Helper()
	return await(w, w.scheduling(name, text))
}

// notScheduled fails unless a schedule is refused, and returns why.
func (w *world) notScheduled(name, text string) error {
	w.Helper()
	c := w.scheduling(name, text)
	w.commit()
	if <-c.done; c.err == nil {
		w.Errorf("schedule %s is taken: %s", name, text)
	}
	return c.err
}

// scheduled is a schedule as it stands.
func (w *world) scheduled(name string) wire.ScheduleView {
	w.Helper()
	return await(w, begin(func() (wire.ScheduleView, error) { return w.Schedule(w.life, name) }))
}

// unschedule drops a schedule.
func (w *world) unschedule(name string) {
	w.Helper()
	await(w, begin(func() (wire.ScheduleDeleted, error) { return w.DeleteSchedule(w.life, name) }))
}

// fired is a time of a schedule that was acted on.
type fired struct {
	at   time.Time // that it was for; zero for none
	when time.Time // by shard time
	run  flow.RunID
	left int
	err  string
}

// firedOf are the times of a schedule that its shard's log tells of, in order.
func (w *world) firedOf(name string) []fired {
	w.Helper()
	return w.allFired()[name]
}

// allFired are those of all schedules.
func (w *world) allFired() map[string][]fired {
	w.Helper()
	out := map[string][]fired{}
	for s := range engine.ShardID(w.shards) {
		all, _ := w.entries(s)
		for i := range all {
			for _, r := range all[i].records {
				if r.Kind != flow.RecScheduleFired {
					continue
				}
				f := fired{when: time.Unix(0, all[i].Wall).UTC(), run: r.Run, left: int(r.Number), err: r.ErrText}
				if r.Order != 0 {
					f.at = time.Unix(0, int64(r.Order)).UTC()
				}
				out[r.Origin] = append(out[r.Origin], f)
			}
		}
	}
	return out
}

// firedAt fails unless a schedule has made runs for exactly these times, each at its time,
// and all of the runs are there.
func (w *world) firedAt(name string, want ...string) []fired {
	w.Helper()
	var got []string
	all := w.firedOf(name)
	for _, f := range all {
		got = append(got, f.at.Format("02 15:04:05"))
		if late := f.when.Sub(f.at); late < 0 || late > time.Millisecond {
			w.Errorf("schedule %s fired at %s for %s", name, f.when, f.at)
		}
	}
	if !slices.Equal(got, want) {
		w.Fatalf("schedule %s has fired for %q, want %q", name, got, want)
	}
	w.onePerTime(name)
	return all
}

// onePerTime fails unless every time of a schedule that got a run has exactly one, and the
// runs of its workflow that a schedule made are those.
func (w *world) onePerTime(names ...string) {
	w.Helper()
	var said []flow.RunID
	all := w.allFired()
	for _, name := range names {
		last := time.Time{}
		for _, f := range all[name] {
			if f.run.IsZero() {
				continue
			}
			if !f.at.After(last) {
				w.Errorf("schedule %s made a run for %s after one for %s", name, f.at, last)
			}
			last = f.at
			said = append(said, f.run)
		}
	}
	var made []flow.RunID
	for _, r := range w.scheduledRuns() {
		made = append(made, r.run)
	}
	slices.SortFunc(said, flow.RunID.Compare)
	if !slices.Equal(said, made) {
		w.Errorf("schedules say that they made the runs %s, there are %s", said, made)
	}
}

// scheduledRun is a run that a schedule made, and no successor of one.
type scheduledRun struct {
	run    flow.RunID
	origin string
	params string
}

// scheduledRuns are all of them in all logs, by id.
func (w *world) scheduledRuns() []scheduledRun {
	w.Helper()
	var out []scheduledRun
	for s := range engine.ShardID(w.shards) {
		all, _ := w.entries(s)
		for i := range all {
			for _, r := range all[i].records {
				if r.Kind == flow.RecSubmitted && r.Trigger == "schedule" && r.Other.IsZero() {
					out = append(out, scheduledRun{r.Run, r.Origin, string(r.Payload)})
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b scheduledRun) int { return cmp.Or(a.run.Compare(b.run), cmp.Compare(a.origin, b.origin)) })
	return out
}

// playOn is play at a date: the world begins at it.
func (s setup) playOn(t *testing.T, date string, f func(w *world)) {
	t.Helper()
	s.play(t, func(w *world) {
		w.turnTo(date)
		f(w)
	})
}

// turnTo restarts the node at a date to come, with nothing lost.
func (w *world) turnTo(date string) {
	w.Helper()
	at, err := time.ParseInLocation("2006-01-02 15:04:05", date, time.UTC)
	if err != nil {
		w.Fatal(err)
	}
	w.commit()
	w.fall(0)
	w.clock.step(flow.Instant(at.UnixNano()).Sub(w.clock.Wall()))
	w.open()
	w.serves()
}

// wall is the time of day.
func (w *world) wall() time.Time { return time.Unix(0, int64(w.clock.Wall())).UTC() }

// until lets time pass until a time of this day.
func (w *world) until(clock string) {
	w.Helper()
	now := w.wall()
	at, err := time.ParseInLocation("2006-01-02 15:04:05", now.Format("2006-01-02 ")+clock, time.UTC)
	if err != nil || at.Before(now) {
		w.Fatalf("it is %s, and %s isn't to come: %v", now, clock, err)
	}
	w.pass(at.Sub(now))
}
