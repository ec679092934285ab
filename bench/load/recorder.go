package load

import "time"

// Window is when a repetition measures: the loop runs from Begin on, and counts
// what ends after From and not after To.
type Window struct {
	Begin, From, To time.Time
}

// OpenWindow makes the window of a repetition that starts now.
func OpenWindow(warm, dur time.Duration) Window {
	now := time.Now()
	return Window{Begin: now, From: now.Add(warm), To: now.Add(warm + dur)}
}

// holds says whether something that ended at t is counted.
func (w Window) holds(t time.Time) bool { return t.After(w.From) && !t.After(w.To) }

// Recorder takes what one client sees. It is for one goroutine.
type Recorder struct {
	window Window
	tally  Tally
}

// Tally is what clients have seen in a window.
type Tally struct {
	Claim  Histogram // the claim call alone; with others, whatever Gate says
	Cycle  Histogram // submit to completed
	Gate   Histogram // from an open gate and waiting credit to the grant
	Cycles uint64    // completed runs
	Grants uint64    // runs that claims brought
	Claims uint64    // claims that brought any
	Empty  uint64    // claims that brought none
	Errors uint64
	Err    error // the last one
}

// NewRecorder makes an empty one for a window.
func NewRecorder(w Window) *Recorder { return &Recorder{window: w} }

// Claimed notes a claim sent at begin and answered at end with n runs.
func (r *Recorder) Claimed(begin, end time.Time, n int) {
	if !r.window.holds(end) {
		return
	}
	if n == 0 {
		r.tally.Empty++
		return
	}
	r.tally.Claim.Add(end.Sub(begin))
	r.tally.Claims++
	r.tally.Grants += uint64(n)
}

// Completed notes n cycles begun at begin and over at end.
func (r *Recorder) Completed(begin, end time.Time, n int) {
	if r.window.holds(end) {
		r.tally.Cycle.Add(end.Sub(begin))
		r.tally.Cycles += uint64(n)
	}
}

// Opened notes a grant at end that a gate let through which opened at begin.
func (r *Recorder) Opened(begin, end time.Time) {
	if r.window.holds(end) {
		r.tally.Gate.Add(end.Sub(begin))
	}
}

// Failed notes an error; it counts whenever it happens.
func (r *Recorder) Failed(err error) {
	r.tally.Errors++
	r.tally.Err = err
}

// Tally is what was noted so far.
func (r *Recorder) Tally() *Tally { return &r.tally }

// Merge adds what another tally has.
func (t *Tally) Merge(other *Tally) {
	t.Claim.Merge(&other.Claim)
	t.Cycle.Merge(&other.Cycle)
	t.Gate.Merge(&other.Gate)
	t.Cycles += other.Cycles
	t.Grants += other.Grants
	t.Claims += other.Claims
	t.Empty += other.Empty
	t.Errors += other.Errors
	if other.Err != nil {
		t.Err = other.Err
	}
}
