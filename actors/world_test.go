package actors_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/persistence/enginetest"
)

// setup says what a world is made of. The zero value: 16 shards, a window of 8
// entries, commits by themselves.
type setup struct {
	shards  int
	window  int
	manual  bool    // a test says when entries become durable
	chaos   *uint64 // owners change at random, from this number; implies manual
	refuse  func() error
	observe actors.Observer
	maxRuns int64
	// maxBuffered bounds the events in open batches.
	maxBuffered int64
	logger      *slog.Logger // nil discards

	recentFor  flow.Span // what stays in memory after its end
	recentRuns int64
}

// world is a node over an engine in memory, inside a synctest bubble: time is
// virtual, and settle waits until nobody has anything to do.
type world struct {
	*testing.T
	*actors.Node
	setup
	mem        *enginetest.Mem
	chaos      *enginetest.Chaos
	spy        *spy
	archive    *enginetest.Archive // outlives every node, like a disk
	clock      *shiftedClock
	mu         sync.Mutex // guards fatals
	fatals     []error
	closed     bool
	syncs      func(context.Context) error // of the journal, before a put
	acceptLoss bool                        // the next nodes serve whatever the archive lacks
	hold       func()                      // the next nodes wait out old leases, and tell it when they have
	onAppend   func(engine.ShardID)
	dead       bool            // a shard has ended itself, as the test wanted
	life       context.Context //nolint:containedctx // of the calls to the present node; a crash ends it
	kill       context.CancelFunc
}

// play runs f against a fresh node in virtual time.
func play(t *testing.T, f func(w *world)) {
	t.Helper()
	setup{}.play(t, f)
}

// play is play for a world of another kind.
func (s setup) play(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := s.make(t)
		t.Cleanup(w.drop)
		w.start()
		f(w)
		w.end()
	})
}

// make builds the engine of a world, and no node yet.
func (s setup) make(t *testing.T) *world {
	if s.shards == 0 {
		s.shards = 16
	}
	w := &world{T: t, setup: s, clock: newShiftedClock(), archive: enginetest.NewArchive()}
	cfg := enginetest.MemConfig{Shards: s.shards, Window: s.window}
	switch {
	case s.chaos != nil:
		w.chaos = enginetest.NewChaos(cfg, *s.chaos)
		w.mem, w.manual = w.chaos.Mem, true
	case s.manual:
		cfg.Commits = enginetest.Manual
		w.mem = enginetest.NewMem(cfg)
	default:
		w.mem = enginetest.NewMem(cfg)
	}
	return w
}

// open opens a node over the world's engine and starts it, without waiting.
func (w *world) open() {
	w.Helper()
	w.spy = &spy{onAppend: w.onAppend, Engine: w.mem, machines: make([]engine.Machine, w.shards), logs: make([]engine.Log, w.shards)}
	n, err := actors.Open(actors.Config{
		Engine: w.spy, Clock: w.clock, Fatal: w.fatal, Refuse: w.refuse, Observer: w.observe, MaxRuns: w.maxRuns, MaxBuffered: w.maxBuffered, Logger: w.logger,
		Archive: w.archive, Sync: w.syncs, AcceptArchiveLoss: w.acceptLoss, RecentFor: w.recentFor, RecentRuns: w.recentRuns,
	})
	if err != nil {
		w.Fatal(err)
	}
	w.Node = n
	if w.hold != nil {
		n.WaitOut(w.hold)
	}
	w.life, w.kill = context.WithCancel(w.Context())
	if err := w.mem.Start(w.Context()); err != nil {
		w.Fatal(err)
	}
}

// start opens a node and waits until it serves.
func (w *world) start() {
	w.Helper()
	w.open()
	w.serves()
}

// serves commits what the start of a node needs, and waits until it serves.
func (w *world) serves() {
	w.Helper()
	w.commit()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	if err := w.WaitReady(ctx); err != nil {
		w.Fatalf("%v; last words: %v", err, w.died())
	}
}

// fatal is Config.Fatal: it notes the last words and ends the goroutine, as the end
// of the process would.
func (w *world) fatal(err error) {
	w.mu.Lock()
	w.fatals = append(w.fatals, err)
	w.mu.Unlock()
	runtime.Goexit()
}

// died returns the last words so far, and forgets them.
func (w *world) died() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.fatals
	w.fatals = nil
	return f
}

