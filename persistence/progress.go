package persistence

import (
	"sync/atomic"
	"time"
)

// Progress says how far a recovery is.
type Progress struct {
	Segments, OfSegments int   // segments read
	Entries              int64 // entries applied, and bytes of their bodies
	Bytes                int64
	Elapsed              time.Duration
}

// progressEvery is the time between two calls of Config.Progress, and the time
// before the first.
const progressEvery = time.Second

// progress counts what a recovery has done.
type progress struct {
	segments, ofSegments atomic.Int64
	entries, bytes       atomic.Int64
}

// start calls tell once a second until the result is called, which waits for a
// call under way.
func (p *progress) start(tell func(Progress)) (stop func()) {
	begin := time.Now()
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				tell(Progress{
					Segments: int(p.segments.Load()), OfSegments: int(p.ofSegments.Load()),
					Entries: p.entries.Load(), Bytes: p.bytes.Load(), Elapsed: time.Since(begin),
				})
			case <-quit:
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}
