package archive

import (
	"bytes"
	"container/heap"
	"fmt"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

const (
	// scanItems and scanBytes are how much a scan reads before it calls back: while it
	// reads, the writer may have to wait for it.
	scanItems = 128
	scanBytes = 1 << 20
)

// Scan visits items from the newest id to the oldest until f answers false. What is
// put in meanwhile may be missing. f is called while nothing is held. Errors: a
// DamageError, at the place where the damage is met; ErrClosed.
func (a *Archive) Scan(q engine.ArchiveQuery, f func(id engine.ArchiveID, body []byte) bool) error {
	for {
		some, more, err := a.read(q)
		for _, it := range some {
			if !f(it.id, it.body) {
				return nil
			}
			q.Before = it.id
		}
		if err != nil {
			return fmt.Errorf("scan: %w", err)
		}
		if !more {
			return nil
		}
	}
}

// scanned is one item that a scan has read.
type scanned struct {
	id   engine.ArchiveID
	body []byte
}

// read reads the next items of a scan.
func (a *Archive) read(q engine.ArchiveQuery) (some []scanned, more bool, err error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.closed {
		return nil, false, ErrClosed
	}
	var m merge
	for _, f := range a.days {
		v, err := f.view()
		if err != nil {
			return nil, false, err
		}
		defer v.release()
		if err := m.open(q, v); err != nil {
			return nil, false, err
		}
	}
	heap.Init(&m)
	for total := 0; len(m) > 0; {
		if len(some) == scanItems || total >= scanBytes {
			return some, true, nil
		}
		s := m[0]
		body, err := s.body()
		if err != nil {
			return some, false, err
		}
		some = append(some, scanned{s.id, body})
		total += len(body)
		if err := m.forward(); err != nil {
			return some, false, err
		}
	}
	return some, false, nil
}

// stream is the items of one list of one day, or of the whole day.
type stream struct {
	view   *view
	keys   *cursor // over the runs, or over the lists
	runs   *cursor // over the runs, when keys isn't
	list   list
	prefix []byte // of the list; empty: the whole day
	id     engine.ArchiveID
	value  []byte // that of the run, when keys is over the runs
}

// take makes an entry of keys the stream's present item; false is the end.
func (s *stream) take(key, value []byte, err error) (bool, error) {
	if err != nil || key == nil || !bytes.HasPrefix(key, s.prefix) {
		return false, err
	}
	if len(key) != len(s.prefix)+idBytes {
		return false, s.view.pages.damaged("it has a key of %d bytes", len(key))
	}
	s.id, s.value = engine.ArchiveID(key[len(s.prefix):]), value
	return true, nil
}

// body is a copy of the body of the present item.
func (s *stream) body() ([]byte, error) {
	if s.runs == nil {
		it, wrong := readItem(s.id[:], s.value)
		if wrong != "" {
			return nil, s.view.pages.damaged("%s", wrong)
		}
		return bytes.Clone(it.body), nil
	}
	it, ok, err := s.view.item(s.runs, s.id[:])
	if err != nil {
		return nil, err
	}
	if !ok || it.kind != s.list.kind || string(it.group) != s.list.group {
		return nil, s.view.pages.damaged("%x stands in a list that it doesn't belong into", s.id)
	}
	return bytes.Clone(it.body), nil
}

// merge is a heap of streams, the greatest id first.
type merge []*stream

// Len, Less, Swap, Push and Pop make it a heap.
func (m *merge) Len() int { return len(*m) }

// Less puts the greater id first.
func (m *merge) Less(i, j int) bool { return bytes.Compare((*m)[i].id[:], (*m)[j].id[:]) > 0 }

// Swap swaps two streams.
func (m *merge) Swap(i, j int) { (*m)[i], (*m)[j] = (*m)[j], (*m)[i] }

// Push adds a stream.
func (m *merge) Push(x any) { *m = append(*m, x.(*stream)) }

// Pop removes the last stream.
func (m *merge) Pop() any {
	last := len(*m) - 1
	s := (*m)[last]
	*m = (*m)[:last]
	return s
}

// open adds the streams of one day, each at its first item.
func (m *merge) open(q engine.ArchiveQuery, v *view) error {
	var before []byte
	if q.Before != (engine.ArchiveID{}) {
		before = q.Before[:]
	}
	if q.Group == "" && q.Kind == 0 {
		return m.add(&stream{view: v, keys: v.cursor(v.data)}, before)
	}
	lists, err := v.matching(q)
	if err != nil {
		return err
	}
	runs := v.cursor(v.data)
	for _, l := range lists {
		s := &stream{view: v, keys: v.cursor(v.lists), runs: runs, list: l, prefix: l.prefix()}
		up := l.key(before)
		if before == nil {
			up = l.end()
		}
		if err := m.add(s, up); err != nil {
			return err
		}
	}
	return nil
}

func (m *merge) add(s *stream, before []byte) error {
	ok, err := s.take(s.keys.before(before))
	if ok {
		*m = append(*m, s)
	}
	return err
}

// forward moves the first stream on.
func (m *merge) forward() error {
	s := (*m)[0]
	ok, err := s.take(s.keys.prev())
	if err != nil {
		return err
	}
	if ok {
		heap.Fix(m, 0)
	} else {
		heap.Pop(m)
	}
	return nil
}

// end is behind all keys of a list.
func (l list) end() []byte { return append(l.prefix(), bytes.Repeat([]byte{0xFF}, endOfKeys)...) }

// matching finds the lists of a day that a query asks for. It jumps from list to
// list and doesn't walk any.
func (v *view) matching(q engine.ArchiveQuery) ([]list, error) {
	if q.Group != "" && q.Kind != 0 {
		return []list{{q.Group, q.Kind}}, nil
	}
	var found []list
	c := v.cursor(v.lists)
	var up []byte
	if q.Group != "" {
		up = list{q.Group, 0xFF}.end()
	}
	for {
		key, _, err := c.before(up)
		if err != nil || key == nil {
			return found, err
		}
		l, ok := parseListKey(key)
		if !ok {
			return nil, v.pages.damaged("a list has the key %x", key)
		}
		if q.Group != "" && l.group != q.Group {
			return found, nil
		}
		if q.Kind == 0 || l.kind == q.Kind {
			found = append(found, l)
		}
		up = l.prefix()
	}
}
