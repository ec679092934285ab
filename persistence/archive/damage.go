package archive

import (
	"errors"
	"fmt"
	"path/filepath"
)

// Errors of the archive besides those of engine.Archive.
var (
	// ErrDamaged is what every DamageError is.
	ErrDamaged = errors.New("archive: file is damaged")
	// ErrNewerFormat is returned for a file that a newer build has written.
	ErrNewerFormat = errors.New("archive: file has a newer format")
	// ErrLocked is returned for a directory that is open already.
	ErrLocked = errors.New("archive: directory is in use by another process")
	// ErrClosed is returned by the methods of a closed archive.
	ErrClosed = errors.New("archive: closed")
)

// DamageError says which file can't be trusted. It is an ErrDamaged.
type DamageError struct {
	File string // path of the file
	What string // what was found
}

// Error names the file and what an operator can do.
func (e *DamageError) Error() string {
	cost := "gives up the runs in it"
	if filepath.Base(e.File) == KeysName {
		cost = "lets each idempotency key in it make a new run"
	}
	return fmt.Sprintf("%s is damaged: %s; for a node that refuses to start: moving the file away %s, and needs --archive-loss accept",
		e.File, e.What, cost)
}

// Unwrap makes it an ErrDamaged.
func (e *DamageError) Unwrap() error { return ErrDamaged }

// BoundError refuses an item or a key before anything is written.
type BoundError struct {
	What           string // "id", "group", "kind", "body", "key" or "value of a key"
	Index          int    // place among the items or the keys of the call
	Have, Min, Max int    // bytes; of a kind its number; of an id 0, which no item has
}

// Error names the bound.
func (e *BoundError) Error() string {
	return fmt.Sprintf("archive: %s of entry %d is %d, want %d to %d", e.What, e.Index, e.Have, e.Min, e.Max)
}
