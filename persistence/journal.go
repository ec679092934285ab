package persistence

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// journalConfig is what a journal is made with; the scan and the repair are done.
type journalConfig struct {
	fs    vfs.FS
	dir   string
	fsync Fsync
	epoch uint64 // of this life
	last  uint64 // index of the last frame on disk
	next  uint64 // journal number of the next item
	queue int    // items that may wait; more is refused
	// committed is told of every commit, from the committing goroutine.
	committed func(commit)
	fatal     func(error)
	watch     *watchdog
	metrics   Metrics
}

// commit is one group commit that counts as durable. items is valid during the
// call.
type commit struct {
	index uint64
	bytes int
	items []item
}

// journal appends items to the segment files, one frame for each group commit.
//
// One goroutine commits. It takes what is queued, writes one frame, and takes what
// was queued meanwhile: under load the batch grows by itself, alone a writer waits
// for one fsync and no timer.
//
//	enqueue ─► queue ─► [ take ≤ 1 MiB ► frame ► write, fsync ► new segment? ► fsync dir ] ─► committed
//
// The order of enqueue is the order of the journal. After the first error of a
// write, an fsync or a deletion nothing is acknowledged, and nothing is tried
// again: the page cache may show what the disk lacks, and a second fsync would
// say yes.
type journal struct {
	cfg journalConfig
	app appender

	// wake has room for one: "the queue isn't empty", or nothing new to say.
	wake chan struct{}
	// flushes takes requests for an fsync; each is answered when it is done.
	flushes chan chan struct{}
	// closing is closed by close, dead by the first failure, done by the goroutine.
	closing, dead, done chan struct{}

	durable atomic.Uint64 // index of the last frame that was committed
	written atomic.Int64  // bytes of frames since the start

	mu       sync.Mutex // guards what follows
	queue    []item
	failed   error
	busy     bool          // a commit is under way
	passed   chan struct{} // closed at the end of the commit under way; nil: nobody waits
	segments []segment     // on disk, ascending; sizes aren't kept up
	end      mark          // behind the last frame that was committed

	// started is set by begin, when all of it has worked.
	started bool

	// Of the committing goroutine alone.
	frame frameWriter
	batch []item
	next  uint64
	dirty time.Time // when the oldest write without fsync was done; zero: none
}

var errJournalClosed = errors.New("journal is closed")

func newJournal(cfg journalConfig, app appender) *journal {
	j := &journal{
		cfg: cfg, app: app, next: cfg.next,
		wake:    make(chan struct{}, 1),
		flushes: make(chan chan struct{}),
		closing: make(chan struct{}),
		dead:    make(chan struct{}),
		done:    make(chan struct{}),
	}
	j.durable.Store(cfg.last)
	return j
}

// begin writes the first frame of a life and makes it and its directory durable,
// also in a lazy life. Then the committing goroutine starts.
func (j *journal) begin(items []item) error {
	j.batch = items
	if err := j.writeBatch(); err != nil {
		return err
	}
	if err := j.sync(); err != nil {
		return err
	}
	// The library may have made a segment before the write, if it was opened with
	// a smaller segment size than the life before.
	if err := j.cfg.fs.SyncDir(j.cfg.dir); err != nil {
		return fmt.Errorf("sync journal directory: %w", err)
	}
	list, err := listJournal(j.cfg.fs, j.cfg.dir)
	if err != nil {
		return err
	}
	j.segments = list.segments
	j.started = true
	go j.run()
	return nil
}

// enqueue hands over one item. It never blocks.
func (j *journal) enqueue(it item) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failed != nil {
		return j.failed
	}
	if len(j.queue) >= j.cfg.queue {
		return engine.ErrBusy
	}
	j.queue = append(j.queue, it)
	select {
	case j.wake <- struct{}{}:
	default:
	}
	return nil
}

// err is the failure that stopped the journal, nil while it works.
func (j *journal) err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failed
}

// fail is the latch: the first error stays, the callback runs once.
func (j *journal) fail(cause error) {
	if j.latch(fmt.Errorf("%w: %w", engine.ErrStopped, cause)) {
		j.cfg.fatal(cause)
	}
}

