package persistence

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// lockName is the file that the lock of a data directory is taken on. It has no
// content and is never removed: the lock is the kernel's, not the file.
const lockName = "lock"

// ErrLocked is returned for a data directory that is open already. Two openers
// would overwrite each other's frames, and the library doesn't notice.
var ErrLocked = errors.New("persistence: data directory is in use by another process")

// lockDir takes the lock of a data directory for as long as the result is open.
func lockDir(fs vfs.FS, dir string) (io.Closer, error) {
	lock, err := fs.Lock(filepath.Join(dir, lockName))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("%s: %w", dir, ErrLocked)
	}
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	return lock, nil
}
