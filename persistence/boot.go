package persistence

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

// What an acknowledgement of a life was worth, as the manifest remembers it.
const (
	// ackedSynced: everything acknowledged is on disk. A life with FsyncAlways, and
	// every life that was closed.
	ackedSynced = "synced"
	// ackedWritten: what was acknowledged last may be in the page cache only.
	ackedWritten = "written"
)

// bootIDFile holds the number that Linux draws when the machine starts.
const bootIDFile = "/proc/sys/kernel/random/boot_id"

// machineBootID is the default of Config.BootID.
func machineBootID() string {
	data, err := os.ReadFile(bootIDFile)
	if err != nil {
		return "" // not Linux, or no /proc: it can't be known
	}
	return strings.TrimSpace(string(data))
}

// mayHaveLost says whether the life before may have acknowledged what isn't there
// any more: it acknowledged before fsync, wasn't closed, and the page cache hasn't
// lived through the time since, or nobody knows whether it has. A torn tail counts as
// well, although a kill leaves one too: behind an fsync that failed the page cache may
// drop what was acknowledged. For manifests that don't say how that life acknowledged,
// the journal's last frame does. A loss that nobody has settled stays.
func (m *manifest) mayHaveLost(bootID string, fd found) bool {
	unsynced := m.Acked == ackedWritten || m.Acked == "" && fd.flags&flagLazy != 0
	kept := bootID != "" && bootID == m.BootID && len(fd.torn) == 0
	return m.Lost || unsynced && !kept
}

// noteLoss writes a possible loss down before the repair removes its traces: a start
// that is killed in between must not make the next one think that all is well.
func (l *Local) noteLoss(fd found) error {
	next := *l.man.Load()
	if next.Lost || !next.mayHaveLost(l.cfg.BootID(), fd) {
		return nil
	}
	next.Lost = true
	err := l.replaceManifest(&next)
	if isFull(err) {
		l.man.Store(&next) // the repair may make room for the next manifest
		return nil
	}
	return err
}

// SettleLoss says that a loss which [Recovery].MayHaveLost told of has no
// consequences any more: whatever was granted by a lost entry has run out. Until it
// was called, every start tells of the loss again, so that a node that is killed while
// it waits for that waits again. Without a loss it does nothing. It is called between
// Start and Close; an error means that the next start tells of the loss again.
func (l *Local) SettleLoss(ctx context.Context) error {
	select {
	case l.snapping <- struct{}{}:
		defer func() { <-l.snapping }()
	case <-ctx.Done():
		return fmt.Errorf("settle loss: %w", ctx.Err())
	}
	l.mu.Lock()
	j := l.journal
	l.mu.Unlock()
	if j == nil {
		return errors.New("settle loss: not started")
	}
	// A closed journal has an error too: the directory is somebody else's by then.
	if err := j.err(); err != nil {
		return fmt.Errorf("settle loss: %w", err)
	}
	next := *l.man.Load()
	if !next.Lost {
		return nil
	}
	next.Lost = false
	if err := l.replaceOrStop(&next); err != nil {
		return fmt.Errorf("settle loss: %w", err)
	}
	return nil
}
