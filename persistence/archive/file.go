package archive

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/pyrula/pyrula-node/persistence/vfs"
)

const (
	suffix     = ".db"
	tempSuffix = ".TEMP" // of a file that isn't whole yet
	fileMode   = 0o640
	day        = 24 * time.Hour

	// pageBytes is fixed, so that a file is the same whichever machine made it.
	pageBytes = 4096
	// mapBytes is the address space that a file is mapped into at first. When a file
	// outgrows its mapping, the writer waits for all readers and they for it.
	mapBytes = 1 << 30
	// growBytes is the step by which a file grows.
	growBytes = 1 << 20
	// lockWait is how long the lock of a file is tried for.
	lockWait = 100 * time.Millisecond
	// pinTries bounds the search for a state that holds still. Each try that fails
	// has seen two commits.
	pinTries = 1000
)

// KeysName is the file of the idempotency keys in the archive's directory.
const KeysName = "keys.db"

// Names of buckets and of what stands in the meta bucket.
var (
	metaBucket  = []byte("meta")
	runsBucket  = []byte("runs")
	listsBucket = []byte("lists")
	keysBucket  = []byte("keys")

	formatKey   = []byte("format")
	nameKey     = []byte("name")
	ownerKey    = []byte("owner")
	oldestKey   = []byte("oldest")
	countersKey = []byte("counters")
)

// file is one open bbolt file.
type file struct {
	name  string    // without the directory
	path  string    // with it
	start time.Time // of the day; zero for keys.db
	db    *bbolt.DB
	disk  *os.File // the one that bbolt has open
	state atomic.Pointer[state]
	// broken is set when bbolt didn't come back from a call in the usual way: its
	// locks may be held for ever, so nothing calls it again.
	broken atomic.Bool
}

// dayName is the name of the file for a day.
func dayName(start time.Time) string { return start.Format(time.DateOnly) + suffix }

// parseDay is the inverse of dayName.
func parseDay(name string) (start time.Time, ok bool) {
	text, ok := strings.CutSuffix(name, suffix)
	if !ok {
		return time.Time{}, false
	}
	start, err := time.Parse(time.DateOnly, text)
	return start, err == nil && dayName(start) == name
}

// dayOf is the start of the UTC day of an instant.
func dayOf(ns int64) time.Time { return time.Unix(0, ns).UTC().Truncate(day) }

// dataBucket is the bucket that holds what the file is for.
func dataBucket(name string) []byte {
	if name == KeysName {
		return keysBucket
	}
	return runsBucket
}

// create makes a file with its buckets. It gets its name when all of it is on disk,
// so a crash leaves no half-made file under a name that counts.
func create(dir, name, owner string) error {
	disk := vfs.OS{}
	temp := filepath.Join(dir, name+tempSuffix)
	if err := disk.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("create %s: %w", name, err)
	}
	db, err := bbolt.Open(temp, fileMode, boltOptions(nil))
	if err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	db.AllocSize = growBytes
	err = db.Update(func(tx *bbolt.Tx) error { return fillNew(tx, name, owner) })
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	if err := disk.Rename(temp, filepath.Join(dir, name)); err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	if err := disk.SyncDir(dir); err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	return nil
}

func fillNew(tx *bbolt.Tx, name, owner string) error {
	buckets := [][]byte{dataBucket(name)}
	if name != KeysName {
		buckets = append(buckets, listsBucket)
	}
	for _, b := range buckets {
		if _, err := tx.CreateBucket(b); err != nil {
			return err
		}
	}
	m, err := tx.CreateBucket(metaBucket)
	if err != nil {
		return err
	}
	if owner != "" {
		if err := m.Put(ownerKey, []byte(owner)); err != nil {
			return err
		}
	}
	return errors.Join(
		m.Put(formatKey, []byte{0, 0, 0, formatVersion}), m.Put(nameKey, []byte(name)), m.Put(countersKey, counters{}.encode()),
	)
}

// boltOptions are those of every file. The free list is on disk: without it bbolt
// walks all pages when it opens a file, in a goroutine that takes the process down
// when a page is damaged.
func boltOptions(opened **os.File) *bbolt.Options {
	return &bbolt.Options{
		Timeout: lockWait, FreelistType: bbolt.FreelistMapType, InitialMmapSize: mapBytes, PageSize: pageBytes, NoStatistics: true,
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			f, err := os.OpenFile(name, flag, mode)
			if opened != nil {
				*opened = f
			}
			return f, err
		},
	}
}

