package pyrula

import "time"

// SetClock makes a worker read another monotonic clock, so that a test can stop the
// process between two of its steps.
func (w *Worker) SetClock(now func() time.Time) { w.now = now }
