package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
)

// sectorBytes is the unit that a disk writes whole or not at all.
const sectorBytes = 512

// Mem is a file system in memory that knows, for every file and directory, what a
// power cut would leave:
//
//	file       bytes as of the last Sync  |  writes and truncates since, in order
//	directory  names as of the last SyncDir | creates, renames, removes since, in order
//
// It is stricter than ext4: a file's Sync doesn't make its name durable.
// Directories themselves are durable at once; names can't move between
// directories. Make one with NewMem.
type Mem struct {
	mu    sync.Mutex // guards everything, the files' bytes too
	dirs  map[string]*memDir
	locks map[string]bool
	free  uint64
}

var _ FS = (*Mem)(nil)

type memDir struct {
	live    map[string]*memNode
	disk    map[string]*memNode
	pending []nameOp
}

// nameOp is one change of a directory: name points to node (nil: removed), and
// from, if there is one, is gone in the same moment.
type nameOp struct {
	name string
	from string
	node *memNode
}

type memNode struct {
	live    []byte
	disk    []byte
	pending []dataOp
}

// dataOp is a write at off, or, with nil data, a truncate to off.
type dataOp struct {
	off  int64
	data []byte
}

// NewMem makes an empty file system with a terabyte of free space.
func NewMem() *Mem {
	return &Mem{dirs: make(map[string]*memDir), locks: make(map[string]bool), free: 1 << 40}
}

// SetFree sets what Free answers. It doesn't limit writes.
func (m *Mem) SetFree(bytes uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free = bytes
}

// LoseWrites plays what a failed fsync leaves: what was written to the file since
// its last Sync can still be read, but no later Sync brings it to the disk.
func (m *Mem) LoseWrites(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, node, err := m.find("lose", name)
	if err != nil {
		return err
	}
	node.pending = nil
	return nil
}

// CrashClone is the disk after a power cut at this moment. With a nil rng it
// holds what was synced and nothing else. With an rng it also holds a random
// share of what wasn't: of each directory's changes a prefix, of each file's
// writes any subset, each one whole or torn at sectors.
func (m *Mem) CrashClone(rng *rand.Rand) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := NewMem()
	out.free = m.free
	cloned := make(map[*memNode]*memNode)
	for _, path := range slices.Sorted(maps.Keys(m.dirs)) {
		d := m.dirs[path]
		names := maps.Clone(d.disk)
		if rng != nil && len(d.pending) > 0 {
			for _, op := range d.pending[:rng.IntN(len(d.pending)+1)] {
				op.apply(names)
			}
		}
		nd := &memDir{live: make(map[string]*memNode), disk: make(map[string]*memNode)}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			node := names[name]
			if cloned[node] == nil {
				data := node.crashed(rng)
				cloned[node] = &memNode{live: data, disk: slices.Clone(data)}
			}
			nd.live[name], nd.disk[name] = cloned[node], cloned[node]
		}
		out.dirs[path] = nd
	}
	return out
}

func (op nameOp) apply(names map[string]*memNode) {
	if op.from != "" {
		delete(names, op.from)
	}
	if op.node == nil {
		delete(names, op.name)
		return
	}
	names[op.name] = op.node
}

// crashed is the content of a file after a power cut.
func (n *memNode) crashed(rng *rand.Rand) []byte {
	data := slices.Clone(n.disk)
	if rng == nil {
		return data
	}
	for _, op := range n.pending {
		switch rng.IntN(4) {
		case 0: // lost
		case 1:
			data = op.torn(data, rng)
		default:
			data = op.apply(data)
		}
	}
	return data
}

func (op dataOp) apply(data []byte) []byte {
	if op.data == nil {
		return resize(data, op.off)
	}
	if end := op.off + int64(len(op.data)); end > int64(len(data)) {
		data = resize(data, end)
	}
	copy(data[op.off:], op.data)
	return data
}

// torn applies some of the sectors of a write; the file has its new length, so
// what is missing behind its old end is zero.
func (op dataOp) torn(data []byte, rng *rand.Rand) []byte {
	if op.data == nil {
		return data
	}
	end := op.off + int64(len(op.data))
	if end > int64(len(data)) {
		data = resize(data, end)
	}
	stop := op.off + rng.Int64N(int64(len(op.data))+1)
	prefix := rng.IntN(2) == 0
	for at := op.off; at < end; {
		next := min((at/sectorBytes+1)*sectorBytes, end)
		if (prefix && next <= stop) || (!prefix && rng.IntN(2) == 0) {
			copy(data[at:next], op.data[at-op.off:next-op.off])
		}
		at = next
	}
	return data
}

func resize(data []byte, size int64) []byte {
	if size <= int64(len(data)) {
		return data[:size:size]
	}
	return append(data, make([]byte, size-int64(len(data)))...)
}