func (j *journal) latch(err error) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failed != nil {
		return false
	}
	j.failed = err
	close(j.dead)
	return true
}

// run is the committing goroutine.
func (j *journal) run() {
	defer close(j.done)
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	armed := false
	for {
		var flushed chan struct{}
		select {
		case <-j.wake:
		case <-timer.C:
			armed = false
		case flushed = <-j.flushes:
		case <-j.dead:
			return
		case <-j.closing:
			j.drain()
			return
		}
		if err := j.work(flushed != nil); err != nil {
			j.fail(err)
			return
		}
		if flushed != nil {
			close(flushed)
		}
		if !j.dirty.IsZero() && !armed {
			timer.Reset(time.Until(j.dirty.Add(j.cfg.fsync.every)))
			armed = true
		}
	}
}

// work commits until the queue is empty. In a lazy life it calls fsync when the
// oldest write has waited long enough, or when flush asks for it.
func (j *journal) work(flush bool) error {
	for j.take() {
		if err := j.commit(); err != nil {
			return err
		}
		if err := j.syncDue(); err != nil {
			return err
		}
	}
	if flush && !j.dirty.IsZero() {
		return j.sync()
	}
	return j.syncDue()
}

func (j *journal) syncDue() error {
	if j.dirty.IsZero() || time.Since(j.dirty) < j.cfg.fsync.every {
		return nil
	}
	return j.sync()
}

// take moves what fits into one frame from the queue to the batch.
func (j *journal) take() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	n, bytes := 0, 0
	for n < len(j.queue) && n < frameItemsMax {
		bytes += len(j.queue[n].body) + itemHeadBytesMax + itemLengthBytes
		if n > 0 && bytes > commitBytesMax {
			break
		}
		n++
	}
	j.batch = append(j.batch[:0], j.queue[:n]...)
	rest := copy(j.queue, j.queue[n:])
	clear(j.queue[rest:])
	j.queue = j.queue[:rest]
	j.busy = n > 0 && j.failed == nil
	return j.busy
}

// commit writes the batch and acknowledges it.
func (j *journal) commit() error {
	if err := j.writeBatch(); err != nil {
		return err
	}
	j.mu.Lock()
	failed, queue := j.failed, len(j.queue)
	j.mu.Unlock()
	if failed != nil {
		// The watchdog gave up while the write hung: too late to say yes.
		return failed
	}
	index := j.durable.Load()
	bytes := len(j.frame.codec.out.b)
	j.cfg.metrics.Commit(CommitStat{Items: len(j.batch), Bytes: bytes, Queue: queue})
	j.cfg.committed(commit{index: index, bytes: bytes, items: j.batch})
	clear(j.batch)
	j.mu.Lock()
	j.busy = false
	if j.passed != nil {
		close(j.passed)
		j.passed = nil
	}
	j.mu.Unlock()
	return nil
}

// writeBatch makes the batch one frame and writes it. If the library has begun a
// new segment behind it, the name is made durable before anybody is told.
func (j *journal) writeBatch() error {
	j.frame.reset()
	for i := range j.batch {
		if err := j.frame.add(&j.batch[i]); err != nil {
			return err
		}
	}
	index := j.durable.Load() + 1
	var flags uint8
	if j.dirty.IsZero() {
		flags |= flagSynced
	}
	if j.cfg.fsync.lazy() {
		flags |= flagLazy
	}
	data := j.frame.finish(frame{flags: flags, epoch: j.cfg.epoch, index: index, first: j.next})
	j.cfg.watch.begin()
	err := j.app.Append(index, data)
	if err == nil {
		err = j.syncNewSegment(index + 1)
	}
	took := j.cfg.watch.end()
	if err != nil {
		return fmt.Errorf("write frame %d of %d bytes: %w", index, len(data), err)
	}
	if !j.cfg.fsync.lazy() {
		j.cfg.metrics.Fsync(took)
	} else if j.dirty.IsZero() {
		j.dirty = time.Now()
	}
	j.next += uint64(len(j.batch))
	j.written.Add(int64(len(data)))
	j.mu.Lock()
	j.end = mark{Frame: index, Next: j.next}
	j.mu.Unlock()
	j.durable.Store(index)
	return nil
}

