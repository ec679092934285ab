package persistence

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	iofs "io/fs"
	"math"
	"path/filepath"
	"slices"

	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// ManifestName is the file in a data directory that makes it one.
const ManifestName = "manifest.json"

const (
	manifestFormat = 1
	// manifestBytesMax bounds the file: 65,536 shards would need less.
	manifestBytesMax = 64 << 20
	// snapshotsKept is the number of snapshots of a shard that are kept: the newest,
	// and the one before it for the case that the newest is damaged.
	snapshotsKept = 2
)

// ErrNoManifest is returned for a data directory that holds a journal or snapshots
// but no manifest: whatever was lost with it can't be missed otherwise.
var ErrNoManifest = errors.New("persistence: data directory has a journal but no manifest.json")

// MismatchError says that a data directory belongs to another node or cluster, or
// was made with other numbers, than the configuration says.
type MismatchError struct {
	Dir   string
	Field string // key in manifest.json
	Have  string // in the directory
	Want  string // in the configuration
}

// Error names the directory and both values.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("data directory %s has %s %s, the configuration says %s", e.Dir, e.Field, e.Have, e.Want)
}

// manifest is what the data directory knows about itself. It is written whole,
// under a temporary name, and renamed.
type manifest struct {
	Format     int           `json:"format"`
	Node       engine.NodeID `json:"node_id"`
	Cluster    string        `json:"cluster_id"`
	Shards     int           `json:"shards"`
	Partitions int           `json:"partitions"`
	// Directory tells data directories apart: a random text, drawn when the directory is
	// made. Absent in manifests of earlier builds.
	Directory string `json:"directory_id,omitempty"`
	// Boot counts the lives of the node. It is raised and durable before a life
	// appends, so that no two lives share an epoch.
	Boot uint64 `json:"boot"`
	// MinIndex is the lowest frame that recovery needs; what stands before it may
	// be deleted.
	MinIndex uint64 `json:"min_index"`
	// Durable is a frame that was on disk when this manifest was written: a journal
	// that ends before it has lost something.
	Durable uint64 `json:"durable_index"`
	// Mark says which item stands behind a frame that is on disk, at or behind the lowest
	// that a recovery needs. Items are numbered from a random number on, so the journal of
	// another node has other numbers. Absent in manifests of earlier builds.
	Mark *mark `json:"mark,omitempty"`
	// BootID is the machine's boot id when the last life began; empty where there is
	// none, and in manifests of earlier builds.
	BootID string `json:"boot_id,omitempty"`
	// Acked is what an acknowledgement of the last life is worth now: ackedSynced or
	// ackedWritten; empty in manifests of earlier builds.
	Acked string `json:"acked,omitempty"`
	// Lost says that a life began behind a possible loss of acknowledged entries, and
	// that nobody has settled it since.
	Lost bool `json:"lost,omitempty"`
	// Snapshots of each shard, at most snapshotsKept, the newest first.
	Snapshots []snapshotRef `json:"snapshots"`
}

// mark is a place in the journal.
type mark struct {
	Frame uint64 `json:"frame"`
	Next  uint64 `json:"next_item"` // journal number of the item behind the frame
}

// agrees says whether a frame can stand in a journal with that mark. A nil mark agrees
// with every frame.
func (m *mark) agrees(f frame) bool {
	switch {
	case m == nil:
		return true
	case f.index == m.Frame:
		return f.next() == m.Next
	case f.index == m.Frame+1: // the marked frame itself may be deleted
		return f.first == m.Next
	}
	return true
}

// snapshotRef names a published snapshot.
type snapshotRef struct {
	Shard engine.ShardID `json:"shard"`
	// Epoch and Seq are the boundary: the last entry that the snapshot holds.
	Epoch engine.Epoch `json:"epoch"`
	Seq   engine.Seq   `json:"seq"`
	Pos   engine.Pos   `json:"pos"`
	// Wall is the Wall of that entry, or of a later one that stands in the journal.
	Wall int64 `json:"wall"`
	// Index is a frame up to which the snapshot holds every entry of the shard, as it
	// was known when the file was written. Through is a later one, when the shard has
	// appended nothing in between; absent when there is none.
	Index   uint64 `json:"index"`
	Through uint64 `json:"through,omitempty"`
	Bytes   int64  `json:"bytes"`
	// Sum is the CRC32C of the whole file, eight hex digits: a whole snapshot of another
	// node isn't taken for this one. Absent in manifests of earlier builds.
	Sum string `json:"crc32c,omitempty"`
}

