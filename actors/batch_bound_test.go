package actors_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// TestS78SizeIsExactUnderABurst plays S78: 25 events make two runs of 10 at once and one of 5 at
// the end of the window, in one request and in many that reach the shard in one turn.
func TestS78P37SizeIsExactUnderABurst(t *testing.T) {
	check := func(w *world, from time.Time, runs []string) {
		w.Helper()
		for i, run := range runs {
			if (run != "") != (i == 9 || i == 19) {
				w.Errorf("event %d is answered %q", i, run)
			}
		}
		w.lives("sync", "1", 10*time.Second)
		all := w.cutAt("sync", from, 0, 0, 5*time.Second)
		for i, c := range all {
			want := make([]int, c.count)
			for j := range want {
				want[j] = 10*i + j
			}
			w.madeOf(c.run.String(), "a", want...)
		}
		if all[0].run.String() != runs[9] || all[1].run.String() != runs[19] {
			w.Errorf("the runs are %+v", all)
		}
	}
	t.Run("one request", func(t *testing.T) {
		play(t, func(w *world) {
			w.declare("sync", collect10)
			from := w.wall()
			check(w, from, w.trigger("sync", burst("a", 0, 25)...))
		})
	})
	t.Run("one turn", func(t *testing.T) {
		setup{shards: 1, window: 1, manual: true}.play(t, func(w *world) {
			w.declare("sync", collect10)
			from := w.wall()
			w.submitting(submitOf("other", `{}`)) // takes all the room there is
			w.settle()
			var calls []*call[reply]
			for i := range 25 {
				calls = append(calls, w.triggering("sync", numbered("a", i)))
				w.settle()
			}
			before, _ := w.entries(0)
			w.mem.CommitNext()
			w.settle()
			if after, _ := w.entries(0); len(after) != len(before)+1 {
				t.Errorf("25 events in one inbox made %d entries", len(after)-len(before))
			}
			var runs []string
			for _, c := range calls {
				runs = append(runs, await(w, c).runs[0])
			}
			check(w, from, runs)
		})
	})
}

// TestS78BufferIsBounded fails when a batch takes more events or bytes than its bound, when an
// event that is refused changes anything, or when others of its request aren't taken.
func TestS78P70R8BufferIsBounded(t *testing.T) {
	for name, declaration := range map[string]string{"debounce": debounce5, "collect": collectMany} {
		t.Run(name+", bytes", func(t *testing.T) {
			setup{shards: 2}.play(t, func(w *world) {
				w.declare("sync", declaration)
				from := w.wall()
				sized := func(n, size int) wire.TriggerEvent {
					head := fmt.Sprintf(`{"k":"a","n":%d,"x":"`, n)
					return event(head + string(fill(size-len(head)-2)) + `"}`)
				}
				w.trigger("sync", sized(0, 400<<10), sized(1, 300<<10), sized(2, 67<<10))
				w.pass(time.Second)
				before := w.key("sync", "a")
				r := await(w, w.triggering("sync", sized(3, 1025), numbered("b", 4), sized(5, 1000), sized(6, 25), numbered("b", 7)))
				for i, full := range []bool{true, false, false, true, false} {
					var f *flow.BufferFull
					if errors.As(r.errs[i], &f) != full || (!full && r.errs[i] != nil) {
						t.Fatalf("event %d of the second request: %v", i, r.errs[i])
					}
					if full && (f.Key.Value != "a" || f.Events < 3 || f.Bytes < 767<<10 || f.Room > 5*flow.Second || f.Room < 4*flow.Second) {
						t.Errorf("event %d is refused with %+v", i, *f)
					}
				}
				after := w.key("sync", "a")
				if after.Batch.Events != 4 || after.Batch.Bytes != before.Batch.Bytes+1000 || after.Batch.RunID != before.Batch.RunID {
					t.Errorf("the batch was %+v and is %+v", before.Batch, after.Batch)
				}
				w.trigger("sync", sized(8, 24))
				w.pass(time.Second)
				w.untriggered("sync", nil, sized(9, 24), flow.ErrBufferFull)
				w.untriggered("sync", nil, sized(9, 24), flow.ErrBufferFull) // and it doesn't move the deadline
				if v := w.key("sync", "a").Batch; v.Bytes != flow.MaxBatchBytes || v.Events != 5 {
					t.Errorf("the full batch is %+v", v)
				}
				w.lives("sync", "1", 10*time.Second)
				at := 5 * time.Second
				if name == "debounce" {
					at = 6 * time.Second
				}
				for _, c := range w.cutAt("sync", from, at, 6*time.Second) {
					if c.key == "a" {
						w.madeOf(c.run.String(), "a", 0, 1, 2, 5, 8)
					}
				}
				w.trigger("sync", sized(10, 24))
				w.bounded()
				w.sameAsReplay(w.moment())
			})
		})
	}
	t.Run("count", func(t *testing.T) {
		setup{shards: 1}.play(t, func(w *world) {
			w.declare("sync", `{"version":"1","trigger":{"debounce":{"key":"k","window_seconds":5}}}`)
			for i := range 10 {
				w.trigger("sync", burst("a", 1000*i, 1000)...)
			}
			before := w.key("sync", "a").Batch
			w.pass(time.Second)
			w.untriggered("sync", nil, numbered("a", 10_000), flow.ErrBufferFull)
			if after := w.key("sync", "a").Batch; *after != *before {
				t.Errorf("the batch was %+v and is %+v", before, after)
			}
			w.restart()
			w.untriggered("sync", nil, numbered("a", 10_000), flow.ErrBufferFull)
			w.lives("sync", "1", 5*time.Second)
			if all := w.cuts("sync"); len(all) != 1 || all[0].count != 10_000 {
				t.Fatalf("%+v", all)
			}
			w.trigger("sync", numbered("a", 10_000))
			if g := w.claim("sync", "1", 1); len(g) != 1 || len(g[0].Params) > flow.MaxPayloadBytes {
				t.Errorf("granted %s", names(g))
			}
		})
	})
}

