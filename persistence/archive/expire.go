package archive

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// over is when the retention of a day that begins at start is over.
func (a *Archive) over(start time.Time) time.Time { return start.Add(day + a.cfg.Retention) }

// expired says whether a day is gone, or would be with the next Expire.
func (a *Archive) expired(start, now time.Time) bool { return !now.Before(a.over(start)) }

// Expire removes the files of the days whose end is at least the retention ago, but
// never the newest: a clock that is wrong must not wipe out everything, and a newer day
// shows that time has passed. That a day is gone for good is written down first. Reads
// that are under way end first. Error: ErrClosed, those of the disk; what it
// leaves behind then is removed by the next Open.
func (a *Archive) Expire() (removed int, err error) {
	a.write.Lock()
	defer a.write.Unlock()
	for {
		f, err := a.takeExpired()
		if err != nil {
			return removed, err
		}
		if f == nil {
			break
		}
		if err := a.keys.noteOldest(f.start.Add(day)); err != nil {
			return removed, fmt.Errorf("note an expired day: %w", err)
		}
		if err := f.close(); err != nil {
			return removed, fmt.Errorf("close expired day: %w", err)
		}
		if err := (vfs.OS{}).Remove(f.path); err != nil {
			return removed, fmt.Errorf("remove expired day: %w", err)
		}
		removed++
	}
	if removed == 0 {
		return 0, nil
	}
	// Without this a power cut could bring a day back, and the start after it would
	// remove it again: late, but no harm. It is here so that space stays given back.
	if err := (vfs.OS{}).SyncDir(filepath.Clean(a.cfg.Dir)); err != nil {
		return removed, fmt.Errorf("remove expired days: %w", err)
	}
	return removed, nil
}

// takeExpired takes the oldest expired day out of the set; nobody reads it any more.
func (a *Archive) takeExpired() (*file, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, ErrClosed
	}
	last := len(a.days) - 1
	if last < 1 || !a.expired(a.days[last].start, a.cfg.Now()) {
		return nil, nil
	}
	f := a.days[last]
	a.days = a.days[:last:last]
	return f, nil
}

// NextExpiry is when Expire has work next; false while no day can expire.
func (a *Archive) NextExpiry() (time.Time, bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if len(a.days) < 2 {
		return time.Time{}, false
	}
	return a.over(a.days[len(a.days)-1].start), true
}