// tail is the place behind the last frame that was committed. It is on disk when a
// flush that was called afterwards has ended.
func (j *journal) tail() mark {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.end
}

// syncNewSegment syncs the directory if there is a segment that begins with frame
// first: the library makes it as soon as the one before is full.
func (j *journal) syncNewSegment(first uint64) error {
	_, err := j.cfg.fs.Stat(filepath.Join(j.cfg.dir, segmentName(first)))
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = j.cfg.fs.SyncDir(j.cfg.dir)
	}
	if err != nil {
		return fmt.Errorf("new segment %d: %w", first, err)
	}
	j.mu.Lock()
	j.segments = append(j.segments, segment{first: first})
	j.mu.Unlock()
	return nil
}

// sync makes everything written durable.
func (j *journal) sync() error {
	j.cfg.watch.begin()
	err := j.app.Sync()
	took := j.cfg.watch.end()
	if err != nil {
		return fmt.Errorf("sync journal: %w", err)
	}
	j.dirty = time.Time{}
	j.cfg.metrics.Fsync(took)
	return nil
}

// flush waits until everything committed before the call is on disk. It has work
// to do in a lazy life only.
func (j *journal) flush(ctx context.Context) error {
	if !j.cfg.fsync.lazy() {
		return j.err()
	}
	answer := make(chan struct{})
	select {
	case j.flushes <- answer:
	case <-j.dead:
		return j.err()
	case <-j.done:
		return errJournalClosed
	case <-ctx.Done():
		return fmt.Errorf("flush journal: %w", ctx.Err())
	}
	select {
	case <-answer:
		return nil
	case <-j.dead:
		return j.err()
	}
}

// yield lets the commit under way end first, if there is one or one is queued.
// Writers of large files call it between two syncs.
func (j *journal) yield() {
	j.mu.Lock()
	if j.failed != nil || (!j.busy && len(j.queue) == 0) {
		j.mu.Unlock()
		return
	}
	if j.passed == nil {
		j.passed = make(chan struct{})
	}
	passed := j.passed
	j.mu.Unlock()
	select {
	case <-passed:
	case <-j.dead:
	case <-j.done:
	}
}

// dropBelow deletes the segments whose frames all stand before index, the oldest
// first. The last segment stays. A failure stops the journal.
func (j *journal) dropBelow(index uint64) error {
	j.mu.Lock()
	obsolete, rest := splitObsolete(j.segments, index)
	obsolete = append([]segment(nil), obsolete...)
	j.segments = append([]segment(nil), rest...)
	failed := j.failed
	j.mu.Unlock()
	if failed != nil {
		return failed
	}
	if err := removeSegments(j.cfg.fs, j.cfg.dir, obsolete); err != nil {
		j.fail(err)
		return err
	}
	return nil
}

// drain commits what is left and syncs.
func (j *journal) drain() {
	err := j.work(true)
	if err == nil {
		err = j.closeAppender()
	}
	if err != nil {
		j.fail(err)
		return
	}
	j.latch(fmt.Errorf("%w: %w", engine.ErrStopped, errJournalClosed))
}

func (j *journal) closeAppender() error {
	j.cfg.watch.begin()
	defer j.cfg.watch.end()
	if err := j.app.Close(); err != nil {
		return fmt.Errorf("close journal: %w", err)
	}
	return nil
}

// close commits what is queued, syncs, and closes the files. It is called once,
// after begin, when nobody enqueues any more. The error is the failure that stopped the journal.
func (j *journal) close(ctx context.Context) error {
	close(j.closing)
	select {
	case <-j.done:
	case <-ctx.Done():
		return fmt.Errorf("close journal: %w", ctx.Err())
	}
	if err := j.err(); !errors.Is(err, errJournalClosed) {
		return err
	}
	return nil
}
