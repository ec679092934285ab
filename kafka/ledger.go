package kafka

import (
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ledger knows which partitions this consumer has, and for each the last record up to
// which all are settled. Only that is ever committed.
type ledger struct {
	count   *counters
	changed chan struct{} // a token after each change of what is owned
	settled chan struct{} // a token when there is something to commit

	mu    sync.Mutex
	owned map[int32]*progress
}

// progress is how far one partition is.
type progress struct {
	last  *kgo.Record // settled, as are all before it; nil when nothing was settled yet
	dirty bool        // last isn't committed
}

func newLedger(count *counters) *ledger {
	return &ledger{
		count: count, changed: make(chan struct{}, 1), settled: make(chan struct{}, 1), owned: map[int32]*progress{},
	}
}

func (l *ledger) assign(partitions []int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range partitions {
		l.owned[p] = &progress{}
	}
	l.tell()
}

// drop forgets partitions, and says what of them is settled and isn't committed.
func (l *ledger) drop(partitions []int32) []*kgo.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	var open []*kgo.Record
	for _, p := range partitions {
		if at := l.owned[p]; at != nil && at.dirty {
			open = append(open, at.last)
		}
		delete(l.owned, p)
	}
	l.tell()
	return open
}

// tell says that what is owned has changed. The lock is held.
func (l *ledger) tell() {
	l.count.partitions.Store(int64(len(l.owned)))
	offer(l.changed)
}

// at is where the partition stands now, nil for one that isn't owned. It is the mark
// of this assignment: one that is taken away and comes back has another.
func (l *ledger) at(partition int32) *progress {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.owned[partition]
}

// ours says whether a record came with an assignment that still holds. One that
// doesn't is the next owner's to submit and commit, even if that is this consumer
// again: then the record comes once more.
func (l *ledger) ours(r *record) bool {
	at := l.at(r.Partition)
	return at != nil && at == r.at
}

func (l *ledger) ownsAny() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.owned) > 0
}

// settle notes that a record and all before it are settled.
func (l *ledger) settle(r *record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.owned[r.Partition]; at == nil || at != r.at {
		return
	}
	// Without key, value and headers: it may stay for long.
	r.at.last = &kgo.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, LeaderEpoch: r.LeaderEpoch}
	r.at.dirty = true
	offer(l.settled)
}

// open is what is settled and isn't committed.
func (l *ledger) open() []*kgo.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	var open []*kgo.Record
	for _, at := range l.owned {
		if at.dirty {
			open = append(open, at.last)
		}
	}
	slices.SortFunc(open, func(a, b *kgo.Record) int { return int(a.Partition) - int(b.Partition) })
	return open
}

// committed notes what is committed, unless more was settled meanwhile.
func (l *ledger) committed(list []*kgo.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range list {
		if at := l.owned[r.Partition]; at != nil && at.last == r {
			at.dirty = false
		}
	}
}