// TestS78MaxBytesCutsWhatIsFull fails when a batch with declared bytes isn't cut by the event
// that reaches them, or when one that doesn't fit any more is refused or is in the wrong run.
func TestS78P33MaxBytesCutsWhatIsFull(t *testing.T) {
	setup{shards: 1}.play(t, func(w *world) {
		w.declare("sync", `{"version":"1","trigger":{"collect":{"key":"k","max_events":9,"window_seconds":5,"max_bytes":600000}}}`)
		sized := func(n, size int) wire.TriggerEvent {
			head := fmt.Sprintf(`{"k":"a","n":%d,"x":"`, n)
			e := event(head + string(fill(size-len(head)-2)) + `"}`)
			e.ID = fmt.Sprint("id", n)
			return e
		}
		runs := w.trigger("sync", sized(0, 300_000), sized(1, 299_999), sized(2, 200_000), sized(3, 100), sized(4, 599_999))
		if runs[0]+runs[1]+runs[2]+runs[3]+runs[4] != "" {
			t.Errorf("events are answered %q", runs) // 2 doesn't fit: it is in the next batch, and fills none; nor does 4
		}
		all := w.cuts("sync")
		if len(all) != 2 {
			t.Fatalf("%d runs", len(all))
		}
		w.madeOf(all[0].run.String(), "a", 0, 1)
		w.madeOf(all[1].run.String(), "a", 2, 3)
		last := w.trigger("sync", sized(5, 100))[0]
		w.madeOf(last, "a", 4, 5)
		both := w.trigger("sync", sized(6, 500_000), sized(7, 700_000)) // 6 goes alone, and 7 is full by itself
		all = w.cuts("sync")
		if len(all) != 5 || both[0] != "" || both[1] != all[4].run.String() {
			t.Fatalf("%q, %d runs", both, len(all))
		}
		w.madeOf(all[3].run.String(), "a", 6)
		w.madeOf(both[1], "a", 7)
		again := w.trigger("sync", sized(0, 300_000), sized(5, 100), sized(6, 500_000), sized(7, 700_000))
		if !slices.Equal(again, []string{"", last, "", both[1]}) {
			t.Errorf("the repeats are answered %q", again)
		}
		w.bounded()
		w.sameAsReplay(w.moment())
	})
}

// TestS78LargestEvent fails when the largest event, with the longest id and key, makes a batch
// that isn't lawful, that a snapshot can't bring back, or that makes no run.
func TestS78P70R8LargestEvent(t *testing.T) {
	for name, trigger := range map[string]string{
		"collect":   `{"collect":{"key":"k","max_events":2,"window_seconds":5}}`,
		"debounce":  `{"debounce":{"key":"k","window_seconds":5}}`,
		"max bytes": `{"collect":{"key":"k","max_events":9,"window_seconds":5,"max_bytes":786432}}`,
	} {
		t.Run(name, func(t *testing.T) {
			setup{shards: 1}.play(t, func(w *world) {
				w.declare("sync", `{"version":"1","limit":{"key":"key","max":1},"trigger":`+trigger+`}`)
				key := string(bytes.Repeat([]byte{1}, flow.MaxKeyBytes)) // six bytes each, as JSON
				head := fmt.Sprintf(`{"k":%s,"n":1,"x":"`, quote(key))
				e := event(head + string(fill(flow.MaxEventBytes-len(head)-2)) + `"}`)
				e.ID = string(fill(flow.MaxEventIDBytes))
				w.trigger("sync", e, e)
				w.check()
				w.snapshotAll()
				w.restart()
				w.check()
				w.trigger("sync", e)
				w.lives("sync", "1", 6*time.Second)
				all := w.cuts("sync")
				if len(all) != 1 {
					t.Fatalf("%d runs", len(all))
				}
				w.madeOf(all[0].run.String(), key, 1)
				w.snapshotAll()
				w.restart()
				if g := w.claim("sync", "1", 1); len(g) != 1 || w.complete(g[0]) != "completed" {
					t.Errorf("granted %s", names(g))
				}
				w.madeOf(w.retried(all[0].run).String(), key, 1)
				w.bounded()
				w.sameAsReplay(w.moment())
			})
		})
	}
}

