package actors_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// benchEvents declares a trigger on a node over a forgetful engine.
func benchEvents(b *testing.B, trigger string, cfg actors.Config) *world {
	b.Helper()
	w := benchNode(b, 16, cfg)
	if _, err := w.Declare(b.Context(), "events", w.declaration(`{"version":"1","trigger":`+trigger+`}`)); err != nil {
		b.Fatal(err)
	}
	return w
}

// bodyOf is an event of about 100 bytes.
func bodyOf(key, n int) wire.TriggerEvent {
	return wire.TriggerEvent{Body: fmt.Appendf(nil, `{"k":"key-%07d","n":%9d,"text":"some words that make an event of a hundred bytes, no more"}`, key, n)}
}

// mustTrigger sends events that are all taken.
func (w *world) mustTrigger(b *testing.B, events []wire.TriggerEvent) {
	_, errs := w.Trigger(w.life, "events", nil, events)
	if err := errors.Join(errs...); err != nil {
		b.Error(err)
	}
}

// BenchmarkEvents sends requests of 100 events over 1,000 keys from 16 senders.
func BenchmarkEvents(b *testing.B) {
	for _, c := range []struct{ name, trigger string }{
		{"collect", `{"collect":{"key":"k","max_events":1000,"window_seconds":3600}}`},
		{"debounce", `{"debounce":{"key":"k","window_seconds":0.05,"max_wait_seconds":1}}`},
	} {
		for _, ids := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/ids=%t", c.name, ids), func(b *testing.B) {
				w := benchEvents(b, c.trigger, actors.Config{RecentRuns: 100, RecentFor: flow.Second, Archive: &sinkArchive{}})
				w.benchWorker(b)
				var next, left atomic.Int64
				left.Store(int64(b.N))
				b.ResetTimer()
				cpu := processorTime(b)
				var all sync.WaitGroup
				for range 16 {
					all.Go(func() {
						for left.Add(-1) >= 0 {
							events := make([]wire.TriggerEvent, 100)
							for i := range events {
								n := int(next.Add(1))
								events[i] = bodyOf(n%1000, n)
								if ids {
									events[i].ID = fmt.Sprint("event-", n)
								}
							}
							w.mustTrigger(b, events)
						}
					})
				}
				all.Wait()
				b.ReportMetric(100*float64(b.N)/b.Elapsed().Seconds(), "events/s")
				b.ReportMetric(float64((processorTime(b)-cpu).Nanoseconds())/float64(100*b.N), "cpu-ns/event")
			})
		}
	}
}

// benchWorker is a worker that ends whatever there is to do, until the benchmark is over.
func (w *world) benchWorker(b *testing.B) {
	done := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			out, err := w.Claim(w.life, wire.Claim{Worker: "w", Credit: 100, WaitMS: 20, Workflows: []wire.ClaimWorkflow{{Name: "events", Version: "1"}}})
			if err != nil {
				return
			}
			ends := make([]wire.Completion, len(out.Runs))
			for i, g := range out.Runs {
				ends[i] = wire.Completion{RunID: g.RunID, Fence: g.Fence}
			}
			if len(ends) > 0 {
				if _, errs := w.Complete(w.life, ends); errors.Join(errs...) != nil && w.life.Err() == nil {
					b.Error(errors.Join(errs...))
				}
			}
		}
	}()
	b.Cleanup(func() {
		close(stop)
		<-done
	})
}

// liveHeap is the heap in use after a collection.
func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// processorTime is what the process has used so far.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// openWindows opens a batch of one event for each of the keys.
func (w *world) openWindows(b *testing.B, keys int, ids bool) {
	for i := 0; i < keys; i += 1000 {
		events := make([]wire.TriggerEvent, min(1000, keys-i))
		for j := range events {
			events[j] = bodyOf(i+j, 0)
			if ids {
				events[j].ID = fmt.Sprint("event-", i+j)
			}
		}
		w.mustTrigger(b, events)
	}
}

// BenchmarkOpenWindows has a million keys with an open window each: the heap for each, and
// what they cost while nothing happens.
func BenchmarkOpenWindows(b *testing.B) {
	for _, ids := range []bool{false, true} {
		b.Run(fmt.Sprintf("ids=%t", ids), func(b *testing.B) {
			const keys = 1_000_000
			for b.Loop() {
				before := liveHeap()
				w := benchEvents(b, `{"collect":{"key":"k","max_events":1000,"window_seconds":86400}}`, actors.Config{})
				begin := time.Now()
				w.openWindows(b, keys, ids)
				b.ReportMetric(keys/time.Since(begin).Seconds(), "events/s")
				b.ReportMetric(float64(liveHeap()-before)/keys, "B/key")
				cpu := processorTime(b)
				<-time.After(3 * time.Second)
				b.ReportMetric(float64((processorTime(b)-cpu).Microseconds())/3000, "cpu-ms/s")
			}
		})
	}
}

// BenchmarkDueAtOnce has batches of 100,000 keys become due in one moment, with a worker alive:
// how long it takes until the last is a run.
func BenchmarkDueAtOnce(b *testing.B) {
	const keys = 100_000
	for b.Loop() {
		late := new(lateness)
		w := benchEvents(b, `{"collect":{"key":"k","max_events":1000,"window_seconds":3}}`, actors.Config{Observer: late})
		begin := time.Now()
		w.openWindows(b, keys, false)
		if took := time.Since(begin); took > 3*time.Second {
			b.Fatalf("it took %s to open the windows", took)
		}
		if _, err := w.Claim(w.life, wire.Claim{Worker: "w", Workflows: []wire.ClaimWorkflow{{Name: "events", Version: "1"}}}); err != nil {
			b.Fatal(err)
		}
		for late.fired.Load() < keys {
			<-time.After(time.Millisecond)
		}
		b.ReportMetric(float64(late.most.Load())/1e6, "ms-late")
	}
}

// lateness is an Observer of fires.
type lateness struct {
	actors.Observer
	fired, most atomic.Int64
}

// BatchFired implements actors.Observer.
func (l *lateness) BatchFired(f actors.BatchFired) {
	for have := l.most.Load(); int64(f.Late) > have; have = l.most.Load() {
		if l.most.CompareAndSwap(have, int64(f.Late)) {
			break
		}
	}
	l.fired.Add(1)
}

// Events implements actors.Observer.
func (*lateness) Events(string, actors.EventCount) {}
