package node

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/pyrula/pyrula-node/persistence/archive"
)

// ArchiveDir holds the archive, below the data directory.
const ArchiveDir = "archive"

// archiveReserve is the room that the archive may need on the disk before new work is
// refused: a batch of 4 MiB, and what its pages take.
const archiveReserve = 8 << 20

func (n *Node) openArchive() error {
	var err error
	n.archive, err = archive.Open(archive.Config{
		Dir: filepath.Join(n.cfg.DataDir, ArchiveDir), Owner: n.engine.Directory(), Retention: n.cfg.Retention,
		Yield: n.engine.Yield, Logger: n.cfg.Logger,
	})
	if err != nil {
		return fmt.Errorf("open the archive: %w", err)
	}
	return nil
}

// expiryCheck is the longest time between two looks for days whose retention is over:
// the first run of a new day doesn't tell, and the wall clock may be set.
const expiryCheck = 10 * time.Minute

// expiry removes days from the archive when their retention is over. It sleeps in
// between.
type expiry struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func startExpiry(n *Node) *expiry {
	ctx, cancel := context.WithCancel(context.Background())
	e := &expiry{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(e.done)
		for {
			wait := expiryCheck
			if at, ok := n.archive.NextExpiry(); ok {
				wait = min(wait, max(time.Until(at), time.Second))
			}
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
			days, err := n.archive.Expire()
			switch {
			case err != nil:
				// Nothing is lost by it: they are removed a little later.
				n.cfg.Logger.Error("days whose retention is over could not be removed", "err", err)
			case days > 0:
				n.cfg.Logger.Info("days whose retention is over were removed", "days", days)
			}
		}
	}()
	return e
}

func (e *expiry) stop() {
	e.cancel()
	<-e.done
}

// settleTimeout bounds the note that a loss has no consequences any more.
const settleTimeout = 30 * time.Second

// waitOutLoss has claims wait when the journal may lack acknowledged entries (R18). It
// runs between the promotion of shard 0 and that of the others: nobody is granted
// anything before.
func (n *Node) waitOutLoss(context.Context) error {
	if !n.engine.Recovery().MayHaveLost {
		return nil
	}
	n.actors.WaitOut(func() {
		ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
		defer cancel()
		if err := n.engine.SettleLoss(ctx); err != nil {
			n.cfg.Logger.Error("old leases are over, and the next start will wait for them again", "err", err)
			return
		}
		n.cfg.Logger.Info("old leases are over: claims are served")
	})
	return nil
}