// TestR5EventsOfOneRequestAreBounded fails when a request of many events makes an entry that is
// larger than one may be: each fills a batch, with keys, ids and bodies of any size.
func TestR5EventsOfOneRequestAreBounded(t *testing.T) {
	long := string(fill(flow.MaxKeyBytes - 10))
	id := string(fill(flow.MaxEventIDBytes - 5))
	for name, of := range map[string]func(i int) wire.TriggerEvent{
		"one key":  func(i int) wire.TriggerEvent { return numbered("a", i) },
		"long":     func(i int) wire.TriggerEvent { return named(fmt.Sprint(long, i), i, fmt.Sprint(id, i)) },
		"one long": func(i int) wire.TriggerEvent { return named(long, i, fmt.Sprint(id, i)) },
		"control": func(i int) wire.TriggerEvent {
			return event(fmt.Sprintf(`{"k":%q,"n":%d}`, fmt.Sprintf("%01010d\x00", i), i))
		},
		"large body": func(i int) wire.TriggerEvent {
			return event(fmt.Sprintf(`{"k":"a%d","n":%d,"x":%q}`, i%7, i, fill(5<<10)))
		},
		"all sizes": func(i int) wire.TriggerEvent {
			size := i % 300
			if i%40 == 0 {
				size = 100_000 + 700*i // up to 783,000
			}
			return event(fmt.Sprintf(`{"k":"a%d","n":%d,"x":%q}`, i%7, i, fill(size)))
		},
	} {
		for _, most := range []int{1, 2} {
			if most == 2 && name != "all sizes" {
				continue
			}
			t.Run(fmt.Sprint(name, ", batches of ", most), func(t *testing.T) {
				setup{shards: 1, manual: true, window: 2}.play(t, func(w *world) {
					w.declare("sync", fmt.Sprintf(`{"version":"1","limit":{"key":"key","max":1},"rate":{"key":"key","per_second":1},"trigger":{"collect":{"key":"k","max_events":%d,"window_seconds":5}}}`, most))
					w.keptAlive("sync", "1")
					const count = 1000
					all := make([]wire.TriggerEvent, count)
					for i := range all {
						all[i] = of(i)
					}
					w.trigger("sync", all...)
					w.bounded()
					if n := w.countAll(flow.RecEvent); n != count {
						t.Errorf("%d events were taken", n)
					}
					if n := w.countAll(flow.RecBatchCut); most == 1 && n != count {
						t.Errorf("%d batches were cut", n)
					}
					entries, _ := w.entries(0)
					for i := range entries {
						if n := len(entries[i].records); n > 512+192 {
							t.Errorf("an entry has %d records", n)
						}
					}
				})
			})
		}
	}
}

// TestR7EventsAreNewWork fails when a shard that has too much to do takes events without bound,
// takes half of a message, or counts what it has done.
func TestR7EventsAreNewWork(t *testing.T) {
	setup{shards: 1, manual: true, window: 1}.play(t, func(w *world) {
		w.declare("sync", collect10)
		w.submitting(submitOf("other", `{}`)) // fills the window
		w.settle()
		const bound = 16_384
		all := make([]wire.TriggerEvent, bound+500)
		for i := range all {
			all[i] = named(fmt.Sprint("k", i%300), i, fmt.Sprint(i))
		}
		flood := w.triggering("sync", all...)
		w.settle()
		more, submit := w.triggering("sync", numbered("a", 1)), w.submitting(submitOf("other", `{}`))
		w.settle()
		refused(w.without(), submit, flow.ErrOverloaded)
		if !more.over() || !errors.Is(more.value.errs[0], flow.ErrOverloaded) {
			t.Errorf("one event more: %+v", more.value)
		}
		if n := actors.NewWork(w.Node, 0); n != bound {
			t.Errorf("%d events are counted, want %d", n, bound)
		}
		over, messages := 0, 0
		for i, err := range await(w, flood).errs {
			switch {
			case errors.Is(err, flow.ErrOverloaded):
				if over++; i%64 == 0 || i == bound {
					messages++
				}
			case err != nil:
				t.Fatal(err)
			case over > 0:
				t.Fatalf("event %d of one shard is taken behind one that was refused", i)
			}
		}
		if over != 500 || messages != 8 {
			t.Errorf("%d events of %d messages were refused", over, messages)
		}
		if n := w.countAll(flow.RecEvent); n != bound || actors.NewWork(w.Node, 0) != 0 {
			t.Errorf("%d events were taken, %d are still counted", n, actors.NewWork(w.Node, 0))
		}
		w.trigger("sync", numbered("a", 1))
		w.bounded()
	})
}