// through is the frame up to which the snapshot is good.
func (r snapshotRef) through() uint64 { return max(r.Index, r.Through) }

// fileName is the name under snapshots/. The index makes it unique: a shard at
// rest has the same position in two snapshots.
func (r snapshotRef) fileName() string {
	return fmt.Sprintf("shard-%05d-epoch-%d-pos-%d-at-%d%s", r.Shard, r.Epoch, r.Pos, r.Index, snapshotSuffix)
}

// of lists the snapshots of one shard, the newest first.
func (m *manifest) of(s engine.ShardID) []snapshotRef {
	var out []snapshotRef
	for _, r := range m.Snapshots {
		if r.Shard == s {
			out = append(out, r)
		}
	}
	return out
}

// with is the manifest with a new newest snapshot of its shard; what it pushes
// out is left out. If the one before holds the same entries it is as good as the new
// one.
func (m *manifest) with(ref snapshotRef) manifest {
	next := *m
	refs := m.of(ref.Shard)
	if len(refs) > 0 && refs[0].Pos == ref.Pos {
		refs[0].Through = max(refs[0].Through, ref.Index)
	}
	refs = append([]snapshotRef{ref}, refs...)
	next.Snapshots = slices.DeleteFunc(slices.Clone(m.Snapshots), func(r snapshotRef) bool { return r.Shard == ref.Shard })
	next.Snapshots = append(next.Snapshots, refs[:min(len(refs), snapshotsKept)]...)
	slices.SortStableFunc(next.Snapshots, func(a, b snapshotRef) int { return cmp.Compare(a.Shard, b.Shard) })
	next.MinIndex = max(m.MinIndex, next.needed())
	return next
}

// reach notes a place that is on disk.
func (m *manifest) reach(at mark) {
	m.Durable = max(m.Durable, at.Frame)
	m.Mark = &at
}

// without is the manifest without some of its snapshots. They can't be used, and would
// stand in the place of those that the next ones push out.
func (m *manifest) without(names map[string]bool) manifest {
	next := *m
	next.Snapshots = slices.DeleteFunc(slices.Clone(m.Snapshots), func(r snapshotRef) bool { return names[r.fileName()] })
	return next
}

// advanced is the manifest in which the snapshots of shards at rest are good up to a
// later frame.
func (m *manifest) advanced(rest map[engine.ShardID]bool, index uint64) manifest {
	next := *m
	next.Snapshots = slices.Clone(m.Snapshots)
	for i, r := range next.Snapshots {
		if rest[r.Shard] {
			next.Snapshots[i].Through = max(r.Through, index)
		}
	}
	next.MinIndex = max(m.MinIndex, next.needed())
	return next
}

// needed is the lowest frame that a recovery needs: the one behind the older snapshot
// of each shard. A shard that hasn't got two keeps the whole journal.
func (m *manifest) needed() uint64 {
	kept := make(map[engine.ShardID]int)
	low := uint64(math.MaxUint64)
	for _, r := range m.Snapshots {
		kept[r.Shard]++
		if kept[r.Shard] == snapshotsKept {
			low = min(low, r.through())
		}
	}
	for s := range m.Shards {
		if kept[engine.ShardID(s)] < snapshotsKept {
			return 1
		}
	}
	return low + 1
}

// holds says whether the manifest names a snapshot file.
func (m *manifest) holds(name string) bool {
	return slices.ContainsFunc(m.Snapshots, func(r snapshotRef) bool { return r.fileName() == name })
}

// bounds is what the manifest says about the journal.
func (m *manifest) bounds() scanBounds {
	return scanBounds{need: m.MinIndex, durable: m.Durable, epoch: m.Boot, mark: m.Mark}
}

