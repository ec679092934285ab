package archive

import (
	"bytes"
	"sort"
	"sync"
)

// depthMax is deeper than any tree of a real file: a tree of more levels bites
// its own tail.
const depthMax = 24

// cursor walks one tree of a view. What it returns is valid until its next move.
type cursor struct {
	pages  *pages
	tree   tree
	levels []level // pages that were read stay here: the next move often needs them again
	depth  int     // of the leaf it stands on
	last   []byte  // key of the last step back, which the next one must be below
}

// cursors keeps the buffers of those that look up one key.
var cursors = sync.Pool{New: func() any { return new(cursor) }}

// reset makes a used cursor one over another tree.
func (c *cursor) reset(p *pages, t tree) {
	c.pages, c.tree, c.depth, c.last = p, t, 0, c.last[:0]
	for i := range c.levels {
		c.levels[i].page = page{}
	}
}

type level struct {
	page page
	at   int
	buf  []byte
}

// enter brings the page of a level in.
func (c *cursor) enter(depth int, id uint64) (*level, error) {
	if depth == depthMax {
		return nil, c.pages.damaged("its pages form a ring at page %d", id)
	}
	if depth == len(c.levels) {
		c.levels = append(c.levels, level{})
	}
	l := &c.levels[depth]
	if l.page.data != nil && l.page.id == id {
		return l, nil
	}
	data := c.tree.inline
	if id != 0 {
		var err error
		l.page = page{}
		if l.buf, err = c.pages.raw(id, l.buf); err != nil {
			return nil, err
		}
		data = l.buf
	}
	p, wrong := parsePage(id, data)
	if wrong == "" && p.kind == branchPage && id == 0 {
		wrong = "a bucket holds a branch"
	}
	if wrong == "" && p.count == 0 && depth > 0 {
		wrong = "a page below the root is empty"
	}
	if wrong != "" {
		return nil, c.pages.damaged("%s", wrong)
	}
	l.page = p
	return l, nil
}

// down goes from the root to a leaf; pick chooses the element at each level.
func (c *cursor) down(depth int, id uint64, pick func(p page) int) (*level, error) {
	for ; ; depth++ {
		l, err := c.enter(depth, id)
		if err != nil {
			return nil, err
		}
		l.at = pick(l.page)
		if l.page.kind == leafPage {
			c.depth = depth
			return l, nil
		}
		id = l.page.child(l.at)
	}
}

// get returns the value of a key.
func (c *cursor) get(key []byte) (value []byte, ok bool, err error) {
	l, err := c.find(key)
	if l == nil || err != nil {
		return nil, false, err
	}
	value, err = c.plain(l)
	return value, err == nil, err
}

// bucket returns the value of a bucket's name.
func (c *cursor) bucket(name []byte) (value []byte, ok bool, err error) {
	l, err := c.find(name)
	if l == nil || err != nil || !l.page.isBucket(l.at) {
		return nil, false, err
	}
	return l.page.value(l.at), true, nil
}

// find goes to a key, on the path that bbolt takes through the tree. The result is
// nil when there is no such key.
func (c *cursor) find(key []byte) (*level, error) {
	exact := false
	l, err := c.down(0, c.tree.root, func(p page) int {
		exact = false
		i := sort.Search(p.count, func(i int) bool {
			order := bytes.Compare(p.key(i), key)
			exact = exact || order == 0
			return order >= 0
		})
		if p.kind == branchPage && !exact && i > 0 {
			i--
		}
		return i
	})
	if err != nil || l.at >= l.page.count || !bytes.Equal(l.page.key(l.at), key) {
		return nil, err
	}
	return l, nil
}

// plain is the value that the cursor stands on, which must not be a bucket.
func (c *cursor) plain(l *level) ([]byte, error) {
	if l.page.isBucket(l.at) {
		return nil, c.pages.damaged("element %d of page %d is a bucket", l.at, l.page.id)
	}
	return l.page.value(l.at), nil
}

// before goes to the greatest key below key; nil is above all keys. The key it
// returns is nil when there is none.
func (c *cursor) before(key []byte) (k, v []byte, err error) {
	c.last = append(c.last[:0], key...)
	if key == nil {
		c.last = nil
	}
	l, err := c.down(0, c.tree.root, func(p page) int {
		if key == nil {
			return p.count - 1
		}
		i := sort.Search(p.count, func(i int) bool { return bytes.Compare(p.key(i), key) >= 0 }) - 1
		if p.kind == branchPage && i < 0 {
			i = 0
		}
		return i
	})
	if err != nil {
		return nil, nil, err
	}
	if l.at < 0 {
		return c.prev()
	}
	return c.here(l)
}

// prev goes one key back.
func (c *cursor) prev() (k, v []byte, err error) {
	for c.levels[c.depth].at <= 0 {
		if c.depth == 0 {
			return nil, nil, nil
		}
		c.depth--
	}
	l := &c.levels[c.depth]
	l.at--
	if l.page.kind == branchPage {
		l, err = c.down(c.depth+1, l.page.child(l.at), func(p page) int { return p.count - 1 })
		if err != nil {
			return nil, nil, err
		}
	}
	return c.here(l)
}

// here is the entry that the cursor stands on. Keys that don't fall are damage;
// following them could go round for ever.
func (c *cursor) here(l *level) (k, v []byte, err error) {
	k = l.page.key(l.at)
	if c.last != nil && bytes.Compare(k, c.last) >= 0 {
		return nil, nil, c.pages.damaged("the keys of page %d are out of order", l.page.id)
	}
	if v, err = c.plain(l); err != nil {
		return nil, nil, err
	}
	c.last = append(c.last[:0], k...)
	return k, v, nil
}
