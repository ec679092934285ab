package engine

import (
	"context"
	"errors"
)

// ArchiveID names an archived item. Items are listed in the order of their ids.
type ArchiveID [16]byte

// Archived is one item on its way into the archive.
type Archived struct {
	ID    ArchiveID
	Ended int64  // Unix nanoseconds; its UTC day decides when retention is over
	Group string // items can be listed by group; at most MaxArchiveGroup bytes
	Kind  uint8  // and by kind; not zero
	Body  []byte
}

// ArchivedKey is a text that stands for a value for ever: retention doesn't touch
// it.
type ArchivedKey struct {
	Text  string // 1 to MaxArchiveKey bytes
	Value []byte
}

// ArchiveQuery says which items a scan visits: all that every field that is set
// agrees with.
type ArchiveQuery struct {
	Group  string    // empty: all groups
	Kind   uint8     // zero: all kinds
	Before ArchiveID // exclusive; zero: from the newest
}

// ArchiveHoldings counts what an archive has.
type ArchiveHoldings struct {
	Keys uint64
	// Days has the number of items of each day that has any, by the day's first instant
	// in UTC, Unix nanoseconds. Days before Oldest may have been removed by retention,
	// others haven't.
	Days   map[int64]uint64
	Oldest int64
}

// Bounds of the archive.
const (
	MaxArchiveGroup = 1 << 10
	MaxArchiveKey   = 1 << 10
)

// ErrNotArchived says that the archive has no such item or key.
var ErrNotArchived = errors.New("engine: not in the archive")

// Archive keeps on disk what has left memory. Its methods are safe for any
// goroutine and wait for the disk, so no shard calls them.
type Archive interface {
	// Put keeps items and keys; they are on disk when it returns. The same item or key
	// again replaces the first; an item ends once, so its Ended is that of the first. An
	// error other than that of ctx means that the disk failed: the caller stops the
	// node (fail-stop).
	Put(ctx context.Context, items []Archived, keys []ArchivedKey) error
	// Holds counts what there is, for who knows what there ought to be.
	Holds() ArchiveHoldings
	// Get returns the body of an item; the caller owns it. Error: ErrNotArchived.
	Get(id ArchiveID) ([]byte, error)
	// Key returns the value of a key. Error: ErrNotArchived.
	Key(text string) ([]byte, error)
	// Scan visits items from the newest id to the oldest until f answers false. body
	// is valid during the call. f must not call the archive.
	Scan(q ArchiveQuery, f func(id ArchiveID, body []byte) bool) error
}
