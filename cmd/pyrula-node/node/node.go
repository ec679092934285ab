// Package node puts one pyrula-node together: it is the room that names concrete
// types, and ties the engine on disk, the actors and the HTTP API into a knot
// that starts and stops as one.
//
// It decides nothing itself. The command line and tests use it alike.
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/actors/keyexpr"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence"
	"github.com/pyrula/pyrula-node/persistence/archive"
	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/transport"
)

// Version is the program's version; the build may set it.
var Version = "0.1.0-dev"

// Config says what a node is like. The zero value is a node on the default
// address over a temporary directory that goes when the node closes.
type Config struct {
	// DataDir holds the journal and snapshots; it is made if it is missing. Empty
	// means a temporary directory that is removed by Close.
	DataDir string
	// Addr is where the HTTP API listens, host:port; default wire.DefaultAddr. Port 0
	// takes a free one.
	Addr string
	// NodeID is fixed when the data directory is made; default "n1".
	NodeID string
	// MaxRuns bounds the runs in memory, ended ones included; default
	// actors.DefaultMaxRuns.
	MaxRuns int64
	// RecentFor and RecentRuns say how long, and how many of them, ended runs stay in
	// memory; Retention for how long the archive keeps them at least. Defaults
	// actors.DefaultRecentFor, actors.DefaultRecentRuns, archive.DefaultRetention.
	RecentFor  time.Duration
	RecentRuns int64
	Retention  time.Duration
	// AcceptArchiveLoss serves although the archive lacks what was moved into it.
	AcceptArchiveLoss bool
	// Hosts are the names that the header Host may have beside localhost and IP
	// addresses; see transport.Config.
	Hosts []string
	// Fsync says when a commit counts as durable; default always.
	Fsync persistence.Fsync
	// Logger takes what an operator should know; default discards.
	Logger *slog.Logger
	// Progress is told how far a recovery is once it takes longer than a second.
	Progress func(persistence.Progress)
	// Fatal ends the process when a law is broken or the disk fails: nothing is
	// acknowledged any more. It must not return. Default: print and exit with 1.
	Fatal func(error)
}

// Node is a running node. Its methods are safe for any goroutine.
type Node struct {
	cfg       Config
	temporary bool
	engine    *persistence.Local
	archive   *archive.Archive
	expiry    *expiry
	actors    *actors.Node
	server    *transport.Server
	listener  net.Listener
	recovery  atomic.Pointer[wire.Recovery]
	refusing  atomic.Bool // new work is refused, and the log says so
	served    chan error  // what ended the listener
	once      sync.Once   // guards closed
	closed    error
}

func (c Config) withDefaults() Config {
	c.Addr = cmp.Or(c.Addr, wire.DefaultAddr)
	c.NodeID = cmp.Or(c.NodeID, "n1")
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Fatal == nil {
		c.Fatal = func(err error) {
			fmt.Fprintln(os.Stderr, "pyrula-node: fatal:", err)
			os.Exit(1)
		}
	}
	return c
}

// Start opens the data directory, replays the journal and listens. It returns when
// the node is ready. Close ends it.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	n := &Node{cfg: cfg.withDefaults(), served: make(chan error, 1)}
	if err := n.start(ctx); err != nil {
		return nil, errors.Join(err, n.Close(ctx))
	}
	return n, nil
}

// start builds from the inside out; shut takes down whatever of it stands.
func (n *Node) start(ctx context.Context) error {
	// The port first: a node that can't be reached needn't replay a journal.
	var err error
	if n.listener, err = listen(ctx, n.cfg.Addr); err != nil {
		return err
	}
	if err := n.openDir(); err != nil {
		return err
	}
	metrics := transport.NewMetrics(transport.Build{Version: Version})
	if err := n.openEngine(metrics); err != nil {
		return err
	}
	if err := n.openArchive(); err != nil {
		return err
	}
	expressions, err := keyexpr.New()
	if err != nil {
		return err
	}
	n.actors, err = actors.Open(actors.Config{
		Expressions: expressions,
		Engine:      n.engine, Fatal: n.cfg.Fatal, Logger: n.cfg.Logger,
		Observer: observer{metrics}, Refuse: n.refuse, MaxRuns: n.cfg.MaxRuns,
		Archive: n.archive, Sync: n.engine.Sync, AcceptArchiveLoss: n.cfg.AcceptArchiveLoss, RecentFor: flow.Span(n.cfg.RecentFor), RecentRuns: n.cfg.RecentRuns,
	})
	if err != nil {
		return err
	}
	n.server = transport.NewServer(transport.Config{Node: n.face(), Metrics: metrics, Logger: n.cfg.Logger, Hosts: n.cfg.Hosts})
	go func() { n.served <- n.server.Serve(n.listener) }()
	began := time.Now()
	if err := n.engine.Start(ctx); err != nil {
		return fmt.Errorf("recover %s: %w", n.cfg.DataDir, err)
	}
	if err := n.actors.WaitReady(ctx); err != nil {
		return err
	}
	n.expiry = startExpiry(n)
	metrics.Observe(func() transport.Stats { return n.gauges() })
	n.recovered(time.Since(began))
	return nil
}

