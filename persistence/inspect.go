package persistence

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// ErrNotData is returned for a path that is no data directory: nothing is there, or
// nothing that a node has made.
var ErrNotData = errors.New("persistence: not a data directory")

// Inspector reads the data directory of a node that doesn't run, and changes nothing:
// no file is written, made or removed, so a directory that can only be read will do.
// While it is open no node can start on the directory; several inspectors can be open
// at once. It is for one goroutine.
type Inspector struct {
	fs   vfs.FS
	dir  string
	lock io.Closer
	man  *manifest
}

// About is what the manifest of a data directory says.
type About struct {
	Node       engine.NodeID
	Cluster    string
	Shards     int
	Partitions int
	Boot       uint64 // lives so far
	MinIndex   uint64 // lowest frame that a start needs
	Durable    uint64 // a frame that was on disk when the manifest was written
	// Lost says that a life began behind a possible loss of acknowledged entries, and
	// that old leases are still waited out (R18).
	Lost bool
}

// SnapshotInfo names a published snapshot.
type SnapshotInfo struct {
	Shard engine.ShardID
	Path  string
	// Epoch and Seq are the last entry inside, Pos is its place in the life of the
	// shard; all zero when there was none.
	Epoch engine.Epoch
	Seq   engine.Seq
	Pos   engine.Pos
	Wall  int64  // shard time of that entry or a later one, Unix nanoseconds; 0: not known
	Index uint64 // a frame up to which all entries of the shard are inside, as the file says
	// Through is the last frame that is known by now to bring nothing that isn't inside;
	// not below Index.
	Through uint64
	Bytes   int64 // size of the file

	ref snapshotRef
}

// FrameInfo is one frame of a journal. It, its items and their bodies are valid
// during the call that hands it over.
type FrameInfo struct {
	Index  uint64
	Epoch  engine.Epoch
	First  uint64 // journal number of the first item
	Lazy   bool   // the life that wrote it acknowledges before fsync
	File   string // path of the segment
	Offset int64  // in the segment, of the frame's length
	Items  []ItemInfo
}

// ItemInfo is one item of a frame.
type ItemInfo struct {
	Kind  string // "entry", "boot" or "recovered"
	Shard engine.ShardID
	Epoch engine.Epoch
	Seq   engine.Seq // of a recovered item: the entries that the start has replayed
	Wall  int64      // Unix nanoseconds
	Cut   uint64     // of a recovered item: the bytes that the start has cut off
	Body  []byte     // of an entry
}

// Report is what the journal holds.
type Report struct {
	Node        engine.NodeID
	Cluster     string
	Shards      int
	Boot        uint64
	Segments    int
	First, Last uint64 // frames; Last is First-1 when there are none
	Frames      int64
	Items       int64
	Bytes       int64
	// Torn is the number of bytes behind the last frame that the next start would
	// cut off, TornFile and TornOffset where they stand.
	Torn       int64
	TornFile   string
	TornOffset int64
	// Snapshots is the number of published snapshots.
	Snapshots int
}

// Inspect reads each snapshot of a data directory, checks the journal as a start
// would, changes nothing, and calls visit for each frame that the journal still
// needs; nil visits nothing. Errors: those of OpenInspector, ReadSnapshot and
// ReadJournal.
func Inspect(ctx context.Context, dir string, visit func(FrameInfo) error) (rep Report, err error) {
	in, err := OpenInspector(dir)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	for _, s := range in.Snapshots() {
		err := in.ReadSnapshot(s, func(r io.Reader) error {
			_, err := io.Copy(io.Discard, r)
			return err
		})
		if err != nil {
			return Report{}, err
		}
	}
	return in.ReadJournal(ctx, visit)
}

// OpenInspector keeps nodes from starting on a data directory and reads its manifest.
// A directory without the file "lock" is a copy that no node was ever started on; it
// isn't locked. Errors: ErrLocked, ErrNotData, ErrNoManifest, ErrNewerFormat,
// *DamageError, and what the system says.
func OpenInspector(dir string) (*Inspector, error) {
	in := &Inspector{fs: vfs.OS{}, dir: dir}
	if err := in.open(); err != nil {
		return nil, fmt.Errorf("inspect %s: %w", dir, err)
	}
	return in, nil
}

