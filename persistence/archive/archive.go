package archive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// Bounds of Config.Retention, and its default.
const (
	DefaultRetention = 7 * day
	MinRetention     = time.Hour
	MaxRetention     = 400 * day
)

// lockName is the file that the lock of a directory is taken on. It has no content
// and is never removed: the lock is the kernel's, not the file.
const lockName = "lock"

// Config is what an archive is opened with. Dir is needed; the zero value of every
// other field means its default.
type Config struct {
	// Dir is the archive's directory; it and those above it are made if they are
	// missing.
	Dir string
	// Owner names the data directory that the archive belongs to, at most MaxOwner bytes;
	// it is written into each new file. A file of another owner is refused. Empty: files
	// of any owner are taken.
	Owner string
	// Retention is how long an item is kept after its end, at least; it is removed
	// with the rest of its UTC day. MinRetention to MaxRetention; default
	// DefaultRetention.
	Retention time.Duration
	// Now is the clock that retention goes by. Default: time.Now.
	Now func() time.Time
	// Yield is called by Put between two transactions, so that others get at the
	// disk. Default: nothing.
	Yield func()
	// Logger takes what nobody else is told: files that are none of ours, damage met
	// in passing. Default: slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Retention == 0 {
		c.Retention = DefaultRetention
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Yield == nil {
		c.Yield = func() {}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c Config) validate() error {
	if c.Dir == "" {
		return errors.New("configuration of the archive: no directory")
	}
	if c.Retention < MinRetention || c.Retention > MaxRetention {
		return fmt.Errorf("configuration of the archive: retention is %s, want %s to %s", c.Retention, MinRetention, MaxRetention)
	}
	if len(c.Owner) > MaxOwner {
		return fmt.Errorf("configuration of the archive: owner has %d bytes, want at most %d", len(c.Owner), MaxOwner)
	}
	return nil
}

// MaxOwner bounds Config.Owner, in bytes.
const MaxOwner = 256

// Archive is an engine.Archive in a directory. Its methods are safe for any
// goroutine; Put, Expire and Close wait for each other, readers wait for none of
// them.
type Archive struct {
	cfg  Config
	lock io.Closer

	// write is held by whoever changes files or the set of files. closing asks a Put
	// under way to end.
	write   sync.Mutex
	closing atomic.Bool

	// mu guards the set of files. Readers hold it while they use a file; writers only
	// while they change the set, and with write held.
	mu     sync.RWMutex
	days   []*file // newest first
	keys   *file
	closed bool
}

var _ engine.Archive = (*Archive)(nil)

// Open opens every file of a directory. It removes nothing that may be wanted: see Expire.
// Errors: ErrLocked, ErrNewerFormat, a DamageError, and those of the disk.
func Open(cfg Config) (*Archive, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	disk := vfs.OS{}
	if err := makeDir(disk, cfg.Dir); err != nil {
		return nil, fmt.Errorf("make archive directory: %w", err)
	}
	lock, err := disk.Lock(filepath.Join(cfg.Dir, lockName))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("%s: %w", cfg.Dir, ErrLocked)
	}
	if err != nil {
		return nil, fmt.Errorf("lock archive directory: %w", err)
	}
	a := &Archive{cfg: cfg, lock: lock}
	if err := a.openAll(disk); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// makeDir makes a directory and those above it. Their names survive a power cut; that
// of a directory which is there already may still be on its way to the disk.
func makeDir(disk vfs.FS, dir string) error {
	made := []string{filepath.Clean(dir)}
	for {
		up := filepath.Dir(made[len(made)-1])
		if _, err := disk.Stat(up); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		made = append(made, up)
	}
	if err := disk.MkdirAll(dir); err != nil {
		return err
	}
	for _, name := range made {
		if err := disk.SyncDir(filepath.Dir(name)); err != nil {
			return err
		}
	}
	return nil
}

func (a *Archive) openAll(disk vfs.FS) error {
	infos, err := listFiles(a.cfg.Dir)
	if err != nil {
		return err
	}
	var strange []string
	haveKeys := false
	for _, info := range infos {
		_, isDay := parseDay(info.Name)
		switch {
		case isDay:
			f, err := a.openFile(info.Name)
			if err != nil {
				return err
			}
			a.days = append(a.days, f)
		case info.Name == KeysName:
			haveKeys = true
		case strings.HasSuffix(info.Name, suffix+tempSuffix):
			if err := disk.Remove(filepath.Join(a.cfg.Dir, info.Name)); err != nil {
				return fmt.Errorf("remove a file that wasn't finished: %w", err)
			}
		case info.Name != lockName:
			strange = append(strange, info.Name)
		}
	}
	slices.Reverse(a.days) // names sort by day
	if len(strange) > 0 {
		a.cfg.Logger.Warn("archive ignores files that aren't its own", "dir", a.cfg.Dir, "files", strange)
	}
	if !haveKeys {
		if len(a.days) > 0 {
			a.cfg.Logger.Warn("archive has no file of keys and starts a new one: old keys are forgotten", "dir", a.cfg.Dir)
		}
		if err := create(a.cfg.Dir, KeysName, a.cfg.Owner); err != nil {
			return err
		}
	}
	a.keys, err = a.openFile(KeysName)
	return err
}

// listFiles lists the files of an archive. What has the name of one and isn't a regular
// file is damage: a link is passed over by who removes or renames, and may lead to a disk
// that isn't there.
func listFiles(dir string) ([]vfs.Info, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list archive directory: %w", err)
	}
	for _, e := range entries {
		_, isDay := parseDay(e.Name())
		if (isDay || e.Name() == KeysName) && !e.Type().IsRegular() {
			return nil, &DamageError{File: filepath.Join(dir, e.Name()), What: "it isn't a regular file"}
		}
	}
	infos, err := vfs.OS{}.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list archive directory: %w", err)
	}
	return infos, nil
}

