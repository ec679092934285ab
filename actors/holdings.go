package actors

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// ErrArchiveLost says that the archive lacks runs or keys that left memory for it.
var ErrArchiveLost = errors.New("actors: the archive lacks what was moved into it")

// archivedCounts is how much a shard has moved into the archive: it stands in the log
// and in snapshots, so that an archive which is gone, or older than the journal, is
// noticed.
type archivedCounts struct {
	keys uint64
	days map[int64]uint64 // runs, by the first instant of the UTC day of their end
}

// day is what the archive keeps in one file: a UTC day.
const day = flow.Instant(flow.Day)

// archivedDays bounds the days that are counted: more than any retention.
const archivedDays = 512

func (c *archivedCounts) run(ended flow.Instant) {
	c.add(int64(ended-ended%day), 1)
}

func (c *archivedCounts) add(day int64, runs uint64) {
	if c.days == nil {
		c.days = make(map[int64]uint64)
	}
	c.days[day] += runs
	if len(c.days) > archivedDays {
		delete(c.days, slices.Min(slices.Collect(maps.Keys(c.days))))
	}
}

// records yields what a snapshot says of the counts, oldest day first.
func (c *archivedCounts) records(yield func(*flow.Record)) {
	if c.keys > 0 {
		yield(&flow.Record{Kind: flow.RecKeyArchived, Fields: flow.Fields{Number: c.keys}})
	}
	for _, day := range slices.Sorted(maps.Keys(c.days)) {
		yield(&flow.Record{Kind: flow.RecArchived, Fields: flow.Fields{Order: flow.Instant(day), Number: c.days[day]}})
	}
}

// holdings compares what all shards have moved with what the archive has.
type holdings struct {
	fault atomic.Pointer[error] // what the archive lacks, once it was checked

	mu    sync.Mutex // guards what follows
	have  engine.ArchiveHoldings
	moved archivedCounts
}

// add adds the counts of a shard that is being promoted.
func (h *holdings) add(c *archivedCounts) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moved.keys += c.keys
	for day, runs := range c.days { //tidy:ordered a sum of each
		h.moved.add(day, runs)
	}
}

// check says what the archive lacks, when all shards have been added.
func (h *holdings) check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var faults []error
	if h.have.Keys < h.moved.keys {
		faults = append(faults, fmt.Errorf("it has %d idempotency keys, and %d were moved into it", h.have.Keys, h.moved.keys))
	}
	for _, day := range slices.Sorted(maps.Keys(h.moved.days)) {
		if have, moved := h.have.Days[day], h.moved.days[day]; day >= h.have.Oldest && have < moved {
			faults = append(faults, fmt.Errorf("it has %d runs that ended on %s, and %d were moved into it",
				have, time.Unix(0, day).UTC().Format(time.DateOnly), moved))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrArchiveLost, errors.Join(faults...))
}

// lost is what the archive lacks, once it was checked.
func (h *holdings) lost() error {
	if err := h.fault.Load(); err != nil {
		return *err
	}
	return nil
}

// checkArchive is called by each shard that is promoted for the first time, before it
// counts as owned: a node whose archive lacks something serves nobody unless it was
// told to.
func (n *Node) checkArchive(s *shard) {
	if n.cfg.Archive == nil || s.counted {
		return
	}
	s.counted = true
	n.holdings.add(&s.st.archived)
	if n.counted.Add(1) < int64(len(n.shards)) {
		return
	}
	switch err := n.holdings.check(); {
	case err == nil:
	case n.cfg.AcceptArchiveLoss:
		n.cfg.Logger.Error("what the archive lacks is unknown from now on, as the configuration accepts", "err", err)
	default:
		n.holdings.fault.Store(&err)
	}
}