// split finds the directory of a name; mu is held.
func (m *Mem) split(op, name string) (*memDir, string, error) {
	d := m.dirs[filepath.Dir(name)]
	if d == nil {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return d, filepath.Base(name), nil
}

// find finds an existing file; mu is held.
func (m *Mem) find(op, name string) (*memDir, *memNode, error) {
	d, base, err := m.split(op, name)
	if err != nil {
		return nil, nil, err
	}
	node := d.live[base]
	if node == nil {
		return nil, nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return d, node, nil
}

func (d *memDir) change(op nameOp) {
	op.apply(d.live)
	d.pending = append(d.pending, op)
}

// Create makes or empties a file.
func (m *Mem) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, base, err := m.split("create", name)
	if err != nil {
		return nil, err
	}
	node := d.live[base]
	if node == nil {
		node = &memNode{}
		d.change(nameOp{name: base, node: node})
	} else {
		node.write(dataOp{})
	}
	return &memFile{fs: m, node: node, name: name}, nil
}

// Open opens a file for reading.
func (m *Mem) Open(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, node, err := m.find("open", name)
	if err != nil {
		return nil, err
	}
	return &memFile{fs: m, node: node, name: name}, nil
}

// OpenWrite opens a file at its end.
func (m *Mem) OpenWrite(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, node, err := m.find("open", name)
	if err != nil {
		return nil, err
	}
	return &memFile{fs: m, node: node, name: name, at: int64(len(node.live))}, nil
}

// Rename renames a file inside its directory.
func (m *Mem) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, node, err := m.find("rename", from)
	if err != nil {
		return err
	}
	if filepath.Dir(from) != filepath.Dir(to) {
		return &fs.PathError{Op: "rename", Path: to, Err: fs.ErrInvalid}
	}
	d.change(nameOp{name: filepath.Base(to), from: filepath.Base(from), node: node})
	return nil
}

// Remove deletes a file.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, _, err := m.find("remove", name)
	if err != nil {
		return err
	}
	d.change(nameOp{name: filepath.Base(name)})
	return nil
}

// MkdirAll makes a directory and those above it.
func (m *Mem) MkdirAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		if m.dirs[dir] == nil {
			m.dirs[dir] = &memDir{live: make(map[string]*memNode), disk: make(map[string]*memNode)}
		}
		up := filepath.Dir(dir)
		if up == dir {
			return nil
		}
		dir = up
	}
}

// ReadDir lists the files of a directory.
func (m *Mem) ReadDir(dir string) ([]Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.dirs[dir]
	if d == nil {
		return nil, &fs.PathError{Op: "readdir", Path: dir, Err: fs.ErrNotExist}
	}
	var out []Info
	for _, name := range slices.Sorted(maps.Keys(d.live)) {
		out = append(out, Info{Name: name, Size: int64(len(d.live[name].live))})
	}
	return out, nil
}

// Stat describes a file.
func (m *Mem) Stat(name string) (Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, node, err := m.find("stat", name)
	if err != nil {
		return Info{}, err
	}
	return Info{Name: filepath.Base(name), Size: int64(len(node.live))}, nil
}

// SyncDir makes the names of a directory durable.
func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.dirs[dir]
	if d == nil {
		return &fs.PathError{Op: "sync", Path: dir, Err: fs.ErrNotExist}
	}
	d.disk, d.pending = maps.Clone(d.live), nil
	return nil
}

// Lock takes a lock of this file system; a clone has none.
func (m *Mem) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, base, err := m.split("lock", name)
	if err != nil {
		return nil, err
	}
	if m.locks[name] {
		return nil, fmt.Errorf("lock %s: %w", name, ErrLocked)
	}
	if d.live[base] == nil {
		d.change(nameOp{name: base, node: &memNode{}})
	}
	m.locks[name] = true
	return &memLock{fs: m, name: name}, nil
}

// Free is what SetFree has set.
func (m *Mem) Free(string) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.free, nil
}

type memLock struct {
	fs   *Mem
	name string
}

func (l *memLock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	delete(l.fs.locks, l.name)
	return nil
}

// memFile is an open file.
type memFile struct {
	fs     *Mem
	node   *memNode
	name   string
	at     int64
	closed bool
}

func (n *memNode) write(op dataOp) {
	n.live = op.apply(n.live)
	n.pending = append(n.pending, op)
}

func (f *memFile) usable(op string) error {
	if f.closed {
		return &fs.PathError{Op: op, Path: f.name, Err: fs.ErrClosed}
	}
	return nil
}

func (f *memFile) Read(p []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usable("read"); err != nil {
		return 0, err
	}
	if f.at >= int64(len(f.node.live)) {
		return 0, io.EOF
	}
	n := copy(p, f.node.live[f.at:])
	f.at += int64(n)
	return n, nil
}

func (f *memFile) Write(p []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usable("write"); err != nil {
		return 0, err
	}
	if len(p) > 0 {
		f.node.write(dataOp{off: f.at, data: slices.Clone(p)})
		f.at += int64(len(p))
	}
	return len(p), nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usable("write"); err != nil {
		return 0, err
	}
	if len(p) > 0 {
		f.node.write(dataOp{off: off, data: slices.Clone(p)})
	}
	return len(p), nil
}

func (f *memFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usable("sync"); err != nil {
		return err
	}
	// The disk gets what is pending, which isn't all that can be seen after
	// LoseWrites.
	for _, op := range f.node.pending {
		f.node.disk = op.apply(f.node.disk)
	}
	f.node.pending = nil
	return nil
}

func (f *memFile) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usable("truncate"); err != nil {
		return err
	}
	f.node.write(dataOp{off: size})
	f.at = size
	return nil
}

func (f *memFile) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usable("close"); err != nil {
		return err
	}
	f.closed = true
	return nil
}
