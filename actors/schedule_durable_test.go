package actors_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// TestP16ScheduleAfterDowntime fails when times that came while the node was down get more
// or fewer runs than their policy says, or aren't counted.
func TestP16ScheduleAfterDowntime(t *testing.T) {
	for policy, want := range map[string]struct {
		times []string
		left  int64
	}{
		"one":  {[]string{"01 00:10:00", "01 03:10:00", "01 03:20:00"}, 17},
		"none": {[]string{"01 00:10:00", "01 03:20:00"}, 18},
		"all": {[]string{
			"01 00:10:00", "01 00:20:00", "01 00:30:00", "01 00:40:00", "01 00:50:00", "01 01:00:00", "01 01:10:00",
			"01 01:20:00", "01 01:30:00", "01 01:40:00", "01 01:50:00", "01 02:00:00", "01 02:10:00", "01 02:20:00",
			"01 02:30:00", "01 02:40:00", "01 02:50:00", "01 03:00:00", "01 03:10:00", "01 03:20:00",
		}, 0},
	} {
		t.Run(policy, func(t *testing.T) {
			play(t, func(w *world) {
				w.schedule("s", `{"workflow":"sync","cron":"*/10 * * * *","catch_up":"`+policy+`"}`)
				w.until("00:15:00")
				w.fall(0)
				<-time.After(3 * time.Hour)
				w.open()
				w.serves()
				w.until("03:25:00")
				w.restart()
				var got []string
				for _, f := range w.firedOf("s") {
					if !f.run.IsZero() {
						got = append(got, f.at.Format("02 15:04:05"))
					}
				}
				if !slices.Equal(got, want.times) {
					t.Errorf("runs for %q, want %q", got, want.times)
				}
				w.onePerTime("s")
				if v := w.scheduled("s"); v.Runs != int64(len(got)) || v.Missed != want.left {
					t.Errorf("%+v, want %d left out", v, want.left)
				}
			})
		})
	}
}

// TestP16ScheduleCatchUpIsBounded fails when a long downtime makes more runs than its bound,
// or runs for other times than the latest.
func TestP16ScheduleCatchUpIsBounded(t *testing.T) {
	if wire.MaxCatchUp != 100 {
		t.Fatalf("the wire says %d", wire.MaxCatchUp)
	}
	play(t, func(w *world) {
		w.schedule("s", `{"workflow":"sync","cron":"* * * * *","catch_up":"all"}`)
		w.pass(30 * time.Second)
		w.fall(0)
		<-time.After(100 * 24 * time.Hour)
		w.open()
		w.serves()
		w.pass(10 * time.Second)
		all := w.firedOf("s")
		if len(all) != 100 || w.scheduled("s").Missed != 100*24*60-100 {
			t.Fatalf("%d runs, %+v", len(all), w.scheduled("s"))
		}
		first, last := all[0].at, all[99].at
		if last != w.wall().Truncate(time.Minute) || last.Sub(first) != 99*time.Minute {
			t.Errorf("the runs are for %s to %s, it is %s", first, last, w.wall())
		}
		w.onePerTime("s")
	})
}

// TestP16ScheduleRestart fails when a restart at any moment loses a time or makes two runs
// for one.
func TestP16ScheduleRestart(t *testing.T) {
	play(t, func(w *world) {
		w.schedule("s", `{"workflow":"sync","cron":"* * * * *"}`)
		w.schedule("t", `{"workflow":"sync","every_seconds":7}`)
		rng := rand.New(rand.NewPCG(11, 0))
		for range 40 {
			w.pass(time.Duration(rng.IntN(20_000)) * time.Millisecond)
			w.restart()
		}
		w.onePerTime("s", "t")
		end := w.wall()
		for name, period := range map[string]time.Duration{"s": time.Minute, "t": 7 * time.Second} {
			v := w.scheduled(name)
			if n := int64(end.Sub(end.Truncate(24*time.Hour)) / period); v.Runs != n || v.Missed != 0 {
				t.Errorf("%s made %d runs and left %d out of %d times", name, v.Runs, v.Missed, n)
			}
		}
	})
}

