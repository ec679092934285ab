package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// Report is what Inspect has found.
type Report struct {
	Files   []FileReport // in the order of their names
	Strange []string     // names of files that are none of the archive's
}

// FileReport is one file of an archive.
type FileReport struct {
	Name  string
	Day   time.Time // start of the UTC day; zero for the file of the keys
	Items uint64    // runs, or keys
	Bytes uint64    // of bodies, or of keys with their values
	Size  int64     // of the file, bytes
	Pages uint64    // pages of PageSize bytes that were ever used
	Free  int       // of them free now
	// PageSize is the number of bytes of a page.
	PageSize int
	// Err is the first problem of the file: a DamageError, ErrNewerFormat, ErrLocked,
	// or one of the disk. With it the numbers above are as far as they were read.
	Err error
}

// Inspect reads every byte that counts in an archive and changes nothing: the pages
// and how they hang together, the checksum of every value, and whether runs, lists
// and counters agree. It can't look at the archive of a running node. Its error joins
// those of all files.
func Inspect(ctx context.Context, dir string) (Report, error) {
	infos, err := listFiles(dir)
	if err != nil {
		return Report{}, err
	}
	var rep Report
	var all error
	for _, info := range infos {
		start, isDay := parseDay(info.Name)
		if !isDay && info.Name != KeysName {
			if info.Name != lockName {
				rep.Strange = append(rep.Strange, info.Name)
			}
			continue
		}
		f := FileReport{Name: info.Name, Day: start, Size: info.Size}
		f.Err = inspectFile(ctx, dir, &f)
		if err := ctx.Err(); err != nil {
			return rep, err
		}
		rep.Files = append(rep.Files, f)
		all = errors.Join(all, f.Err)
	}
	return rep, all
}

func inspectFile(ctx context.Context, dir string, rep *FileReport) (err error) {
	f := &file{name: rep.Name, path: filepath.Join(dir, rep.Name)}
	disk, err := os.Open(f.path)
	if err != nil {
		return fmt.Errorf("inspect archive file: %w", err)
	}
	defer func() { err = errors.Join(err, disk.Close()) }()
	st, err := readState(f.path, f.name, disk)
	if st != nil {
		rep.Items, rep.Bytes, rep.Pages, rep.PageSize = st.counters.items, st.counters.bytes, st.pages, st.pageSize
	}
	if err != nil {
		return err
	}
	// bbolt is opened for its lock only: a writer and a reader exclude each other.
	options := boltOptions(&f.disk)
	options.ReadOnly, options.InitialMmapSize = true, 0
	err = f.guard("open", func() (err error) {
		f.db, err = bbolt.Open(f.path, fileMode, options)
		return err
	})
	if errors.Is(err, berrors.ErrTimeout) {
		return fmt.Errorf("%s: %w", f.path, ErrLocked)
	}
	if err != nil {
		return fmt.Errorf("inspect archive file %s: %w", f.path, errors.Join(err, f.close()))
	}
	defer func() { err = errors.Join(err, f.close()) }()
	// Read again: only now nobody writes.
	if st, err = readState(f.path, f.name, disk); err != nil {
		return err
	}
	rep.Items, rep.Bytes, rep.Pages = st.counters.items, st.counters.bytes, st.pages
	in := inspection{state: st, p: st.pagesOf(f.path, disk), used: make([]bool, st.pages), seed: maphash.MakeSeed()}
	in.isKeys, in.day = f.name == KeysName, rep.Day
	if err := in.run(ctx); err != nil {
		return err
	}
	rep.Free = in.free
	return nil
}

// inspection reads one file from end to end.
type inspection struct {
	state  *state
	p      pages
	used   []bool // by page
	free   int
	isKeys bool
	day    time.Time

	found counters
	lists uint64
	// Sums over hashes of what should stand in the lists and of what does: they agree
	// when the two are the same set, without holding either in memory.
	seed             maphash.Seed
	wanted, standing uint64
}

func (in *inspection) run(ctx context.Context) error {
	in.used[0], in.used[1] = true, true // the meta pages
	trees := map[string]tree{}
	err := in.walk(ctx, span{id: in.state.root}, 0, func(name, value []byte, bucket bool) error {
		t, ok := parseTree(value)
		if !bucket || !ok {
			return in.p.damaged("%q in its root isn't a bucket", name)
		}
		trees[string(name)] = t
		return nil
	})
	if err != nil {
		return err
	}
	visits := map[string]func(k, v []byte, bucket bool) error{
		string(metaBucket): in.visitMeta, string(runsBucket): in.visitRun, string(listsBucket): in.visitList,
	}
	if in.isKeys {
		visits = map[string]func(k, v []byte, bucket bool) error{string(metaBucket): in.visitMeta, string(keysBucket): in.visitKey}
	}
	if len(trees) != len(visits) {
		return in.p.damaged("it has %d buckets, want %d", len(trees), len(visits))
	}
	for _, name := range [][]byte{metaBucket, runsBucket, listsBucket, keysBucket} {
		t, ok := trees[string(name)]
		if !ok {
			continue // readState has found those that are needed
		}
		visit := visits[string(name)]
		if visit == nil {
			return in.p.damaged("it has a bucket %s", name)
		}
		if err := in.walk(ctx, span{id: t.root, inline: t.inline}, 0, visit); err != nil {
			return err
		}
	}
	return in.compare()
}