// end closes the world and fails for last words that no test has asked for.
func (w *world) end() {
	w.Helper()
	if w.closed {
		return
	}
	w.commit()
	fatals := w.died()
	for _, err := range fatals {
		w.Errorf("the process would have ended: %v", err)
	}
	if len(fatals) == 0 && !w.Failed() && !w.dead {
		w.check()
	}
	w.close()
	for _, err := range w.died() {
		w.Errorf("the process would have ended while closing: %v", err)
	}
}

// close stops the node and its engine.
func (w *world) close() {
	w.Helper()
	w.closed = true
	w.kill()
	if err := w.Close(); err != nil && !w.Failed() && !w.dead {
		w.Error(err)
	}
	if err := w.mem.Close(context.Background()); err != nil {
		w.Error(err)
	}
	<-time.After(giveUp)
}

// giveUp is more than the longest time that a call waits for an answer which never
// comes: a bubble ends with all of its goroutines.
const giveUp = time.Minute

// drop ends the goroutines of a world whose test has given up.
func (w *world) drop() {
	if w.closed || w.Node == nil {
		return
	}
	w.kill()
	if err := w.Quiesce(); err != nil {
		w.Log(err)
	}
	w.mem.Fail(errGivenUp)
	if err := w.Close(); err != nil {
		w.Log(err)
	}
	<-time.After(giveUp)
}

var errGivenUp = errors.New("the test has given up")

// check fails for a broken invariant of any machine.
func (w *world) check() {
	w.Helper()
	if err := actors.Check(w.Context(), w.Node); err != nil {
		w.Errorf("an invariant is broken: %v", err)
	}
}

// crash plays kill -9 and opens a new node, without waiting: keep of the entries
// that aren't durable survive.
func (w *world) crash(keep int) {
	w.Helper()
	w.fall(keep)
	w.open()
}

// fall plays kill -9 and leaves it at that.
func (w *world) fall(keep int) {
	w.Helper()
	if err := w.Quiesce(); err != nil && !w.dead {
		w.Error(err)
	}
	left := w.mem.Crash(keep)
	w.kill()
	if err := w.Close(); err != nil && !w.dead {
		w.Error(err)
	}
	w.mem, w.dead = left, false
}

// restart is crash with nothing kept, and waits until the new node serves.
func (w *world) restart() {
	w.Helper()
	w.crash(0)
	w.serves()
}

// settle waits until nobody has anything to do now.
func (w *world) settle() { synctest.Wait() }

// commit makes all that is appended durable, with all that follows from it.
func (w *world) commit() {
	w.settle()
	for w.manual && w.mem.CommitAll() > 0 {
		w.settle()
	}
}

// pass lets time pass, and in a manual world commits what comes of it.
func (w *world) pass(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
	w.commit()
}

// now is the time since an origin of the world's own.
func (w *world) now() time.Duration { return time.Duration(w.clock.Mono()) }

// spy hands every shard to the engine and remembers it.
type spy struct {
	engine.Engine
	machines []engine.Machine
	logs     []engine.Log
	onAppend func(engine.ShardID) // called before each append; it may block
}

// spyLog is a shard's log that tells of its appends.
type spyLog struct {
	engine.Log
	id  engine.ShardID
	spy *spy
}

// Append implements engine.Log.
func (l *spyLog) Append(ep engine.Epoch, wall int64, body []byte) (engine.Seq, error) {
	if f := l.spy.onAppend; f != nil {
		f(l.id)
	}
	return l.Log.Append(ep, wall, body)
}

// Open implements engine.Engine.
func (s *spy) Open(id engine.ShardID, m engine.Machine) (engine.Log, error) {
	log, err := s.Engine.Open(id, m)
	s.machines[id], s.logs[id] = m, &spyLog{log, id, s}
	return s.logs[id], err
}

// shiftedClock is the bubble's clock with a wall that can be stepped.
type shiftedClock struct {
	actors.SystemClock
	mu     sync.Mutex // guards the fields below
	shift  flow.Span
	onWall func() // called by the next Wall, once
}

func newShiftedClock() *shiftedClock { return &shiftedClock{SystemClock: actors.NewSystemClock()} }

// Wall implements actors.Clock.
func (c *shiftedClock) Wall() flow.Instant {
	c.mu.Lock()
	f := c.onWall
	c.onWall = nil
	shift := c.shift
	c.mu.Unlock()
	if f != nil {
		f()
	}
	return c.SystemClock.Wall().Add(shift)
}

// step moves the wall by d, and nothing else.
func (c *shiftedClock) step(d flow.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shift += d
}

// trap has f called inside the next reading of the wall.
func (c *shiftedClock) trap(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onWall = f
}
