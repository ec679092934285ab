package persistence

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	iofs "io/fs"
	"path/filepath"

	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// A snapshot file holds the state of one shard as a stream of bytes, cut into
// chunks so that no byte is handed out before its checksum was compared. Numbers
// are little endian.
//
//	head     0  4  magic "pyrs"
//	         4  2  version, 1
//	         6  2  shard
//	         8  8  epoch of the boundary
//	        16  8  seq of the boundary
//	        24  8  position of the boundary
//	        32  8  journal index: a frame up to which all entries are inside
//	        40  4  crc32c of bytes 0 to 39
//	chunk       4  length, 1 to 262144
//	            4  crc32c of ( head's crc32c | number of the chunk, 8 bytes | data )
//	               data
//	foot        4  zero, where a chunk has its length
//	            4  crc32c of ( head's crc32c | the two numbers that follow )
//	            8  number of chunks
//	            8  bytes of all chunks
//
// The head's checksum and the chunk's number stand under each checksum: a chunk of
// another file, or at another place, isn't taken for one of this file.
const (
	snapshotDir    = "snapshots"
	snapshotSuffix = ".snap"

	snapshotMagic   = "pyrs"
	snapshotVersion = 1

	snapshotHeadBytes  = 44
	snapshotFootBytes  = 24
	chunkHeadBytes     = 8
	snapshotChunkBytes = 256 << 10
	// snapshotSyncBytes is written between two syncs, so that the last one doesn't
	// hold up commits.
	snapshotSyncBytes = 4 << 20
)

// snapshotWriter writes one snapshot file.
type snapshotWriter struct {
	file vfs.File
	// yield lets commits go first, between two syncs; its error ends the writing.
	yield func() error

	sum      uint32 // of the head
	whole    uint32 // of all bytes so far
	chunk    []byte // chunk head and data, not yet written
	chunks   uint64
	bytes    uint64
	size     int64 // of the file
	unsynced int
}

// newSnapshotWriter writes the head.
func newSnapshotWriter(file vfs.File, ref snapshotRef, yield func() error) (*snapshotWriter, error) {
	head := snapshotHead(ref)
	w := &snapshotWriter{
		file: file, yield: yield, sum: headSum(head),
		chunk: make([]byte, chunkHeadBytes, chunkHeadBytes+snapshotChunkBytes),
	}
	return w, w.emit(head)
}

func snapshotHead(ref snapshotRef) []byte {
	head := make([]byte, 0, snapshotHeadBytes)
	head = append(head, snapshotMagic...)
	head = binary.LittleEndian.AppendUint16(head, snapshotVersion)
	head = binary.LittleEndian.AppendUint16(head, uint16(ref.Shard))
	head = binary.LittleEndian.AppendUint64(head, uint64(ref.Epoch))
	head = binary.LittleEndian.AppendUint64(head, uint64(ref.Seq))
	head = binary.LittleEndian.AppendUint64(head, uint64(ref.Pos))
	head = binary.LittleEndian.AppendUint64(head, ref.Index)
	return binary.LittleEndian.AppendUint32(head, crc32.Checksum(head, castagnoli))
}

func headSum(head []byte) uint32 { return binary.LittleEndian.Uint32(head[snapshotHeadBytes-4:]) }

// Write cuts the state into chunks.
func (w *snapshotWriter) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n := min(len(p)-done, cap(w.chunk)-len(w.chunk))
		w.chunk = append(w.chunk, p[done:done+n]...)
		done += n
		if len(w.chunk) == cap(w.chunk) {
			if err := w.endChunk(); err != nil {
				return done, err
			}
		}
	}
	return len(p), nil
}

func (w *snapshotWriter) endChunk() error {
	data := w.chunk[chunkHeadBytes:]
	binary.LittleEndian.PutUint32(w.chunk, uint32(len(data)))
	binary.LittleEndian.PutUint32(w.chunk[4:], chunkSum(w.sum, w.chunks, data))
	w.chunks++
	w.bytes += uint64(len(data))
	err := w.emit(w.chunk)
	w.chunk = w.chunk[:chunkHeadBytes]
	return err
}

func chunkSum(head uint32, number uint64, data []byte) uint32 {
	var salt [12]byte
	binary.LittleEndian.PutUint32(salt[:], head)
	binary.LittleEndian.PutUint64(salt[4:], number)
	return crc32.Update(crc32.Checksum(salt[:], castagnoli), castagnoli, data)
}

