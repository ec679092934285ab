package archive

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

// Bounds of what is put in.
const (
	MaxBody     = 64 << 20 // bytes of an item
	MaxKeyValue = 64 << 10 // bytes of the value of a key
)

const (
	// txItems and txBytes end a transaction, so that nobody waits long for the disk.
	txItems = 5000
	txBytes = 4 << 20
	// fill is how full pages get when they are split. Ids grow with time, so most items
	// go to the end, and room left behind them stays empty; but those that took long go
	// in between, and split full pages. Measured at 600 bytes, in bytes an item, in order
	// and out of it: 1.0: 740 and 1,398; 0.9: 881 and 1,290; 0.5: 1,481 and 1,238.
	fill = 0.9
)

// Put keeps items and keys; they are on disk when it returns. Of two entries with
// the same id or text the later counts. Errors: a BoundError, before anything is
// written; that of ctx and ErrClosed, between two transactions; anything else means
// that the disk failed.
func (a *Archive) Put(ctx context.Context, items []engine.Archived, keys []engine.ArchivedKey) error {
	if err := checkBounds(items, keys); err != nil {
		return err
	}
	a.write.Lock()
	defer a.write.Unlock()
	p := putting{Archive: a, ctx: ctx}
	for _, some := range byDay(items) {
		if err := p.day(some); err != nil {
			return err
		}
	}
	sorted := make([]*engine.ArchivedKey, len(keys))
	for i := range keys {
		sorted[i] = &keys[i]
	}
	sorted = lastOfEach(sorted, func(x, y *engine.ArchivedKey) int { return cmp.Compare(x.Text, y.Text) })
	for some := range batches(sorted, func(k *engine.ArchivedKey) int { return len(k.Text) + len(k.Value) }) {
		if err := p.next(); err != nil {
			return err
		}
		if err := a.keys.putKeys(some); err != nil {
			return fmt.Errorf("put %d keys: %w", len(some), err)
		}
	}
	return nil
}