func (in *Inspector) open() error {
	info, err := os.Stat(in.dir)
	switch {
	case errors.Is(err, iofs.ErrNotExist):
		return fmt.Errorf("%w: there is nothing of that name", ErrNotData)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%w: it is a file", ErrNotData)
	}
	if in.lock, err = shareLock(in.dir); err != nil {
		return err
	}
	in.man, err = readManifest(in.fs, in.dir)
	if errors.Is(err, iofs.ErrNotExist) {
		err = in.without()
	}
	if err != nil {
		return errors.Join(err, in.Close())
	}
	return nil
}

// shareLock takes the lock as a reader, on the file as it is: nil when there is none.
// Making the file would make a data directory of any directory.
func shareLock(dir string) (io.Closer, error) {
	f, err := os.Open(filepath.Join(dir, lockName))
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock: %w", err), f.Close())
	}
	return f, nil
}

// without is what a directory is that has no manifest.
func (in *Inspector) without() error {
	for _, sub := range []string{journalDir, snapshotDir} {
		infos, err := in.fs.ReadDir(filepath.Join(in.dir, sub))
		if err != nil && !errors.Is(err, iofs.ErrNotExist) {
			return fmt.Errorf("look for a journal: %w", err)
		}
		if len(infos) > 0 {
			return ErrNoManifest
		}
	}
	return fmt.Errorf("%w: it has neither manifest nor journal", ErrNotData)
}

// Close lets nodes start on the directory.
func (in *Inspector) Close() error {
	if in.lock == nil {
		return nil
	}
	return in.lock.Close()
}

// About is what the manifest says.
func (in *Inspector) About() About {
	m := in.man
	return About{
		Node: m.Node, Cluster: m.Cluster, Shards: m.Shards, Partitions: m.Partitions,
		Boot: m.Boot, MinIndex: m.MinIndex, Durable: m.Durable, Lost: m.Lost,
	}
}

// Snapshots lists what the manifest names, by shard, the newest first.
func (in *Inspector) Snapshots() []SnapshotInfo {
	var out []SnapshotInfo
	for s := range in.man.Shards {
		for _, ref := range in.man.of(engine.ShardID(s)) {
			out = append(out, SnapshotInfo{
				Shard: ref.Shard, Path: filepath.Join(in.dir, snapshotDir, ref.fileName()),
				Epoch: ref.Epoch, Seq: ref.Seq, Pos: ref.Pos, Wall: ref.Wall, Index: ref.Index,
				Through: ref.through(), Bytes: ref.Bytes, ref: ref,
			})
		}
	}
	return out
}

// ReadSnapshot hands the state in a snapshot to use, which sees no byte whose
// checksum is wrong. Whatever use leaves is read too. Errors: *DamageError,
// ErrNewerFormat, that of use, and what the system says.
func (in *Inspector) ReadSnapshot(s SnapshotInfo, use func(io.Reader) error) error {
	return readSnapshot(in.fs, filepath.Join(in.dir, snapshotDir), s.ref, func(r io.Reader) error {
		if err := use(r); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, r)
		return err
	})
}

// ReadJournal checks the journal as a start would and calls visit for each frame that
// is still needed; nil visits nothing. With an error the report says what was read
// before. Errors: *DamageError, ErrNewerFormat, that of ctx, that of visit, and what
// the system says.
func (in *Inspector) ReadJournal(ctx context.Context, visit func(FrameInfo) error) (Report, error) {
	w := &frameWalk{in: in, visit: visit, ends: make([]tip, in.man.Shards)}
	s := scanner{
		fs: in.fs, dir: filepath.Join(in.dir, journalDir), bounds: in.man.bounds(),
		visit: w.frame,
		segment: func(seg segment, _, _ int) error {
			w.file, w.next = filepath.Join(in.dir, journalDir, segmentName(seg.first)), 0
			return ctx.Err()
		},
	}
	err := refuseTruncation(in.fs, s.dir)
	if err == nil {
		_, err = s.run()
	}
	fd := s.found
	if errors.Is(err, iofs.ErrNotExist) && fd.first == 0 {
		err = w.missing()
	}
	if err == nil {
		err = w.end(fd.last)
	}
	return Report{
		Node: in.man.Node, Cluster: in.man.Cluster, Shards: in.man.Shards, Boot: in.man.Boot,
		Segments: len(fd.segments), First: fd.first, Last: fd.last, Frames: fd.frames, Items: fd.items, Bytes: fd.bytes,
		Torn: int64(len(fd.torn)), TornFile: w.file, TornOffset: int64(len(fd.good)),
		Snapshots: len(in.man.Snapshots),
	}, err
}