// snapshotBytes is the size of all newest snapshots, and of the largest one.
func (m *manifest) snapshotBytes() (total, largest int64) {
	seen := make(map[engine.ShardID]bool)
	for _, r := range m.Snapshots {
		if !seen[r.Shard] {
			seen[r.Shard] = true
			total += r.Bytes
			largest = max(largest, r.Bytes)
		}
	}
	return total, largest
}

// manifestFile is the file's outer shape: the checksum is over the compact bytes
// of the manifest, so that the file can be indented for people.
type manifestFile struct {
	Sum      string          `json:"crc32c"`
	Manifest json.RawMessage `json:"manifest"`
}

func (m *manifest) encode() ([]byte, error) {
	inner, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	outer, err := json.MarshalIndent(manifestFile{
		Sum:      fmt.Sprintf("%08x", crc32.Checksum(inner, castagnoli)),
		Manifest: inner,
	}, "", "  ")
	return append(outer, '\n'), err
}

// write makes the manifest durable.
func (m *manifest) write(fs vfs.FS, dir string) error {
	data, err := m.encode()
	if err != nil {
		return fmt.Errorf("encode manifest: %w", err)
	}
	if err := writeFile(fs, filepath.Join(dir, ManifestName), data); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	return nil
}

// readManifest reads and checks the manifest of a directory. A missing one is
// iofs.ErrNotExist.
func readManifest(fs vfs.FS, dir string) (*manifest, error) {
	path := filepath.Join(dir, ManifestName)
	data, err := readFile(fs, path, manifestBytesMax)
	if err != nil {
		return nil, err
	}
	m, err := decodeManifest(data)
	if errors.Is(err, ErrNewerFormat) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err != nil {
		return nil, &DamageError{File: path, Offset: 0, Expected: "a whole manifest", Found: err.Error()}
	}
	return m, nil
}

func decodeManifest(data []byte) (*manifest, error) {
	var outer manifestFile
	if err := json.Unmarshal(data, &outer); err != nil {
		return nil, err
	}
	var inner bytes.Buffer
	if err := json.Compact(&inner, outer.Manifest); err != nil {
		return nil, err
	}
	if sum := fmt.Sprintf("%08x", crc32.Checksum(inner.Bytes(), castagnoli)); sum != outer.Sum {
		return nil, fmt.Errorf("checksum %s, stored %q", sum, outer.Sum)
	}
	m := new(manifest)
	if err := json.Unmarshal(inner.Bytes(), m); err != nil {
		return nil, err
	}
	if m.Format != manifestFormat {
		return nil, fmt.Errorf("manifest format %d: %w", m.Format, ErrNewerFormat)
	}
	return m, nil
}

// loadManifest reads the manifest of a directory and compares it with what the
// configuration says, or makes the first one of an empty directory.
func loadManifest(fs vfs.FS, dir string, want manifest) (*manifest, error) {
	have, err := readManifest(fs, dir)
	if errors.Is(err, iofs.ErrNotExist) {
		return freshManifest(fs, dir, want)
	}
	if err != nil {
		return nil, err
	}
	for _, f := range []struct{ field, have, want string }{
		{"node_id", string(have.Node), string(want.Node)},
		{"cluster_id", have.Cluster, want.Cluster},
		{"shards", fmt.Sprint(have.Shards), fmt.Sprint(want.Shards)},
		{"partitions", fmt.Sprint(have.Partitions), fmt.Sprint(want.Partitions)},
	} {
		if f.have != f.want {
			return nil, &MismatchError{Dir: dir, Field: f.field, Have: f.have, Want: f.want}
		}
	}
	return have, nil
}

func freshManifest(fs vfs.FS, dir string, want manifest) (*manifest, error) {
	for _, sub := range []string{journalDir, snapshotDir} {
		infos, err := fs.ReadDir(filepath.Join(dir, sub))
		if err != nil && !errors.Is(err, iofs.ErrNotExist) {
			return nil, fmt.Errorf("look for a journal: %w", err)
		}
		if len(infos) > 0 {
			return nil, fmt.Errorf("%s: %w", dir, ErrNoManifest)
		}
	}
	want.Format, want.MinIndex, want.Directory = manifestFormat, 1, rand.Text()
	if err := want.write(fs, dir); err != nil {
		return nil, err
	}
	return &want, nil
}
