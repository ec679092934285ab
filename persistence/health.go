package persistence

import (
	"fmt"
	"time"
)

const (
	// reserveSegments is the number of segments that must still fit on the disk.
	reserveSegments = 2
	// spaceKeep is how long an answer about free space is used again.
	spaceKeep = time.Second
)

// Health says whether a node should take new work.
type Health struct {
	// Stalled is the age of the write under way when it is older than
	// Config.StallAfter, else 0 (rule R19).
	Stalled time.Duration
	// Free is the space left on the disk, Reserve what must be left: two segments,
	// the largest snapshot and Config.Reserve, in bytes. Below it new work is to be refused, so
	// that the work under way can still be written down.
	Free, Reserve uint64
	// Failed is the failure that stopped the journal, nil while it works.
	Failed error
}

// Err is nil when all is well, else the worst that is wrong.
func (h Health) Err() error {
	switch {
	case h.Failed != nil:
		return h.Failed
	case h.Stalled > 0:
		return fmt.Errorf("a write to the journal has not ended for %s", h.Stalled.Round(time.Millisecond))
	case h.Free < h.Reserve:
		return fmt.Errorf("disk has %d bytes left, the reserve is %d", h.Free, h.Reserve)
	}
	return nil
}

// Health looks at the journal and the disk. It is cheap: the free space is asked
// for once a second at most. A disk that can't be asked counts as full.
func (l *Local) Health() Health {
	l.mu.Lock()
	defer l.mu.Unlock()
	var h Health
	if l.state == serving || l.state == shut {
		if l.journal != nil {
			h.Failed = l.journal.err()
		}
	}
	if age := l.watch.age(); age >= l.cfg.StallAfter {
		h.Stalled = age
	}
	var written int64
	if l.journal != nil {
		written = l.journal.written.Load()
	}
	if now := time.Now(); l.spaceAt.IsZero() || now.Sub(l.spaceAt) >= spaceKeep {
		free, err := l.cfg.FS.Free(l.cfg.Dir)
		if err != nil {
			free = 0
			if h.Failed == nil {
				h.Failed = fmt.Errorf("free space: %w", err)
			}
		}
		l.space, l.spaceAt, l.spaceWritten = free, now, written
	}
	_, largest := l.man.Load().snapshotBytes()
	// What was written since the last look is taken off, so that a burst doesn't pass
	// the reserve between two looks.
	h.Free = l.space - min(l.space, uint64(written-l.spaceWritten))
	h.Reserve = reserveSegments*uint64(l.cfg.SegmentBytes) + uint64(largest) + uint64(l.cfg.Reserve)
	return h
}
