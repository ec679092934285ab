package actors

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anthdm/hollywood/actor"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/persistence/engine"
)

// answerTimeout bounds the wait for one answer of a shard: far beyond any commit,
// so that it speaks only when the disk hangs.
const answerTimeout = 30 * time.Second

// stopTimeout bounds the wait for one actor to finish what it was told.
const stopTimeout = 10 * time.Second

// DefaultMaxRuns is what fits about 6 GiB with small params: an ended run takes about
// 1.5 KB.
const DefaultMaxRuns = 4_000_000

// DefaultMaxBuffered is what the events of all open batches may take, in bytes.
const DefaultMaxBuffered = 2 << 30

// Defaults of what stays in memory after its end.
const (
	DefaultRecentFor  = 10 * flow.Minute
	DefaultRecentRuns = 100_000
)

// Observer is told what happens, for metrics. Its methods are called from the
// shards' goroutines: they must be quick and safe for several at once.
type Observer interface {
	// RunStarted is told of a run's first admission, and of the time since its submit.
	RunStarted(workflow string, waited flow.Span)
	// LeaseExpired is told of a holder that was lost.
	LeaseExpired(workflow string)
	// AttemptFailed is told of a failed attempt that is tried again.
	AttemptFailed(workflow string)
	// RunFinished is told of a run's end, and of the time since its first admission.
	RunFinished(workflow string, status flow.Status, took flow.Span)
	// Events is told what became of some events.
	Events(workflow string, n EventCount)
	// BatchFired is told of a batch that became a run.
	BatchFired(b BatchFired)
}

// Expressions computes keys that are expressions, without their "cel:". The methods are
// safe for any goroutine, and quick: a shard may call them. Errors are *flow.FieldError
// of flow.ErrConfiguration that names the field.
type Expressions interface {
	// Check refuses what can't be the key of a policy, and says where in the expression.
	Check(field, expression string) error
	// Key computes the key of an object.
	Key(field, expression string, object []byte) (string, error)
}

// Config says what a Node is made of.
type Config struct {
	// Engine makes the shards' logs durable. The caller starts it after Open and
	// closes it after Close.
	Engine engine.Engine
	// Clock is the time; default the machine's.
	Clock Clock
	// Fatal ends the process: a law is broken. It must not return. Default panics.
	Fatal func(error)
	// Expressions computes keys that are expressions; default refuses them.
	Expressions Expressions
	// Observer is told what happens; default nobody.
	Observer Observer
	// Logger is told of ownership changes; default discards.
	Logger *slog.Logger
	// Entropy draws the random part of a run id; default crypto/rand.
	Entropy func() flow.Entropy
	// MaxRuns bounds the runs in memory, ended ones and open batches included: beyond it
	// submits are refused with flow.ErrOverloaded. Default DefaultMaxRuns.
	MaxRuns int64
	// MaxBuffered bounds the bytes of the events in open batches, and of their ids: beyond
	// it events are refused with flow.ErrOverloaded. Default DefaultMaxBuffered.
	MaxBuffered int64
	// Archive takes ended runs and idempotency keys that leave memory (R14); nil keeps
	// them there. The caller closes it after Close.
	Archive engine.Archive
	// Sync returns when everything acknowledged before the call is on disk, so that the
	// archive is never ahead of the journal. Default: at once, for an engine that
	// acknowledges nothing before.
	Sync func(context.Context) error
	// AcceptArchiveLoss serves although the archive lacks what was moved into it, with a
	// loud word in the log. Without it such a node refuses everything, and WaitReady
	// answers ErrArchiveLost.
	AcceptArchiveLoss bool
	// RecentFor and RecentRuns say how long, and how many of them, ended runs stay in
	// memory: what is older or beyond leaves. The same goes for idempotency keys.
	// Defaults DefaultRecentFor and DefaultRecentRuns.
	RecentFor  flow.Span
	RecentRuns int64
	// Refuse says why new work can't be taken now, or nil: a disk that is nearly
	// full, a node that is shutting down. Default always nil.
	Refuse func() error
}