func checkBounds(items []engine.Archived, keys []engine.ArchivedKey) error {
	check := func(what string, index, have, low, high int) error {
		if have < low || have > high {
			return &BoundError{What: what, Index: index, Have: have, Min: low, Max: high}
		}
		return nil
	}
	for i := range items {
		set := 0
		if items[i].ID != (engine.ArchiveID{}) {
			set = 1
		}
		err := cmp.Or(
			check("id", i, set, 1, 1), // no id is below it, and a query's zero means none
			check("group", i, len(items[i].Group), 0, engine.MaxArchiveGroup),
			check("kind", i, int(items[i].Kind), 1, 255),
			check("body", i, len(items[i].Body), 0, MaxBody),
		)
		if err != nil {
			return err
		}
	}
	for i := range keys {
		err := cmp.Or(
			check("key", i, len(keys[i].Text), 1, engine.MaxArchiveKey),
			check("value of a key", i, len(keys[i].Value), 0, MaxKeyValue),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// byDay sorts items by day and id, and cuts them into days.
func byDay(items []engine.Archived) [][]*engine.Archived {
	all := make([]*engine.Archived, len(items))
	for i := range items {
		all[i] = &items[i]
	}
	byID := func(x, y *engine.Archived) int { return bytes.Compare(x.ID[:], y.ID[:]) }
	all = lastOfEach(all, byID)
	slices.SortStableFunc(all, func(x, y *engine.Archived) int { return dayOf(x.Ended).Compare(dayOf(y.Ended)) })
	var days [][]*engine.Archived
	for len(all) > 0 {
		first := dayOf(all[0].Ended)
		n := slices.IndexFunc(all, func(it *engine.Archived) bool { return !dayOf(it.Ended).Equal(first) })
		if n < 0 {
			n = len(all)
		}
		days = append(days, all[:n])
		all = all[n:]
	}
	return days
}

// lastOfEach sorts, and keeps the last of those that compare equal.
func lastOfEach[T any](all []*T, compare func(x, y *T) int) []*T {
	slices.SortStableFunc(all, compare)
	out := all[:0]
	for i, x := range all {
		if i+1 == len(all) || compare(x, all[i+1]) != 0 {
			out = append(out, x)
		}
	}
	return out
}

// batches cuts a list into transactions.
func batches[T any](all []*T, size func(*T) int) func(yield func([]*T) bool) {
	return func(yield func([]*T) bool) {
		for len(all) > 0 {
			n, total := 0, 0
			for n < len(all) && n < txItems && (n == 0 || total+size(all[n]) <= txBytes) {
				total += size(all[n])
				n++
			}
			if !yield(all[:n]) {
				return
			}
			all = all[n:]
		}
	}
}

// putting is one Put. It holds the write lock, so it may read the set of files
// without mu.
type putting struct {
	*Archive

	ctx   context.Context //nolint:containedctx // of Put, whose parts take none
	begun bool
}

// next stands between two transactions.
func (p *putting) next() error {
	if p.begun {
		p.cfg.Yield()
	}
	p.begun = true
	if p.closing.Load() {
		return ErrClosed
	}
	return p.ctx.Err()
}

// day puts the items of one day.
func (p *putting) day(items []*engine.Archived) error {
	var f *file
	for some := range batches(items, func(it *engine.Archived) int { return len(it.Body) + len(it.Group) }) {
		if err := p.next(); err != nil {
			return err
		}
		if f == nil {
			var err error
			if f, err = p.fileOf(items[0]); err != nil {
				return err
			}
		}
		if err := f.put(some); err != nil {
			return fmt.Errorf("put %d items into %s: %w", len(some), f.name, err)
		}
	}
	return nil
}

// fileOf returns the file of an item's day, and makes it if it is missing.
func (p *putting) fileOf(it *engine.Archived) (*file, error) {
	start := dayOf(it.Ended)
	at := 0
	for at < len(p.days) && p.days[at].start.After(start) {
		at++
	}
	if at < len(p.days) && p.days[at].start.Equal(start) {
		return p.days[at], nil
	}
	name := dayName(start)
	if err := create(p.cfg.Dir, name, p.cfg.Owner); err != nil {
		return nil, err
	}
	f, err := p.openFile(name)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.days = slices.Insert(slices.Clone(p.days), at, f)
	return f, nil
}

// change is what a transaction does to one item.
type change struct {
	id    engine.ArchiveID
	item  *engine.Archived
	known bool // the file has it, in this list and with so many bytes
	list  list
	bytes int
}

// put keeps items that are sorted by id.
func (f *file) put(items []*engine.Archived) error {
	changes, sum, err := f.plan(items)
	if err != nil {
		return err
	}
	return f.apply(changes, sum)
}

// plan looks up what the file has of some items, and its counters. It reads every
// page that bbolt will walk, and so finds damage while it is only an error.
func (f *file) plan(items []*engine.Archived) ([]change, counters, error) {
	v, err := f.view()
	if err != nil {
		return nil, counters{}, err
	}
	defer v.release()
	runs, lists := v.cursor(v.data), v.cursor(v.lists)
	changes := make([]change, len(items))
	for i, it := range items {
		c := change{id: it.ID, item: it}
		old, ok, err := v.item(runs, it.ID[:])
		if err != nil {
			return nil, counters{}, err
		}
		if ok {
			c.known, c.list, c.bytes = true, list{group: string(old.group), kind: old.kind}, len(old.body)
		}
		changes[i] = c
	}
	// In the order of the lists, so that a page is read once.
	for _, key := range listKeys(changes) {
		if _, _, err := lists.get(key); err != nil {
			return nil, counters{}, err
		}
	}
	return changes, v.counters, nil
}

// listKeys are the keys of the lists that changes touch, in order.
func listKeys(changes []change) [][]byte {
	var keys [][]byte
	for _, c := range changes {
		if c.known {
			keys = append(keys, c.list.key(c.id[:]))
		}
		keys = append(keys, listOf(c.item).key(c.id[:]))
	}
	slices.SortFunc(keys, bytes.Compare)
	return keys
}

func listOf(it *engine.Archived) list { return list{group: it.Group, kind: it.Kind} }

// apply makes changes in one transaction; sum are the counters before it.
func (f *file) apply(changes []change, sum counters) error {
	return f.update(func(tx *bbolt.Tx) error {
		runs, lists := tx.Bucket(runsBucket), tx.Bucket(listsBucket)
		runs.FillPercent, lists.FillPercent = fill, fill
		buf := make([]byte, 0, room(changes))
		for _, c := range changes {
			if c.known {
				sum.items--
				sum.bytes -= uint64(c.bytes)
				if listOf(c.item) != c.list {
					if err := lists.Delete(c.list.key(c.id[:])); err != nil {
						return err
					}
				}
			}
			sum.items++
			sum.bytes += uint64(len(c.item.Body))
			from := len(buf)
			buf = appendItem(buf, c.item)
			if err := runs.Put(c.id[:], buf[from:len(buf):len(buf)]); err != nil {
				return err
			}
			if err := lists.Put(listOf(c.item).key(c.id[:]), nil); err != nil {
				return err
			}
		}
		return tx.Bucket(metaBucket).Put(countersKey, sum.encode())
	})
}

// room is how many bytes the values of changes take.
func room(changes []change) int {
	n := 0
	for _, c := range changes {
		n += sumBytes + headBytes + len(c.item.Group) + len(c.item.Body)
	}
	return n
}

// putKeys keeps keys that are sorted.
func (f *file) putKeys(all []*engine.ArchivedKey) error {
	sum, err := f.countKeys(all)
	if err != nil {
		return err
	}
	return f.update(func(tx *bbolt.Tx) error {
		keys := tx.Bucket(keysBucket)
		for _, k := range all {
			if err := keys.Put([]byte(k.Text), appendKey(nil, k)); err != nil {
				return err
			}
		}
		return tx.Bucket(metaBucket).Put(countersKey, sum.encode())
	})
}

// countKeys is what the counters will be once keys are put in. Like plan it reads
// the pages that bbolt will walk.
func (f *file) countKeys(all []*engine.ArchivedKey) (counters, error) {
	v, err := f.view()
	if err != nil {
		return counters{}, err
	}
	defer v.release()
	sum, c := v.counters, v.cursor(v.data)
	for _, k := range all {
		old, ok, err := c.get([]byte(k.Text))
		if err != nil {
			return counters{}, err
		}
		if ok {
			sum.items--
			sum.bytes -= uint64(len(k.Text) + len(old) - sumBytes)
		}
		sum.items++
		sum.bytes += uint64(len(k.Text) + len(k.Value))
	}
	return sum, nil
}

// noteOldest writes down the first day that hasn't been removed; it never falls.
func (f *file) noteOldest(start time.Time) error {
	if f.seen().oldest >= start.UnixNano() {
		return nil // a run that was moved late had made the day anew
	}
	return f.update(func(tx *bbolt.Tx) error {
		return tx.Bucket(metaBucket).Put(oldestKey, binary.BigEndian.AppendUint64(nil, uint64(start.UnixNano())))
	})
}

// update runs a transaction of bbolt. Nobody else writes to the file.
func (f *file) update(change func(tx *bbolt.Tx) error) error {
	err := f.guard("write", func() error { return f.db.Update(change) })
	if err == nil {
		err = f.inPlace()
	}
	if err != nil {
		// Whether the transaction is on disk is unknown, and a second fsync wouldn't
		// tell: nothing is written to this file any more.
		f.broken.Store(true)
	}
	return err
}
