package kafka

import "sync/atomic"

// Stats counts what a consumer did since it was made. The first three say how it
// stands.
type Stats struct {
	Partitions int64 // that it has now
	InFlight   int64 // runs that it made and that haven't ended
	Working    bool  // its worker claims runs, or drains

	Submitted   int64 // records that made a run
	Repeated    int64 // records whose run was there already
	Ended       int64 // runs that were waited for to their end
	Unfit       int64 // records that can't be runs, and were passed over or taken as dead letters
	Retries     int64 // submits and dead letters that failed and were tried again
	CommitFails int64 // commits that failed and were tried again
}

// counters are the atomic form of Stats.
type counters struct {
	working                                                 atomic.Bool
	partitions, inFlight                                    atomic.Int64
	submitted, repeated, ended, unfit, retries, commitFails atomic.Int64
}

// Stats is a snapshot of the consumer's counters; any goroutine may ask for it.
func (c *Consumer) Stats() Stats {
	n := &c.count
	return Stats{
		Partitions: n.partitions.Load(), InFlight: n.inFlight.Load(), Working: n.working.Load(),
		Submitted: n.submitted.Load(), Repeated: n.repeated.Load(), Ended: n.ended.Load(), Unfit: n.unfit.Load(),
		Retries: n.retries.Load(), CommitFails: n.commitFails.Load(),
	}
}