// emit writes to the file, and syncs every few MiB.
func (w *snapshotWriter) emit(p []byte) error {
	n, err := w.file.Write(p)
	w.size += int64(n)
	w.whole = crc32.Update(w.whole, castagnoli, p[:n])
	w.unsynced += n
	if err != nil {
		return err
	}
	if w.unsynced < snapshotSyncBytes {
		return nil
	}
	w.unsynced = 0
	return w.sync()
}

func (w *snapshotWriter) sync() error {
	if err := w.yield(); err != nil {
		return err
	}
	return w.file.Sync()
}

// finish writes the last chunk and the foot, and syncs.
func (w *snapshotWriter) finish() error {
	if len(w.chunk) > chunkHeadBytes {
		if err := w.endChunk(); err != nil {
			return err
		}
	}
	if err := w.emit(snapshotFoot(w.sum, w.chunks, w.bytes)); err != nil {
		return err
	}
	return w.sync()
}

func snapshotFoot(head uint32, chunks, bytes uint64) []byte {
	foot := make([]byte, snapshotFootBytes)
	binary.LittleEndian.PutUint64(foot[8:], chunks)
	binary.LittleEndian.PutUint64(foot[16:], bytes)
	var salt [4]byte
	binary.LittleEndian.PutUint32(salt[:], head)
	sum := crc32.Update(crc32.Checksum(salt[:], castagnoli), castagnoli, foot[8:])
	binary.LittleEndian.PutUint32(foot[4:], sum)
	return foot
}

// snapshotReader reads a snapshot file and hands out no byte that it didn't check.
// It is one chunk ahead of its user: the last byte is handed out when the foot and the
// end of the file have been seen.
type snapshotReader struct {
	name string
	in   *bufio.Reader
	at   int64 // offset in the file

	want   string // checksum of the whole file, empty when nobody remembers it
	whole  uint32 // of all bytes so far
	sum    uint32
	chunk  []byte // what is left of the present chunk
	ahead  []byte // the next chunk
	begun  bool   // ahead was read once
	failed error  // of the first failed read; it stays
	bufs   [2][]byte
	chunks uint64
	bytes  uint64
}

// newSnapshotReader reads the head and compares it with the reference.
func newSnapshotReader(name string, r io.Reader, ref snapshotRef) (*snapshotReader, error) {
	s := &snapshotReader{name: name, in: bufio.NewReaderSize(r, 64<<10), want: ref.Sum}
	head := make([]byte, snapshotHeadBytes)
	if err := s.fill(head, "a head"); err != nil {
		return nil, err
	}
	s.at = 0
	want := snapshotHead(ref)
	switch sum := crc32.Checksum(head[:snapshotHeadBytes-4], castagnoli); {
	case string(head[:4]) != snapshotMagic:
		return nil, s.damage("magic "+snapshotMagic, fmt.Sprintf("%q", head[:4]))
	case sum != headSum(head):
		return nil, s.damage(fmt.Sprintf("checksum %08x", headSum(head)), fmt.Sprintf("%08x", sum))
	case binary.LittleEndian.Uint16(head[4:]) != snapshotVersion:
		return nil, fmt.Errorf("%s version %d: %w", name, binary.LittleEndian.Uint16(head[4:]), ErrNewerFormat)
	case string(head) != string(want):
		return nil, s.damage(fmt.Sprintf("head %x", want), fmt.Sprintf("%x", head))
	}
	s.at = snapshotHeadBytes
	s.sum = headSum(head)
	return s, nil
}

func (s *snapshotReader) damage(expected, is string) error {
	return &DamageError{File: s.name, Offset: s.at, Expected: expected, Found: is}
}

// fill reads exactly len(p) bytes.
func (s *snapshotReader) fill(p []byte, what string) error {
	n, err := io.ReadFull(s.in, p)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return s.damage(fmt.Sprintf("%s of %d bytes", what, len(p)), fmt.Sprintf("the end after %d", n))
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", s.name, err)
	}
	s.at += int64(n)
	s.whole = crc32.Update(s.whole, castagnoli, p)
	return nil
}

// Read hands out checked bytes.
func (s *snapshotReader) Read(p []byte) (int, error) {
	if !s.begun {
		s.begun, s.failed = true, s.nextChunk()
	}
	if s.failed == nil && len(s.chunk) == 0 {
		if len(s.ahead) == 0 {
			return 0, io.EOF
		}
		s.chunk, s.ahead = s.ahead, nil
		s.failed = s.nextChunk()
	}
	if s.failed != nil {
		return 0, s.failed
	}
	n := copy(p, s.chunk)
	s.chunk = s.chunk[n:]
	return n, nil
}