// frameWalk shows the frames of one scan, and checks what lies between them.
type frameWalk struct {
	in    *Inspector
	visit func(FrameInfo) error
	dec   itemDecoder
	items []ItemInfo
	ends  []tip  // last entry of each shard; epoch 0: none yet
	file  string // of the segment at hand
	next  int64  // offset of the next frame in it
}

func (w *frameWalk) frame(f frame) error {
	w.items = w.items[:0]
	if err := w.dec.each(f, w.item); err != nil {
		return err
	}
	size := frameHeadBytes + len(f.body)
	at := w.next
	w.next += int64(len(binary.AppendUvarint(nil, uint64(size))) + size)
	if w.visit == nil {
		return nil
	}
	return w.visit(FrameInfo{
		Index: f.index, Epoch: engine.Epoch(f.epoch), First: f.first, Lazy: f.flags&flagLazy != 0,
		File: w.file, Offset: at, Items: w.items,
	})
}

func (w *frameWalk) item(it item) error {
	info := ItemInfo{Kind: it.kind.String(), Shard: it.shard, Epoch: it.epoch, Seq: it.seq, Wall: it.wall, Body: it.body}
	switch it.kind {
	case kindEntry:
		if err := w.order(it); err != nil {
			return err
		}
	case kindBoot: // it has nothing to take apart
	case kindRecovered:
		if len(it.body) != 8 {
			return fmt.Errorf("%w: recovered with %d bytes", errItem, len(it.body))
		}
		info.Cut, info.Body = binary.LittleEndian.Uint64(it.body), nil
	}
	w.items = append(w.items, info)
	return nil
}

// order checks that no entry of a shard is missing, as a replay does. The first one
// may stand inside of any snapshot of the shard, but not beyond.
func (w *frameWalk) order(it item) error {
	if int(it.shard) >= len(w.ends) {
		return fmt.Errorf("%w: shard %d of %d", errItem, it.shard, len(w.ends))
	}
	follows := func(e tip) bool { return it.epoch == e.epoch && it.seq == e.seq+1 || it.epoch > e.epoch && it.seq == 1 }
	end := &w.ends[it.shard]
	ok := follows(*end)
	if end.epoch == 0 {
		for _, ref := range w.in.man.of(it.shard) {
			edge := tip{epoch: ref.Epoch, seq: ref.Seq}
			ok = ok || follows(edge) || it.epoch < edge.epoch || it.epoch == edge.epoch && it.seq <= edge.seq
		}
	}
	if !ok {
		return fmt.Errorf("%w: shard %d entry %d of epoch %d behind entry %d of epoch %d",
			errItem, it.shard, it.seq, it.epoch, end.seq, end.epoch)
	}
	end.epoch, end.seq = it.epoch, it.seq
	return nil
}

// missing is what it means that there is no journal directory: the first start was
// ended before it made one, or it is lost.
func (w *frameWalk) missing() error {
	if w.in.man.Durable == 0 {
		return nil
	}
	return &DamageError{
		File: filepath.Join(w.in.dir, journalDir), Offset: 0,
		Expected: fmt.Sprintf("a journal up to frame %d", w.in.man.Durable), Found: "nothing",
	}
}

// end checks that the journal reaches as far as the snapshots have seen it.
func (w *frameWalk) end(last uint64) error {
	for _, ref := range w.in.man.Snapshots {
		if ref.through() > last {
			return &DamageError{
				File: filepath.Join(w.in.dir, journalDir), Offset: 0,
				Expected: fmt.Sprintf("a journal up to frame %d, which a snapshot of shard %d has seen", ref.through(), ref.Shard),
				Found:    fmt.Sprintf("its end behind frame %d", last),
			}
		}
	}
	return nil
}