// TestR7NodeThatRefusesNewWork fails when a node that takes no new work takes events, or makes
// runs when time comes, or loses them; for a full disk and for too many runs.
func TestR7P72NodeThatRefusesNewWork(t *testing.T) {
	full := errors.New("the disk is full")
	var refusing atomic.Bool
	how := setup{shards: 2, refuse: func() error {
		if refusing.Load() {
			return full
		}
		return nil
	}}
	how.play(t, func(w *world) {
		w.declare("sync", collect3)
		w.trigger("sync", numbered("a", 1), numbered("b", 2))
		w.keptAlive("sync", "1")
		refusing.Store(true)
		w.untriggered("sync", nil, numbered("a", 3), full)
		w.pass(20 * time.Second)
		if n := len(w.cuts("sync")); n != 0 {
			t.Errorf("%d runs were made", n)
		}
		if n := actors.TimerEntries(w.Node); n > 2 {
			t.Errorf("%d timers for two keys", n)
		}
		refusing.Store(false)
		w.keptAlive("sync", "1")
		w.pass(2 * time.Second)
		all := w.cuts("sync")
		if len(all) != 2 {
			t.Fatalf("%d runs when there is room again", len(all))
		}
		for _, c := range all {
			w.madeOf(c.run.String(), c.key, map[string]int{"a": 1, "b": 2}[c.key])
		}
		w.trigger("sync", numbered("a", 3))
	})
}

// TestR7R8OpenBatchesAreRunsToCome fails when events open more batches than there may be runs,
// also within one request and over a change of owners; when a batch that is open takes no more events,
// or isn't fired, because the node is full; or when the room isn't there again afterwards.
func TestR7R8OpenBatchesAreRunsToCome(t *testing.T) {
	setup{shards: 1, maxRuns: 5, recentRuns: 1, recentFor: flow.Second}.play(t, func(w *world) {
		w.declare("sync", collect3)
		events := make([]wire.TriggerEvent, 8)
		for i := range events {
			events[i] = numbered(fmt.Sprint("k", i), i)
		}
		count := func() (taken int) {
			_, errs := w.Trigger(w.life, "sync", nil, events)
			for _, err := range errs {
				if err == nil {
					taken++
				} else if !errors.Is(err, flow.ErrOverloaded) {
					t.Fatal(err)
				}
			}
			return taken
		}
		if n := count(); n != 5 {
			t.Errorf("%d of 8 keys have an open batch where 5 runs may be", n)
		}
		w.restart()
		if n := count(); n != 5 {
			t.Errorf("%d of 8 events were taken by batches that are open", n)
		}
		w.maxRuns = 3 // what is gathered is owed all the same
		w.restart()
		w.keptAlive("sync", "1")
		w.pass(6 * time.Second)
		if n := len(w.cuts("sync")); n != 5 {
			t.Errorf("%d of 5 batches have fired at a node that is full", n)
		}
		w.untriggered("sync", nil, numbered("k0", 9), flow.ErrOverloaded)
		for _, g := range w.claim("sync", "1", 5) {
			w.complete(g)
		}
		w.pass(3 * time.Second) // they leave memory
		w.trigger("sync", numbered("k0", 9))
	})
}

// TestR8BufferedBytesAreBounded fails when all open batches together hold more than they may, or
// when a cut doesn't make room.
func TestR8BufferedBytesAreBounded(t *testing.T) {
	setup{shards: 2, maxBuffered: 1000}.play(t, func(w *world) {
		w.declare("sync", collect3)
		large := func(key string) wire.TriggerEvent { return event(fmt.Sprintf(`{"k":%q,"x":%q}`, key, fill(300))) }
		first := large("a")
		first.ID = "7"
		w.trigger("sync", first, large("a"), large("b"))
		w.untriggered("sync", nil, large("a"), flow.ErrOverloaded)
		w.trigger("sync", first) // a repeat needs no room
		w.restart()
		w.untriggered("sync", nil, large("c"), flow.ErrOverloaded)
		w.trigger("sync", event(`{"k":"a"}`)) // it fills its batch
		w.trigger("sync", large("c"))
	})
}