// compare checks what only the whole file shows.
func (in *inspection) compare() error {
	if in.found != in.state.counters {
		return in.p.damaged("it counts %d items with %d bytes and has %d with %d",
			in.state.counters.items, in.state.counters.bytes, in.found.items, in.found.bytes)
	}
	if !in.isKeys && (in.lists != in.found.items || in.wanted != in.standing) {
		return in.p.damaged("its lists (%d entries) and its items (%d) don't agree", in.lists, in.found.items)
	}
	data, err := in.p.raw(in.state.free, nil)
	if err == nil {
		err = in.use(in.state.free, len(data)/in.p.size)
	}
	if err != nil {
		return err
	}
	free, err := freeList(&in.p, in.state.free)
	if err != nil {
		return err
	}
	in.free = len(free)
	for _, id := range free {
		if err := in.use(id, 1); err != nil {
			return err
		}
	}
	if i := slices.Index(in.used, false); i >= 0 {
		return in.p.damaged("page %d is neither used nor free", i)
	}
	return nil
}

// use marks n pages; each has one use.
func (in *inspection) use(id uint64, n int) error {
	for i := id; i < id+uint64(n); i++ {
		if in.used[i] {
			return in.p.damaged("page %d is used twice", i)
		}
		in.used[i] = true
	}
	return nil
}

// span is a part of a tree: a page, and the bounds of its keys. A nil bound is none.
type span struct {
	id        uint64
	inline    []byte
	low, high []byte // low is inclusive, high isn't
}

// walk visits all entries below a page, in order.
func (in *inspection) walk(ctx context.Context, s span, depth int, visit func(k, v []byte, bucket bool) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	data := s.inline
	if s.id != 0 || depth > 0 {
		var err error
		if data, err = in.p.raw(s.id, nil); err != nil {
			return err
		}
		// A page that was met before ends every ring.
		if err := in.use(s.id, len(data)/in.p.size); err != nil {
			return err
		}
	}
	p, wrong := parsePage(s.id, data)
	if wrong != "" {
		return in.p.damaged("%s", wrong)
	}
	if p.count == 0 && depth > 0 {
		return in.p.damaged("page %d below the root is empty", s.id)
	}
	last := s.low
	for i := range p.count {
		k := p.key(i)
		if last != nil && bytes.Compare(k, last) < 0 || i > 0 && bytes.Equal(k, last) || s.high != nil && bytes.Compare(k, s.high) >= 0 {
			return in.p.damaged("key %d of page %d is out of order", i, s.id)
		}
		last = k
		if p.kind == leafPage {
			if err := visit(k, p.value(i), p.isBucket(i)); err != nil {
				return err
			}
			continue
		}
		below := span{id: p.child(i), low: k, high: s.high}
		if i+1 < p.count {
			below.high = p.key(i + 1)
		}
		if err := in.walk(ctx, below, depth+1, visit); err != nil {
			return err
		}
	}
	return nil
}

func (in *inspection) visitMeta(k, _ []byte, bucket bool) error {
	for _, known := range [][]byte{formatKey, nameKey, ownerKey, oldestKey, countersKey} {
		if bytes.Equal(k, known) && !bucket {
			return nil
		}
	}
	return in.p.damaged("it says %q about itself", k)
}

func (in *inspection) visitRun(k, v []byte, bucket bool) error {
	if bucket || len(k) != idBytes {
		return in.p.damaged("it has an item with the key %x", k)
	}
	it, wrong := readItem(k, v)
	if wrong != "" {
		return in.p.damaged("%s", wrong)
	}
	if !dayOf(it.ended).Equal(in.day) {
		return in.p.damaged("item %x ended at %s, on another day", k, time.Unix(0, it.ended).UTC().Format(time.RFC3339))
	}
	in.found.items++
	in.found.bytes += uint64(len(it.body))
	in.wanted += maphash.Bytes(in.seed, list{string(it.group), it.kind}.key(k))
	return nil
}

func (in *inspection) visitList(k, v []byte, bucket bool) error {
	if _, ok := parseListKey(k); !ok || bucket || len(v) > 0 {
		return in.p.damaged("a list has the key %x", k)
	}
	in.lists++
	in.standing += maphash.Bytes(in.seed, k)
	return nil
}

func (in *inspection) visitKey(k, v []byte, bucket bool) error {
	if bucket {
		return in.p.damaged("key %q is a bucket", k)
	}
	body, wrong := open(k, v)
	if wrong != "" {
		return in.p.damaged("%s", wrong)
	}
	in.found.items++
	in.found.bytes += uint64(len(k) + len(body))
	return nil
}