func (n *Node) openDir() error {
	if n.cfg.DataDir == "" {
		dir, err := os.MkdirTemp("", "pyrula-node-")
		if err != nil {
			return fmt.Errorf("make a temporary data directory: %w", err)
		}
		n.cfg.DataDir, n.temporary = dir, true
	}
	abs, err := filepath.Abs(n.cfg.DataDir)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	n.cfg.DataDir = abs
	return nil
}

func (n *Node) openEngine(metrics *transport.Metrics) error {
	var err error
	n.engine, err = persistence.Open(persistence.Config{
		Dir: n.cfg.DataDir, Node: engine.NodeID(n.cfg.NodeID), Fsync: n.cfg.Fsync,
		Partitions: flow.Partitions, OnClose: persistence.CloseWithSnapshots,
		OnFatal: n.cfg.Fatal, Logger: n.cfg.Logger,
		Reserve: archiveReserve, Progress: n.cfg.Progress, AfterFirst: n.waitOutLoss,
		OnStall: func(age time.Duration) {
			n.cfg.Logger.Error("a write to the journal does not end", "age", age)
		},
		Metrics: persistence.Metrics{
			Fsync: metrics.FsyncTook, Stall: metrics.Stalled,
			Commit:   func(c persistence.CommitStat) { metrics.Committed(c.Items, c.Bytes, c.Queue) },
			Snapshot: func(s persistence.SnapshotStat) { metrics.SnapshotTook(s.Took, s.Bytes) },
		},
	})
	return err
}

// recovered notes what the start read back, for GET /v1/node and the boot line.
func (n *Node) recovered(took time.Duration) {
	var r wire.Recovery
	r.Records, r.Seconds = n.actors.Replayed(), took.Seconds()
	r.Runs, r.Keys = n.actors.Recovered()
	n.recovery.Store(&r)
}

// refuse says why new work can't be taken: a full or hanging disk (R19).
func (n *Node) refuse() error {
	err := n.engine.Health().Err()
	if n.refusing.Swap(err != nil) != (err != nil) {
		if err != nil {
			n.cfg.Logger.Warn("new work is refused: submits, declarations and claims", "err", err)
		} else {
			n.cfg.Logger.Info("new work is taken again")
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", flow.ErrNotReady, err)
	}
	return nil
}

// Addr is where the HTTP API listens.
func (n *Node) Addr() string { return n.listener.Addr().String() }

// URL is the base address of the HTTP API.
func (n *Node) URL() string { return "http://" + n.Addr() }

// DataDir is the data directory's absolute path.
func (n *Node) DataDir() string { return n.cfg.DataDir }

// Recovery is what the start read back.
func (n *Node) Recovery() wire.Recovery { return *n.recovery.Load() }

// Dropped is the number of bytes of a torn tail that the start cut off.
func (n *Node) Dropped() int64 { return n.engine.Recovery().Dropped }

// Archived counts what the archive holds.
func (n *Node) Archived() archive.Stats { return n.archive.Stats() }

// Drain makes the node not ready and ends long polls; everything else is served.
func (n *Node) Drain() { n.server.Drain() }

// Done delivers the error that ended the listener by itself; nothing while it
// serves or after Close.
func (n *Node) Done() <-chan error { return n.served }

// Close drains, ends the requests under way, stops the actors, takes snapshots and
// closes the journal. ctx bounds the wait. Later calls answer what the first did.
func (n *Node) Close(ctx context.Context) error {
	n.once.Do(func() { n.closed = n.shut(ctx) })
	return n.closed
}

// requestTime is the most of a close that requests under way get: a client that
// never finishes its request must not cost the snapshots.
const requestTime = 5 * time.Second

// endRequests lets the requests under way finish, for at most half of the time
// there is, and cuts the rest. That is no failure of the node's.
func (n *Node) endRequests(ctx context.Context) {
	share := requestTime
	if end, ok := ctx.Deadline(); ok {
		share = min(share, time.Until(end)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, share)
	defer cancel()
	if err := n.server.Shutdown(ctx); err != nil {
		n.cfg.Logger.Warn("requests were cut off", "err", err)
	}
}

// shut takes down what stands, from the outside in.
func (n *Node) shut(ctx context.Context) error {
	var errs []error
	switch {
	case n.server != nil:
		n.endRequests(ctx)
	case n.listener != nil:
		errs = append(errs, n.listener.Close())
	}
	if n.actors != nil {
		errs = append(errs, n.actors.Quiesce())
	}
	if n.engine != nil {
		// Snapshots are taken by living shards, so the engine goes first.
		errs = append(errs, n.engine.Close(ctx))
	}
	if n.actors != nil {
		errs = append(errs, n.actors.Close())
	}
	if n.archive != nil {
		if n.expiry != nil {
			n.expiry.stop()
		}
		errs = append(errs, n.archive.Close())
	}
	if n.temporary {
		errs = append(errs, os.RemoveAll(n.cfg.DataDir))
	}
	return errors.Join(errs...)
}