// TestD5_2P16ScheduleKilledInItsTurn fails when a kill between any two commits around a time
// loses its run or makes two, with the run in the schedule's shard and in another.
func TestP16R6ScheduleKilledInItsTurn(t *testing.T) {
	for home := range 2 {
		for commits := range 5 {
			for keep := range 4 {
				setup{shards: 2, manual: true}.play(t, func(w *world) {
					w.declare("sync", leased)
					name := w.textIn(0, "s")
					w.schedule(name, `{"workflow":"sync","params":{"k":"`+w.keyIn(shardID(home), "sync", "k")+`"},"cron":"*/10 * * * *","catch_up":"all"}`)
					<-time.After(10*time.Minute + 10*time.Millisecond)
					w.settle()
					if w.mem.Queued() == 0 {
						t.Fatal("nothing has fired")
					}
					for range commits {
						w.mem.CommitNext()
						w.settle()
					}
					w.crash(keep)
					w.serves()
					w.pass(2 * time.Second)
					w.firedOnce(name, "01 00:10:00")
					w.pass(10 * time.Minute)
					w.firedOnce(name, "01 00:10:00", "01 00:20:00")
				})
			}
		}
	}
}

// firedOnce fails unless a schedule has exactly one run for each of these times, whenever
// it was made.
func (w *world) firedOnce(name string, want ...string) {
	w.Helper()
	var got []string
	for _, f := range w.firedOf(name) {
		got = append(got, f.at.Format("02 15:04:05"))
	}
	if !slices.Equal(got, want) {
		w.Errorf("schedule %s has fired for %q, want %q", name, got, want)
	}
	w.onePerTime(name)
	if n := len(w.list(wire.ListQuery{})); n != len(want) {
		w.Errorf("there are %d runs for %d times", n, len(want))
	}
}

// TestP16ScheduleOwnersChange fails when a time has no run or two while shards lose their
// ownership and the ends of their logs at random.
func TestP16R6ScheduleOwnersChange(t *testing.T) {
	for number := range uint64(letterTrials) {
		setup{shards: 2, chaos: &number}.play(t, func(w *world) {
			rng := rand.New(rand.NewPCG(number, 5))
			ctx := w.Context()
			w.declare("sync", leased)
			names := []string{w.textIn(0, "s"), w.textIn(1, "s"), w.textIn(0, "t")}
			for _, name := range names {
				w.schedule(name, `{"workflow":"sync","params":{"k":"`+name+`"},"cron":"* * * * *","catch_up":"all"}`)
			}
			for range 60 {
				for range rng.IntN(6) {
					must(w, w.chaos.Step(ctx))
					w.settle()
				}
				<-time.After(time.Duration(rng.IntN(40_000)) * time.Millisecond)
				w.settle()
			}
			must(w, w.chaos.Settle(ctx))
			for range 20 {
				w.pass(time.Second)
			}
			w.onePerTime(names...)
			for _, name := range names {
				all := w.firedOf(name)
				for i, f := range all {
					if want := all[0].at.Add(time.Duration(i) * time.Minute); f.at != want || f.left != 0 {
						w.Fatalf("number %d of %s is for %s with %d left out, want %s", i, name, f.at, f.left, want)
					}
				}
				if last := all[len(all)-1].at; w.wall().Sub(last) > time.Minute {
					w.Errorf("the last time of %s was %s, it is %s", name, last, w.wall())
				}
			}
		})
	}
}

