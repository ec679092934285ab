package actors_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// TestReplayOfSchedulesMakesWhatWas fails when the entries of a shard, up to any point, don't
// make the schedules that were there; over random changes with restarts.
func TestReplayOfSchedulesMakesWhatWas(t *testing.T) {
	for number := range uint64(trafficTrials) {
		setup{shards: 2}.play(t, func(w *world) {
			p := newPlanner(w, number)
			var moments []moment
			for i := range 150 {
				p.step()
				if i%10 == 9 {
					moments = append(moments, w.moment())
				}
				if i%70 == 69 {
					w.restart()
				}
			}
			for _, m := range moments {
				w.sameAsReplay(m)
			}
			w.onePerTime(p.names...)
			w.restart()
			w.sameAsReplay(w.moment())
		})
	}
}

// planner changes schedules at random and lets time pass.
type planner struct {
	w     *world
	rng   *rand.Rand
	names []string
}

func newPlanner(w *world, number uint64) *planner {
	p := &planner{w: w, rng: rand.New(rand.NewPCG(number, 13))}
	w.declare("sync", leased)
	w.declare("odd", `{"version":"1","limit":{"key":"k","max":1}}`)
	for i := range 12 {
		p.names = append(p.names, fmt.Sprint("s", i))
	}
	return p
}

// plans are definitions, some of which come to their end.
var plans = []string{
	`"cron":"* * * * *"`, `"cron":"*/3 * * * *","time_zone":"America/New_York"`, `"every_seconds":7`,
	`"every_seconds":31,"start_ms":12345`, `"cron":"* * * * *","paused":true`, `"every_seconds":11,"catch_up":"none"`,
	`"every_seconds":9,"catch_up":"all"`,
}

func (p *planner) step() {
	name := p.names[p.rng.IntN(len(p.names))]
	switch n := p.rng.IntN(20); {
	case n < 8:
		plan := plans[p.rng.IntN(len(plans))]
		if p.rng.IntN(6) == 0 {
			plan = `"at_ms":` + number(p.w.wall().Add(time.Duration(p.rng.IntN(60))*time.Second).UnixMilli())
		}
		p.w.schedule(name, fmt.Sprintf(`{"workflow":"%s","params":{"k":"%d"},%s}`, []string{"sync", "odd"}[p.rng.IntN(2)], p.rng.IntN(3), plan))
	case n < 10:
		c := begin(func() (wire.ScheduleDeleted, error) { return p.w.DeleteSchedule(p.w.life, name) })
		p.w.commit()
		if <-c.done; c.err != nil && !errors.Is(c.err, flow.ErrUnknownSchedule) {
			p.w.Error(c.err)
		}
	case n == 10: // its keys become a function's, and back
		key := []string{`"k"`, `{"function":"f"}`}[p.rng.IntN(2)]
		p.w.declare("odd", fmt.Sprintf(`{"version":"%d","limit":{"key":%s,"max":1}}`, 2+p.rng.IntN(100), key))
		if key != `"k"` {
			p.w.pass(20 * time.Second)
			p.w.declare("odd", `{"version":"1000","limit":{"key":"k","max":1}}`)
		}
	default:
		p.w.pass(time.Duration(p.rng.IntN(20_000)) * time.Millisecond)
	}
}

// TestR9SnapshotOfSchedules fails when a snapshot holds something of what became of schedules
// while it was walked, or lacks something of what was before.
func TestR9SnapshotOfSchedules(t *testing.T) {
	for number := range uint64(trafficTrials) {
		setup{shards: 1}.play(t, func(w *world) {
			p := newPlanner(w, number)
			crowd := w.scheduleMany(700, `{"workflow":"sync","params":{"k":"a"},"cron":"0 * * * *"}`)
			for range 30 {
				p.step()
			}
			data := &sliced{behind: func(slice int) {
				if slice > 12 {
					return
				}
				for range 8 {
					p.step()
				}
				w.unschedule(crowd[slice*20])
				w.unschedule(crowd[len(crowd)-slice])
				w.schedule(fmt.Sprint("new", slice), `{"workflow":"sync","every_seconds":5}`)
				w.schedule(crowd[slice*20+300], `{"workflow":"sync","cron":"* * * * *"}`)
			}}
			b := w.walk(data)
			if len(data.sizes) < 3 {
				t.Errorf("the walk had %d slices", len(data.sizes))
			}
			w.sameAsSnapshot(0, b, data.Bytes())
			w.walked(nil)
			w.restart()
			w.sameAsReplay(w.moment())
		})
	}
}

// TestR9ScheduleFromASnapshotGoesOn fails when a schedule that is restored from a snapshot
// fires at another time, or forgets what it has done.
func TestR9ScheduleFromASnapshotGoesOn(t *testing.T) {
	setup{shards: 1}.play(t, func(w *world) {
		w.until("00:00:10")
		w.schedule("s", `{"workflow":"sync","every_seconds":60}`) // from its declaration on
		w.schedule("paused", `{"workflow":"sync","every_seconds":60,"paused":true}`)
		w.until("00:01:30")
		before := w.scheduled("s")
		w.snapshots()
		w.restart()
		after := w.scheduled("s")
		if after.Runs != 1 || after.CreatedAt != before.CreatedAt || *after.LastRunID != *before.LastRunID || !slices.Equal(after.Next, before.Next) {
			t.Errorf("before %+v\nafter %+v", before, after)
		}
		w.until("00:02:30")
		w.firedAt("s", "01 00:01:10", "01 00:02:10")
	})
}
