package persistence

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// FrameInfo is one frame of a journal, as Inspect shows it.
type FrameInfo struct {
	Index uint64
	Epoch engine.Epoch
	First uint64 // journal number of the first item
	Items []ItemInfo
}

// ItemInfo is one item of a frame.
type ItemInfo struct {
	Kind  string // "entry", "boot" or "recovered"
	Shard engine.ShardID
	Epoch engine.Epoch
	Seq   engine.Seq
	Wall  int64
	Body  []byte // valid during the call that hands it over
}

// Report is what Inspect has found.
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
	// cut off.
	Torn int64
	// Snapshots is the number of published snapshots; each of them was read.
	Snapshots int
}

// Inspect checks a data directory as a start would, changes nothing, and calls
// visit for each frame that the journal still needs; nil visits nothing. It takes
// the lock, so it can't look at the directory of a running node. Errors: those of
// Open and Start, and that of visit.
func Inspect(ctx context.Context, dir string, visit func(FrameInfo) error) (rep Report, err error) {
	fs := vfs.OS{}
	lock, err := lockDir(fs, dir)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	man, err := readManifest(fs, dir)
	if err != nil {
		return Report{}, fmt.Errorf("inspect %s: %w", dir, err)
	}
	rep = Report{
		Node: man.Node, Cluster: man.Cluster, Shards: man.Shards, Boot: man.Boot, Snapshots: len(man.Snapshots),
	}
	for _, ref := range man.Snapshots {
		if err := verifySnapshot(fs, filepath.Join(dir, snapshotDir), ref); err != nil {
			return rep, err
		}
	}
	var dec itemDecoder
	s := scanner{
		fs: fs, dir: filepath.Join(dir, journalDir), bounds: man.bounds(),
		visit:   func(f frame) error { return inspectFrame(&dec, f, visit) },
		segment: func(segment, int, int) error { return ctx.Err() },
	}
	fd, err := s.run()
	if err != nil {
		return rep, err
	}
	rep.Segments, rep.First, rep.Last = len(fd.segments), fd.first, fd.last
	rep.Frames, rep.Items, rep.Bytes, rep.Torn = fd.frames, fd.items, fd.bytes, int64(len(fd.torn))
	return rep, nil
}

func inspectFrame(dec *itemDecoder, f frame, visit func(FrameInfo) error) error {
	info := FrameInfo{Index: f.index, Epoch: engine.Epoch(f.epoch), First: f.first}
	err := dec.each(f, func(it item) error {
		info.Items = append(info.Items, ItemInfo{
			Kind: it.kind.String(), Shard: it.shard, Epoch: it.epoch, Seq: it.seq, Wall: it.wall, Body: it.body,
		})
		return nil
	})
	if err != nil || visit == nil {
		return err
	}
	return visit(info)
}