// TestR2ScheduleWaitsForWallAndShardTime fails when a time comes before the wall has reached
// it, or before shard time has.
func TestR2ScheduleWaitsForWallAndShardTime(t *testing.T) {
	play(t, func(w *world) {
		w.schedule("s", `{"workflow":"sync","cron":"10 * * * *"}`)
		w.until("00:05:00")
		w.clock.step(-10 * flow.Minute)
		w.pass(7 * time.Minute)
		w.firedAt("s") // shard time is at 0:11:39, and the wall at 0:02
		w.pass(9 * time.Minute)
		if all := w.firedOf("s"); len(all) != 1 {
			t.Errorf("fired %+v", all)
		}
	})
	play(t, func(w *world) {
		w.schedule("s", `{"workflow":"sync","cron":"10 * * * *"}`)
		w.until("00:05:00")
		w.clock.step(flow.Hour)
		w.pass(4 * time.Minute)
		w.firedAt("s") // the wall is at 1:09, and shard time at 0:09 and some seconds
		w.pass(time.Minute)
		if all := w.firedOf("s"); len(all) != 1 || all[0].at.Hour() != 0 {
			t.Errorf("fired %+v", all)
		}
		w.restart() // now shard time is the wall's
		w.pass(time.Minute)
		w.onePerTime("s")
	})
}

// TestS84ScheduleOfTheFarFuture fails when a time in many years is lost, or spins.
func TestS84ScheduleOfTheFarFuture(t *testing.T) {
	play(t, func(w *world) {
		at := time.Date(2150, 1, 1, 0, 0, 0, 0, time.UTC)
		w.schedule("at", `{"workflow":"sync","at_ms":`+number(at.UnixMilli())+`}`)
		w.schedule("leap", `{"workflow":"sync","cron":"0 0 29 2 *","time_zone":"America/New_York"}`)
		w.schedule("every", `{"workflow":"sync","every_seconds":3153600000}`)
		w.pass(time.Hour)
		w.turnTo("2150-01-01 00:00:00")
		w.pass(time.Second)
		for _, name := range []string{"at", "every", "leap"} {
			if v := w.scheduled(name); v.Runs != 1 {
				t.Errorf("%s: %+v", name, v)
			}
		}
		w.onePerTime("at", "leap", "every")
	})
}

// TestR5ManySchedulesOfOneInstant fails when many schedules of one due time stop a shard:
// when they make an entry without a bound, or when nothing else is done meanwhile; or when
// one of them is forgotten.
func TestR5ManySchedulesOfOneInstant(t *testing.T) {
	const many = 1500
	setup{shards: 1, window: 2, manual: true}.play(t, func(w *world) {
		w.declare("sync", `{"version":"1","rate":{"key":"k","per_second":1}}`)
		names := w.scheduleMany(many, `{"workflow":"sync","params":{"k":"a"},"cron":"0 1 * * *"}`)
		before, _ := w.entries(0)
		w.until("00:59:59")
		<-time.After(time.Second + time.Millisecond) // some have fired, and the log is full
		w.settle()
		submit := w.submit("sync", `{"k":"b"}`)
		w.pass(time.Second)
		all, _ := w.entries(0)
		fired, behind := 0, 0
		for _, e := range all[len(before):] {
			n := countKind([]entry{e}, flow.RecScheduleFired)
			if n > 128 || len(e.records) > 512+256 || len(e.Body) > 2<<20 {
				t.Errorf("an entry has %d fires, %d records and %d bytes", n, len(e.records), len(e.Body))
			}
			fired += n
			if slices.Contains(e.kinds(submit), flow.RecSubmitted) {
				behind = fired
			}
		}
		if fired != many || behind == 0 || behind == many {
			t.Errorf("%d of %d have fired, %d before a submit that came after the first", fired, many, behind)
		}
		w.onePerTime(names...)
		if n := actors.TimerEntries(w.Node); n > many+10 {
			t.Errorf("%d timers for %d schedules", n, many)
		}
	})
}

