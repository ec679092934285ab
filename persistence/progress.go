package persistence

import (
	"sync/atomic"
	"time"
)

// Progress says how far a recovery is. It restores snapshots first, and then replays
// the journal: OfSegments is 0 until it does.
type Progress struct {
	// Restored is the number of bytes of snapshots that were read, of OfRestored. The
	// latter rises when a damaged snapshot makes it read the one before.
	Restored, OfRestored int64
	Segments, OfSegments int   // segments of the journal read, of those there are
	Entries              int64 // entries applied, and bytes of their bodies
	Bytes                int64
	Elapsed              time.Duration // since the recovery began
}

// progressEvery is the time between two calls of Config.Progress, and the time
// before the first.
const progressEvery = time.Second

// progress counts what a recovery has done.
type progress struct {
	restored, ofRestored atomic.Int64
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
					Restored: p.restored.Load(), OfRestored: p.ofRestored.Load(),
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
