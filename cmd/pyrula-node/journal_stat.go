package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/persistence"
)

// journalStat are the figures of a journal.
type journalStat struct {
	Data     string `json:"data"`
	NodeID   string `json:"node_id"`
	Cluster  string `json:"cluster_id"`
	Shards   int    `json:"shards"`
	Boot     uint64 `json:"boot"`
	Segments int    `json:"segments"`
	First    uint64 `json:"first_frame"`
	Last     uint64 `json:"last_frame"`
	Frames   int64  `json:"frames"`
	Items    int64  `json:"items"`
	Records  int64  `json:"records"`
	// Unknown is the number of entries in which something is that this build can't
	// read; what stands before it in them is counted.
	Unknown int64 `json:"unknown_entries"`
	Bytes   int64 `json:"bytes"`
	// BytesPerRecord has all overhead in it; zero without records.
	BytesPerRecord float64 `json:"bytes_per_record"`
	TornBytes      int64   `json:"torn_bytes"`
	// MayHaveLost says that a power cut may have taken acknowledged records (fsync
	// every=D), and that the leases of before are still waited out.
	MayHaveLost bool             `json:"may_have_lost"`
	Oldest      string           `json:"oldest,omitempty"` // shard time of entries
	Newest      string           `json:"newest,omitempty"`
	ByKind      map[string]int64 `json:"records_by_kind"`
	ByShard     []shardStat      `json:"by_shard"`
	Lives       []lifeStat       `json:"lives"`

	oldest, newest int64
}

// shardStat are the figures of one shard.
type shardStat struct {
	Shard   int   `json:"shard"`
	Entries int64 `json:"entries"`
	Records int64 `json:"records"`
	Bytes   int64 `json:"bytes"` // of the bodies of entries
}

// lifeStat is one life of the node whose beginning stands in the journal.
type lifeStat struct {
	Epoch           uint64 `json:"epoch"`
	Frame           uint64 `json:"frame"`
	At              string `json:"at"`
	Fsync           string `json:"fsync"`
	EntriesReplayed uint64 `json:"entries_replayed"`
	BytesCut        uint64 `json:"bytes_cut"`
}

func (p *program) journalStatCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stat --data DIR",
		Short: "Count what is in the journal",
		Long: `Count what is in the journal: frames, records by kind and by shard, bytes, and the lives
of the node whose beginning is still there. Figures that were counted before a damaged
frame are printed too; then the command exits with 1.`,
		Args: noArgs,
		RunE: p.inspecting(p.journalStat),
	}
}

func (p *program) journalStat(ctx context.Context, d *directory) error {
	about := d.About()
	st := &journalStat{
		Data: d.path, NodeID: string(about.Node), Cluster: about.Cluster, Shards: about.Shards, Boot: about.Boot, MayHaveLost: about.Lost,
		ByKind: map[string]int64{}, ByShard: make([]shardStat, about.Shards), Lives: []lifeStat{},
	}
	for i := range st.ByShard {
		st.ByShard[i].Shard = i
	}
	entries := newEntryReader()
	rep, err := d.ReadJournal(ctx, func(f persistence.FrameInfo) error {
		for i := range f.Items {
			st.item(&f, &f.Items[i], entries)
		}
		return nil
	})
	st.Segments, st.First, st.Last, st.Frames, st.Items = rep.Segments, rep.First, rep.Last, rep.Frames, rep.Items
	st.Bytes, st.TornBytes = rep.Bytes, rep.Torn
	st.Oldest, st.Newest = moment(flow.Instant(st.oldest)), moment(flow.Instant(st.newest))
	if st.Records > 0 {
		st.BytesPerRecord = float64(st.Bytes) / float64(st.Records)
	}
	var printed error
	if p.asJSON {
		printed = p.object(st)
	} else {
		printed = p.statTable(st)
	}
	if err != nil {
		return err
	}
	return printed
}

func (st *journalStat) item(f *persistence.FrameInfo, it *persistence.ItemInfo, entries *entryReader) {
	switch it.Kind {
	case bootKind:
		st.Lives = append(st.Lives, lifeStat{
			Epoch: uint64(it.Epoch), Frame: f.Index, At: moment(flow.Instant(it.Wall)), Fsync: fsyncOf(f),
		})
	case recoveredKind:
		if n := len(st.Lives); n > 0 {
			st.Lives[n-1].EntriesReplayed, st.Lives[n-1].BytesCut = uint64(it.Seq), it.Cut
		}
	default:
		records, err := entries.read(it)
		if err != nil {
			st.Unknown++
		}
		for i := range records {
			st.ByKind[records[i].Kind.String()]++
		}
		s := &st.ByShard[it.Shard]
		s.Entries++
		s.Records += int64(len(records))
		s.Bytes += int64(len(it.Body))
		st.Records += int64(len(records))
		if st.oldest == 0 || it.Wall < st.oldest {
			st.oldest = it.Wall
		}
		st.newest = max(st.newest, it.Wall)
	}
}

// livesShown bounds the table of lives: the newest ones.
const livesShown = 10

func (p *program) statTable(st *journalStat) error {
	table := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(table, name+"\t"+format+"\n", args...) }
	line("data", "%s", quoted(st.Data))
	line("node", "%s of cluster %s", quoted(st.NodeID), quoted(st.Cluster))
	line("lives so far", "%d", st.Boot)
	line("segments", "%d", st.Segments)
	line("frames", "%d, from %d to %d", st.Frames, st.First, st.Last)
	line("items", "%d", st.Items)
	line("records", "%d", st.Records)
	if st.Unknown > 0 {
		line("unknown", "%d entries hold what this build can't read", st.Unknown)
	}
	line("bytes", "%d, %.1f a record", st.Bytes, st.BytesPerRecord)
	line("torn tail", "%d bytes", st.TornBytes)
	if st.MayHaveLost {
		line("loss", "a power cut may have taken acknowledged records; leases of before are waited out")
	}
	line("oldest", "%s", orDash(st.Oldest))
	line("newest", "%s", orDash(st.Newest))

	fmt.Fprintln(table, "\nKIND\tRECORDS")
	kinds := slices.SortedFunc(maps.Keys(st.ByKind), func(a, b string) int {
		if st.ByKind[a] != st.ByKind[b] {
			return int(st.ByKind[b] - st.ByKind[a])
		}
		return strings.Compare(a, b)
	})
	for _, kind := range kinds {
		fmt.Fprintf(table, "%s\t%d\n", kind, st.ByKind[kind])
	}
	fmt.Fprintln(table, "\nSHARD\tENTRIES\tRECORDS\tBYTES")
	for _, s := range st.ByShard {
		fmt.Fprintf(table, "%d\t%d\t%d\t%d\n", s.Shard, s.Entries, s.Records, s.Bytes)
	}
	fmt.Fprintln(table, "\nLIFE\tFRAME\tBEGAN\tFSYNC\tREPLAYED\tCUT")
	lives := st.Lives[max(0, len(st.Lives)-livesShown):]
	for _, l := range lives {
		fmt.Fprintf(table, "%d\t%d\t%s\t%s\t%d\t%d\n", l.Epoch, l.Frame, l.At, l.Fsync, l.EntriesReplayed, l.BytesCut)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if older := len(st.Lives) - len(lives); older > 0 {
		_, err := fmt.Fprintf(p.stdout, "and %d older lives\n", older)
		return err
	}
	return nil
}