// nextChunk reads and checks one chunk, or the foot, into ahead.
func (s *snapshotReader) nextChunk() error {
	begin := s.at
	var head [chunkHeadBytes]byte
	if err := s.fill(head[:], "a chunk's head"); err != nil {
		return err
	}
	size := binary.LittleEndian.Uint32(head[:])
	if size == 0 {
		return s.foot(head[:])
	}
	if size > snapshotChunkBytes {
		s.at = begin
		return s.damage(fmt.Sprintf("a chunk of at most %d bytes", snapshotChunkBytes), fmt.Sprint(size))
	}
	// The chunk before is in the other one, and its user isn't done with it.
	buf := &s.bufs[s.chunks%2]
	if *buf == nil {
		*buf = make([]byte, snapshotChunkBytes)
	}
	data := (*buf)[:size]
	if err := s.fill(data, "a chunk"); err != nil {
		return err
	}
	stored := binary.LittleEndian.Uint32(head[4:])
	if sum := chunkSum(s.sum, s.chunks, data); sum != stored {
		s.at = begin
		return s.damage(fmt.Sprintf("chunk %d with checksum %08x", s.chunks, stored), fmt.Sprintf("%08x", sum))
	}
	s.chunks++
	s.bytes += uint64(size)
	s.ahead = data
	return nil
}

// foot checks that nothing is missing and nothing follows, and that the file is the
// one that the manifest means.
func (s *snapshotReader) foot(begin []byte) error {
	foot := make([]byte, snapshotFootBytes)
	copy(foot, begin)
	if err := s.fill(foot[chunkHeadBytes:], "a foot"); err != nil {
		return err
	}
	want := snapshotFoot(s.sum, s.chunks, s.bytes)
	if string(foot) != string(want) {
		return s.damage(fmt.Sprintf("foot %x", want), fmt.Sprintf("%x", foot))
	}
	if _, err := s.in.ReadByte(); !errors.Is(err, io.EOF) {
		return s.damage("the end of the file", "more bytes")
	}
	if sum := sumText(s.whole); s.want != "" && sum != s.want {
		// Each part is whole, so it is the file of another node, or of another time.
		s.at = 0
		return s.damage("a file with checksum "+s.want, sum)
	}
	return nil
}

// writeSnapshotFile writes a snapshot under a temporary name, and returns that name
// and the reference with the file's size and checksum. The file is synced; its name
// isn't.
func writeSnapshotFile(fs vfs.FS, dir string, ref snapshotRef, put *capture) (temp string, done snapshotRef, err error) {
	temp = filepath.Join(dir, ref.fileName()+tempSuffix)
	f, err := fs.Create(temp)
	if err != nil {
		return "", snapshotRef{}, fmt.Errorf("write snapshot: %w", err)
	}
	w, err := newSnapshotWriter(f, ref, put.yield)
	if err == nil {
		_, err = put.state.WriteTo(w)
	}
	if err == nil {
		err = w.finish()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return temp, snapshotRef{}, fmt.Errorf("write snapshot %s: %w", temp, err)
	}
	ref.Bytes, ref.Sum = w.size, sumText(w.whole)
	return temp, ref, nil
}

// sumText is a checksum as the manifest has it.
func sumText(sum uint32) string { return fmt.Sprintf("%08x", sum) }

// capture is a machine's state on its way into a file.
type capture struct {
	state engine.Snapshot
	yield func() error
}

// verifySnapshot reads a published snapshot to its end.
func verifySnapshot(fs vfs.FS, dir string, ref snapshotRef) error {
	return readSnapshot(fs, dir, ref, func(r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return err
	})
}

// readSnapshot opens a snapshot and hands its state to use.
func readSnapshot(fs vfs.FS, dir string, ref snapshotRef, use func(io.Reader) error) (err error) {
	path := filepath.Join(dir, ref.fileName())
	f, err := fs.Open(path)
	if errors.Is(err, iofs.ErrNotExist) {
		return &DamageError{File: path, Offset: 0, Expected: "a snapshot that the manifest names", Found: "no file"}
	}
	if err != nil {
		return fmt.Errorf("open snapshot: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r, err := newSnapshotReader(path, f, ref)
	if err != nil {
		return err
	}
	return use(r)
}