// openFile opens an existing file, once its pages that bbolt reads at this point are
// known to be sound.
func openFile(dir, name string) (*file, error) {
	f := &file{name: name, path: filepath.Join(dir, name)}
	f.start, _ = parseDay(name)
	raw, err := os.Open(f.path)
	if err != nil {
		return nil, fmt.Errorf("open archive file: %w", err)
	}
	st, err := readState(f.path, name, raw)
	if err = errors.Join(err, raw.Close()); err != nil {
		return nil, err
	}
	err = f.guard("open", func() (err error) {
		f.db, err = bbolt.Open(f.path, fileMode, boltOptions(&f.disk))
		return err
	})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("%s: %w", f.path, ErrLocked)
	}
	if err != nil {
		return nil, fmt.Errorf("open archive file %s: %w", f.path, errors.Join(err, f.close()))
	}
	f.db.AllocSize = growBytes
	f.state.Store(st)
	return f, nil
}

// guard runs a call into bbolt. What panics or faults in there, on a damaged page or
// on a mapping whose file was cut, is damage of this file and not of the process:
// history is read and written beside a scheduler that must go on. The call must be
// nothing but bbolt's work, so that no mistake of ours hides here.
func (f *file) guard(what string, call func() error) (err error) {
	if f.broken.Load() {
		return &DamageError{File: f.path, What: "an earlier call of bbolt didn't come back"}
	}
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if p := recover(); p != nil {
			f.broken.Store(true)
			err = &DamageError{File: f.path, What: fmt.Sprintf("%s: %v", what, p)}
		}
	}()
	return call()
}

// close closes the file. bbolt's own Close could wait for ever on a broken one, which
// only gives its lock back. Its mapping stays, and as that holds the lock too, closing
// isn't enough.
func (f *file) close() error {
	switch {
	case !f.broken.Load() && f.db != nil:
		return f.guard("close", f.db.Close)
	case f.disk == nil:
		return nil
	}
	err := errors.Join(syscall.Flock(int(f.disk.Fd()), syscall.LOCK_UN), f.disk.Close())
	if errors.Is(err, os.ErrClosed) {
		return nil // bbolt has closed it when it couldn't open it
	}
	return err
}

// inPlace fails when the name of the file doesn't lead to it any more: what is written
// would be gone with the process.
func (f *file) inPlace() error {
	now, err := os.Stat(f.path) //nolint:gosec // the path is the archive's own
	if err != nil {
		return fmt.Errorf("archive file isn't in its place any more: %w", err)
	}
	opened, err := f.disk.Stat()
	if err != nil {
		return fmt.Errorf("look at the open archive file %s: %w", f.path, err)
	}
	if !os.SameFile(now, opened) {
		return fmt.Errorf("another file is in the place of %s, which is open", f.path)
	}
	return nil
}

// view is the file as it was at one moment. Release it soon: meanwhile no page of
// that moment is used again.
type view struct {
	*state
	pages pages
	tx    *bbolt.Tx
	file  *file
}

// view pins the present state.
func (f *file) view() (*view, error) {
	var unread error
	for range pinTries {
		v := &view{file: f}
		err := f.guard("begin", func() (err error) {
			v.tx, err = f.db.Begin(false)
			return err
		})
		if err != nil {
			return nil, err
		}
		pinned := uint64(v.tx.ID())
		if v.state = f.state.Load(); v.state.tx != pinned {
			v.state, err = readState(f.path, f.name, f.disk)
		}
		if v.state != nil && v.state.tx == pinned && err == nil {
			f.state.Store(v.state)
			v.pages = v.pagesOf(f.path, f.disk)
			return v, nil
		}
		v.release()
		// After a commit since Begin, the state that was read isn't the one that is
		// pinned: it may have changed under the read, and looks damaged then.
		if v.state != nil && v.state.tx == pinned {
			return nil, err
		}
		unread = err
	}
	return nil, cmp.Or(unread, error(&DamageError{File: f.path, What: "its meta pages aren't those that were mapped"}))
}

func (v *view) release() {
	// Rollback of a read transaction fails only when it was ended before.
	_ = v.file.guard("end", v.tx.Rollback)
}

func (v *view) cursor(t tree) *cursor { return &cursor{pages: &v.pages, tree: t} }

// item reads an item through a cursor over the runs.
func (v *view) item(runs *cursor, id []byte) (it stored, ok bool, err error) {
	value, ok, err := runs.get(id)
	if err != nil || !ok {
		return stored{}, false, err
	}
	it, wrong := readItem(id, value)
	if wrong != "" {
		return stored{}, false, v.pages.damaged("%s", wrong)
	}
	return it, true, nil
}