// TestR5TicksDoNotPileUp fails when a shard whose log has no room is ticked again and again
// for a time that has come.
func TestR5TicksDoNotPileUp(t *testing.T) {
	setup{shards: 1, window: 1, manual: true}.play(t, func(w *world) {
		w.schedule("s", `{"workflow":"sync","every_seconds":1}`)
		w.scheduling("other", `{"workflow":"sync","cron":"@daily"}`)
		w.settle() // it takes all the room there is
		<-time.After(5 * time.Second)
		w.settle()
		if n := actors.Waiting(w.Node, 0); n > 2 {
			t.Errorf("%d messages wait", n)
		}
		w.pass(time.Second)
		w.pass(time.Second)
		w.onePerTime("s")
		if v := w.scheduled("s"); v.Runs < 2 {
			t.Errorf("it has stopped: %+v", v)
		}
	})
}

// scheduleMany puts many schedules of one definition, all at once.
func (w *world) scheduleMany(n int, text string) []string {
	w.Helper()
	names := make([]string, n)
	await(w, begin(func() (any, error) {
		errs := make([]error, n)
		done := make(chan struct{})
		for i := range names {
			names[i] = fmt.Sprintf("s%04d", i)
			go func() {
				var s wire.Schedule
				errs[i] = json.Unmarshal([]byte(text), &s)
				s.Name = names[i]
				if errs[i] == nil {
					_, errs[i] = w.PutSchedule(w.life, s)
				}
				done <- struct{}{}
			}()
		}
		for range names {
			<-done
		}
		return nil, errors.Join(errs...)
	}))
	return names
}

// TestR5ScheduleEntriesAreBoundedByBytes fails when large params of many schedules of one due
// time make one entry.
func TestR5ScheduleEntriesAreBoundedByBytes(t *testing.T) {
	setup{shards: 1}.play(t, func(w *world) {
		params := fmt.Sprintf(`{"blob":%q}`, bytes.Repeat([]byte("x"), 60<<10))
		names := w.scheduleMany(60, `{"workflow":"sync","params":`+params+`,"cron":"0 1 * * *"}`)
		w.pass(time.Hour + time.Second)
		w.onePerTime(names...)
		all, _ := w.entries(0)
		if n := countKind(all, flow.RecScheduleFired); n != 60 {
			t.Errorf("%d have fired", n)
		}
		for _, e := range all {
			if len(e.Body) > 2<<20 {
				t.Errorf("an entry has %d bytes", len(e.Body))
			}
		}
	})
}

// TestScheduleInAnUnknownZone fails when a schedule whose time zone a machine doesn't know
// ends the process, spins or is silent.
func TestScheduleInAnUnknownZone(t *testing.T) {
	play(t, func(w *world) {
		w.schedule("s", `{"workflow":"sync","cron":"0 1 * * *","time_zone":"Europe/Sofia"}`)
		must(w, actors.LoseZones(w.Context(), w.Node))
		w.pass(24 * time.Hour)
		v := w.scheduled("s")
		if v.LastError == nil || v.Runs != 0 || len(v.Next) != 0 {
			t.Errorf("in an unknown zone: %+v", v)
		}
		w.restart()
		v = w.schedule("s", `{"workflow":"sync","cron":"30 1 * * *","time_zone":"Europe/Sofia"}`)
		if v.LastError != nil || len(v.Next) == 0 {
			t.Errorf("declared anew: %+v", v)
		}
	})
}

// TestScheduleZonesAreKept fails when a time zone is read more than once, or one that isn't
// known is kept.
func TestScheduleZonesAreKept(t *testing.T) {
	play(t, func(w *world) {
		a, err := actors.FindZone(w.Node, "Europe/Sofia")
		if err != nil {
			t.Fatal(err)
		}
		if b, err := actors.FindZone(w.Node, "Europe/Sofia"); err != nil || a != b {
			t.Errorf("it was read again: %v", err)
		}
		for range 2 {
			if _, err := actors.FindZone(w.Node, "Atlantis"); err == nil {
				t.Error("Atlantis is found")
			}
		}
	})
}
