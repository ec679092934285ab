package enginetest

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

// day is a day in nanoseconds.
const day = 24 * 60 * 60 * 1_000_000_000

// Archive is an archive in memory. Its methods are safe for any goroutine.
type Archive struct {
	// Putting is called by Put before anything is kept: a test counts, waits or fails
	// there. Nil does nothing.
	Putting func(items []engine.Archived, keys []engine.ArchivedKey) error
	// Reading is called by Get, Key and Scan before they look. Nil does nothing.
	Reading func() error

	mu    sync.Mutex // guards what follows
	items map[engine.ArchiveID]engine.Archived
	keys  map[string][]byte
	// oldest is the first day that isn't forgotten.
	oldest int64
}

var _ engine.Archive = (*Archive)(nil)

// NewArchive makes an empty archive.
func NewArchive() *Archive {
	return &Archive{items: make(map[engine.ArchiveID]engine.Archived), keys: make(map[string][]byte)}
}

// Put implements engine.Archive.
func (a *Archive) Put(ctx context.Context, items []engine.Archived, keys []engine.ArchivedKey) error {
	if a.Putting != nil {
		if err := a.Putting(items, keys); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, it := range items {
		it.Body = bytes.Clone(it.Body)
		a.items[it.ID] = it
	}
	for _, k := range keys {
		a.keys[k.Text] = bytes.Clone(k.Value)
	}
	return nil
}

func (a *Archive) reading() error {
	if a.Reading == nil {
		return nil
	}
	return a.Reading()
}

// Holds implements engine.Archive. Nothing is ever too old.
func (a *Archive) Holds() engine.ArchiveHoldings {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := engine.ArchiveHoldings{Keys: uint64(len(a.keys)), Days: make(map[int64]uint64), Oldest: a.oldest}
	for _, it := range a.items { //tidy:ordered a sum of each
		h.Days[it.Ended-it.Ended%day]++
	}
	return h
}

// Get implements engine.Archive.
func (a *Archive) Get(id engine.ArchiveID) ([]byte, error) {
	if err := a.reading(); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	it, ok := a.items[id]
	if !ok {
		return nil, engine.ErrNotArchived
	}
	return bytes.Clone(it.Body), nil
}

// Key implements engine.Archive.
func (a *Archive) Key(text string) ([]byte, error) {
	if err := a.reading(); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	v, ok := a.keys[text]
	if !ok {
		return nil, engine.ErrNotArchived
	}
	return bytes.Clone(v), nil
}

// Scan implements engine.Archive.
func (a *Archive) Scan(q engine.ArchiveQuery, f func(id engine.ArchiveID, body []byte) bool) error {
	if err := a.reading(); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	newest := slices.SortedFunc(maps.Values(a.items), func(x, y engine.Archived) int {
		return cmp.Compare(string(y.ID[:]), string(x.ID[:]))
	})
	for _, it := range newest {
		switch {
		case q.Group != "" && it.Group != q.Group, q.Kind != 0 && it.Kind != q.Kind:
		case q.Before != engine.ArchiveID{} && string(it.ID[:]) >= string(q.Before[:]):
		case !f(it.ID, it.Body):
			return nil
		}
	}
	return nil
}

// Expire forgets all items, as retention would; keys stay.
func (a *Archive) Expire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, it := range a.items { //tidy:ordered a maximum
		a.oldest = max(a.oldest, it.Ended-it.Ended%day+1)
	}
	clear(a.items)
}

// Lose forgets everything, as a disk that isn't there.
func (a *Archive) Lose() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.items)
	clear(a.keys)
}

// Len is the number of items and of keys.
func (a *Archive) Len() (items, keys int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.items), len(a.keys)
}