// openFile opens a file that belongs to the owner.
func (a *Archive) openFile(name string) (*file, error) {
	f, err := openFile(a.cfg.Dir, name)
	if err != nil {
		return nil, err
	}
	if owner := f.state.Load().owner; a.cfg.Owner != "" && owner != "" && owner != a.cfg.Owner {
		err := &DamageError{File: f.path, What: "it is of the data directory " + owner + ", not of " + a.cfg.Owner}
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// Holds counts what the archive has, by day; see engine.Archive.
func (a *Archive) Holds() engine.ArchiveHoldings {
	a.mu.RLock()
	defer a.mu.RUnlock()
	h := engine.ArchiveHoldings{Days: make(map[int64]uint64)}
	if a.closed {
		return h
	}
	keys := a.keys.seen()
	h.Keys, h.Oldest = keys.counters.items, keys.oldest
	for _, f := range a.days {
		h.Days[f.start.UnixNano()] = f.seen().counters.items
	}
	return h
}

// Get returns the body of an item; the caller owns it. Errors: engine.ErrNotArchived;
// a DamageError when the item may have been in a file that can't be read; ErrClosed.
func (a *Archive) Get(id engine.ArchiveID) ([]byte, error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.closed {
		return nil, ErrClosed
	}
	var unread error
	for _, f := range a.days {
		body, err := f.body(id)
		if body != nil {
			return body, nil
		}
		if err != nil && unread == nil {
			unread = err
		}
	}
	if unread != nil {
		return nil, fmt.Errorf("get %x: %w", id, unread)
	}
	return nil, engine.ErrNotArchived
}

// body is a copy of the body of an item, nil when the file doesn't have it.
func (f *file) body(id engine.ArchiveID) ([]byte, error) {
	v, err := f.view()
	if err != nil {
		return nil, err
	}
	defer v.release()
	c := cursors.Get().(*cursor)
	defer cursors.Put(c)
	c.reset(&v.pages, v.data)
	it, ok, err := v.item(c, id[:])
	if err != nil || !ok {
		return nil, err
	}
	return append(make([]byte, 0, len(it.body)), it.body...), nil
}

// Key returns the value of a key. Errors: engine.ErrNotArchived, a DamageError,
// ErrClosed.
func (a *Archive) Key(text string) ([]byte, error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.closed {
		return nil, ErrClosed
	}
	if text == "" {
		return nil, engine.ErrNotArchived
	}
	v, err := a.keys.view()
	if err != nil {
		return nil, fmt.Errorf("look up a key: %w", err)
	}
	defer v.release()
	c := cursors.Get().(*cursor)
	defer cursors.Put(c)
	c.reset(&v.pages, v.data)
	value, ok, err := c.get([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("look up a key: %w", err)
	}
	if !ok {
		return nil, engine.ErrNotArchived
	}
	value, wrong := open([]byte(text), value)
	if wrong != "" {
		return nil, v.pages.damaged("%s", wrong)
	}
	return append(make([]byte, 0, len(value)), value...), nil
}

// Stats is what an archive holds.
type Stats struct {
	Days  int    // files of days
	Runs  uint64 // items
	Keys  uint64
	Bytes int64 // of all files, without what is allocated ahead
}

// Stats counts what the archive holds, from counters: it costs one look at each
// file. A file that can't be read counts as it was last seen.
func (a *Archive) Stats() Stats {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.closed {
		return Stats{}
	}
	s := Stats{Days: len(a.days)}
	for _, f := range a.days {
		st := f.seen()
		s.Runs += st.counters.items
		s.Bytes += int64(st.pages) * int64(st.pageSize)
	}
	st := a.keys.seen()
	s.Keys = st.counters.items
	s.Bytes += int64(st.pages) * int64(st.pageSize)
	return s
}

// seen is the present state, or the last that could be read.
func (f *file) seen() *state {
	v, err := f.view()
	if err != nil {
		return f.state.Load()
	}
	defer v.release()
	return v.state
}

// Close closes all files. A Put under way ends between two of its transactions.
// Calls after the first do nothing.
func (a *Archive) Close() error {
	a.closing.Store(true)
	a.write.Lock()
	defer a.write.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	a.closed = true
	var err error
	for _, f := range a.days {
		err = errors.Join(err, f.close())
	}
	if a.keys != nil {
		err = errors.Join(err, a.keys.close())
	}
	if err = errors.Join(err, a.lock.Close()); err != nil {
		return fmt.Errorf("close archive: %w", err)
	}
	return nil
}