func (c Config) withDefaults() Config {
	if c.Clock == nil {
		c.Clock = NewSystemClock()
	}
	if c.Fatal == nil {
		c.Fatal = func(err error) { panic(err) }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Entropy == nil {
		c.Entropy = func() (e flow.Entropy) {
			rand.Read(e[:]) // never fails: it ends the process instead
			return e
		}
	}
	if c.MaxRuns == 0 {
		c.MaxRuns = DefaultMaxRuns
	}
	if c.MaxBuffered == 0 {
		c.MaxBuffered = DefaultMaxBuffered
	}
	if c.Sync == nil {
		c.Sync = func(context.Context) error { return nil }
	}
	if c.RecentFor == 0 {
		c.RecentFor = DefaultRecentFor
	}
	if c.RecentRuns == 0 {
		c.RecentRuns = DefaultRecentRuns
	}
	if c.Refuse == nil {
		c.Refuse = func() error { return nil }
	}
	return c
}

// Node is the face of the shards and the dispatcher of one process. Its methods
// are safe for any goroutine.
type Node struct {
	cfg        Config
	engine     *actor.Engine
	shards     []*shard
	dispatcher *dispatcher
	archiver   *archiver
	holdings   holdings
	counted    atomic.Int64 // shards whose counts of the archive are known
	registry   registry
	schedules  scheduler
	asks       asks
	replayed   atomic.Int64
	// What the shards had at their first promotion.
	recoveredRuns, recoveredKeys atomic.Int64
	owned                        atomic.Int64  // shards that this node owns now
	heard                        atomic.Int64  // shards whose ready set the dispatcher knows
	runs                         atomic.Int64  // runs in memory, of the shards that it owns
	batches                      atomic.Int64  // open batches: runs to come
	buffered                     atomic.Int64  // bytes of the events in them, and of their ids
	ready                        chan struct{} // closed when the node could serve for the first time
	once                         sync.Once     // closes ready
	closing                      atomic.Bool
	waitOut                      waitOut
	// archiveBehind is maxArchiveBehind; tests lower it.
	archiveBehind int64
}

// Open makes a Node and opens its shards in the engine. The caller then starts the
// engine, which rebuilds and promotes them.
func Open(cfg Config) (*Node, error) {
	n := &Node{cfg: cfg.withDefaults(), ready: make(chan struct{}), archiveBehind: maxArchiveBehind}
	n.archiver = newArchiver(n)
	if cfg.Archive != nil {
		n.holdings.have = cfg.Archive.Holds()
	}
	var err error
	if n.engine, err = actor.NewEngine(actor.NewEngineConfig()); err != nil {
		return nil, fmt.Errorf("start the actor engine: %w", err)
	}
	count := cfg.Engine.Shards()
	n.shards = make([]*shard, count)
	n.dispatcher = newDispatcher(n)
	if err := spawn(n.engine, "dispatcher", "0", n.dispatcher.box); err != nil {
		return nil, err
	}
	for i := range n.shards {
		n.shards[i] = newShard(n, engine.ShardID(i))
		if err := spawn(n.engine, "shard", fmt.Sprint(i), n.shards[i].box); err != nil {
			return nil, err
		}
	}
	for i, s := range n.shards {
		m := &machine{shard: s, reader: flow.NewReader()}
		if s.log, err = cfg.Engine.Open(engine.ShardID(i), m); err != nil {
			return nil, fmt.Errorf("open shard %d: %w", i, err)
		}
	}
	n.archiver.start()
	return n, nil
}

// WaitReady returns when every shard is owned and its ready set is known. Errors:
// ErrArchiveLost, and that of ctx.
func (n *Node) WaitReady(ctx context.Context) error {
	select {
	case <-n.ready:
		return n.holdings.lost()
	case <-ctx.Done():
		return fmt.Errorf("wait for the shards: %w", ctx.Err())
	}
}

// Quiesce refuses everything from now on, and returns when no shard appends any
// more. It is called before the engine is closed; the shards live on, so that the
// engine can take snapshots of them. Error when a shard doesn't end its turn in
// time.
func (n *Node) Quiesce() error {
	n.closing.Store(true)
	if err := n.archiver.stop(stopTimeout); err != nil {
		return err
	}
	timeout := time.After(stopTimeout)
	for _, s := range n.shards {
		done := make(chan struct{})
		s.box.tell(quietMsg{done})
		select {
		case <-done:
		case <-s.box.stopped:
		case <-timeout:
			return fmt.Errorf("actors: shard %d doesn't end its turn within %s", s.id, stopTimeout)
		}
	}
	return nil
}

// Close waits until what was told to the actors is handled, and stops them. The
// engine may be closed before or after.
func (n *Node) Close() error {
	errs := []error{n.Quiesce(), n.dispatcher.box.stop(stopTimeout)}
	for _, s := range n.shards {
		errs = append(errs, s.box.stop(stopTimeout))
	}
	errs = append(errs, n.archiver.waitReaders(stopTimeout))
	return errors.Join(errs...)
}

// shardOf says where a partition lives.
func (n *Node) shardOf(p flow.Partition) engine.ShardID {
	return engine.ShardID(int(p) % len(n.shards))
}

// promoted and demoted follow the ownership of the shards.
func (n *Node) promoted(s *shard) {
	n.cfg.Logger.Debug("shard promoted", "shard", s.id, "epoch", s.epoch)
	n.runs.Add(int64(len(s.st.runs)))
	if !s.recovered {
		s.recovered = true
		n.recoveredRuns.Add(int64(len(s.st.runs)))
		n.recoveredKeys.Add(int64(len(s.st.keys)))
	}
	n.checkArchive(s)
	n.owned.Add(1)
	n.noteReady()
}

// noteReady notes the first moment at which the node can serve.
func (n *Node) noteReady() {
	if err := n.serving(); (err == nil || errors.Is(err, ErrArchiveLost)) && n.allHeard() {
		n.once.Do(func() {
			n.serveAfterOldLeases()
			close(n.ready)
		})
	}
}

func (n *Node) demoted(s *shard, reason error) {
	n.owned.Add(-1)
	n.runs.Add(-int64(len(s.st.runs)))
	n.cfg.Logger.Warn("shard demoted", "shard", s.id, "epoch", s.epoch, "err", reason)
}

// allHeard says whether the dispatcher knows every shard's ready set.
func (n *Node) allHeard() bool { return n.heard.Load() == int64(len(n.shards)) }

// serving says whether every shard is owned and the declarations are known: a
// submit before that would be stamped with nothing (R17). If not, err is
// flow.ErrNotReady.
func (n *Node) serving() error {
	switch owned := n.owned.Load(); {
	case n.closing.Load():
		return fmt.Errorf("the node is closing: %w", flow.ErrNotReady)
	case owned != int64(len(n.shards)):
		return fmt.Errorf("%d of %d shards are served: %w", owned, len(n.shards), flow.ErrNotReady)
	case n.registry.byWorkflow.Load() == nil:
		return fmt.Errorf("the declarations are not known yet: %w", flow.ErrNotReady)
	}
	if err := n.holdings.lost(); err != nil {
		return fmt.Errorf("%w: %w", flow.ErrNotReady, err)
	}
	return nil
}

// roomForRuns says whether that many more runs may be made.
func (n *Node) roomForRuns(more int) error {
	if err := n.archiver.behind(); err != nil {
		return err
	}
	if have := n.runs.Load() + n.batches.Load(); have+int64(more) > n.cfg.MaxRuns {
		return fmt.Errorf("%d runs are in memory, ended ones and open batches included, and at most %d may be: %w", have, n.cfg.MaxRuns, flow.ErrOverloaded)
	}
	return nil
}

// takesNewWork says whether new work is taken at all (R7).
func (n *Node) takesNewWork() error {
	if err := n.serving(); err != nil {
		return err
	}
	return n.cfg.Refuse()
}

// tell puts a command into its shard's mailbox. New work is counted and refused
// beyond maxNewWork; nothing else ever is.
func (n *Node) tell(to engine.ShardID, c *command) error {
	s := n.shards[to]
	if c.counted {
		if s.newWork.Add(1) > maxNewWork {
			s.newWork.Add(-1)
			return fmt.Errorf("%d submits wait for shard %d: %w", maxNewWork, to, flow.ErrOverloaded)
		}
	}
	s.box.tell(c)
	return nil
}

// askRun sends one input to a run and waits until what became of it is durable.
func (n *Node) askRun(ctx context.Context, in flow.Input) (answer, error) {
	if err := n.serving(); err != nil {
		return answer{}, err
	}
	q := n.asks.open(1)
	n.shards[n.shardOf(in.Run.Partition())].box.tell(&command{in: in, ask: q.id})
	a := n.afterwards(&in, n.await(ctx, q)[0])
	return a, a.err
}

// read runs f in a shard's goroutine; the answer comes when all that f saw is
// durable.
func (n *Node) read(ctx context.Context, to engine.ShardID, f func(*shard) (any, error)) (any, error) {
	if err := n.serving(); err != nil {
		return nil, err
	}
	q := n.asks.open(1)
	n.shards[to].box.tell(queryMsg{read: f, ask: q.id})
	a := n.await(ctx, q)[0]
	return a.value, a.err
}

func (n *Node) await(ctx context.Context, q *question) []answer {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return q.wait(ctx)
}

// handBack returns a grant that nobody waits for: the run takes its old place and
// no attempt is used.
func (n *Node) handBack(g *Grant) {
	n.shards[n.shardOf(g.Run.Partition())].box.tell(&command{in: flow.Input{
		Kind:   flow.InSuspend,
		Fields: flow.Fields{Run: g.Run, Fence: g.Fence, Until: 1},
	}})
}

// observe tells the Observer what a record means.
func (n *Node) observe(t touched, rec *flow.Record) {
	if n.cfg.Observer == nil {
		return
	}
	run := t.run.run
	switch {
	case rec.Kind == flow.RecAdmitted && !rec.Flags.Has(flow.FlagStarted):
		n.cfg.Observer.RunStarted(run.Workflow(), rec.At.Sub(run.Order()))
	case rec.Kind == flow.RecExpired:
		n.cfg.Observer.LeaseExpired(run.Workflow())
	case rec.Kind == flow.RecRetrying:
		n.cfg.Observer.AttemptFailed(run.Workflow())
	}
	if t.ended {
		v := run.View()
		var took flow.Span
		if v.Started != 0 {
			took = v.Ended.Sub(v.Started)
		}
		n.cfg.Observer.RunFinished(run.Workflow(), v.Status, took)
	}
}
