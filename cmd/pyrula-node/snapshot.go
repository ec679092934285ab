package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/persistence"
)

func (p *program) snapshotCommand() *cobra.Command {
	snapshot := &cobra.Command{
		Use:   "snapshot",
		Short: "List and check the snapshots of a node that doesn't run",
		Args:  noArgs,
		RunE:  help,
	}
	p.declareInspecting(snapshot)
	snapshot.AddCommand(
		&cobra.Command{
			Use:   "list --data DIR",
			Short: "List the snapshots that a start can use, the newest of each shard first",
			Args:  noArgs,
			RunE:  p.inspecting(p.snapshotList),
		},
		&cobra.Command{
			Use:   "verify --data DIR",
			Short: "Read every snapshot to its end and check what it holds",
			Long: `Read every snapshot to its end, compare all checksums, build the state that it holds and
check it. The command exits with 1 when one is damaged or missing. A start then uses the
older one of that shard and more of the journal, and says so in its log; without an older
one it needs the whole journal from frame 1 on, and is refused when that is gone.`,
			Args: noArgs,
			RunE: p.inspecting(p.snapshotVerify),
		},
	)
	return snapshot
}

// snapshotLine is one snapshot.
type snapshotLine struct {
	Shard    int    `json:"shard"`
	File     string `json:"file"`
	Epoch    uint64 `json:"epoch"`
	Seq      uint64 `json:"seq"`
	Position uint64 `json:"position"`
	Frame    uint64 `json:"frame"` // up to which the snapshot stands for the journal
	Bytes    int64  `json:"bytes"`
	At       string `json:"at,omitempty"` // shard time of the last entry inside
}

func lineOf(s *persistence.SnapshotInfo) snapshotLine {
	return snapshotLine{
		Shard: int(s.Shard), File: s.Path, Epoch: uint64(s.Epoch), Seq: uint64(s.Seq), Position: uint64(s.Pos),
		Frame: s.Through, Bytes: s.Bytes, At: moment(flow.Instant(s.Wall)),
	}
}

func (p *program) snapshotList(_ context.Context, d *directory) error {
	lines := []snapshotLine{}
	all := d.Snapshots()
	for i := range all {
		lines = append(lines, lineOf(&all[i]))
	}
	if p.asJSON {
		return p.object(map[string]any{"snapshots": lines})
	}
	table := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SHARD\tEPOCH\tSEQ\tPOSITION\tFRAME\tBYTES\tTIME\tFILE")
	for _, l := range lines {
		fmt.Fprintf(table, "%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n",
			l.Shard, l.Epoch, l.Seq, l.Position, l.Frame, l.Bytes, orDash(l.At), filepath.Base(l.File))
	}
	return table.Flush()
}

// snapshotVerdict is what verify found. What the newest snapshot of each shard holds
// is counted.
type snapshotVerdict struct {
	Data            string  `json:"data"`
	Whole           bool    `json:"whole"`
	Snapshots       int     `json:"snapshots"`
	Runs            int64   `json:"runs"`
	Keys            int64   `json:"keys"`
	RequestIDs      int64   `json:"request_ids"`
	IdempotencyKeys int64   `json:"idempotency_keys"`
	Letters         int64   `json:"letters"`
	Faults          []fault `json:"faults"`
}

// add counts what a snapshot holds.
func (v *snapshotVerdict) add(c actors.SnapshotContent) {
	v.Runs += c.Runs
	v.Keys += c.Keys
	v.RequestIDs += c.Requests
	v.IdempotencyKeys += c.IdempotencyKeys
	v.Letters += c.Letters
}

func (p *program) snapshotVerify(ctx context.Context, d *directory) error {
	v := snapshotVerdict{Data: d.path, Faults: []fault{}}
	last := -1 // the newest of each shard comes first
	for _, s := range d.Snapshots() {
		if err := ctx.Err(); err != nil {
			return err
		}
		v.Snapshots++
		content, err := d.checkSnapshot(s)
		if err != nil {
			v.Faults = append(v.Faults, faultOf(s.Path, err))
		} else if int(s.Shard) != last {
			v.add(content)
		}
		last = int(s.Shard)
	}
	v.Whole = len(v.Faults) == 0
	var err error
	switch {
	case p.asJSON:
		err = p.object(v)
	case v.Whole:
		_, err = fmt.Fprintf(p.stdout, "%s: %d snapshots are whole: %d runs, %d keys, %d request ids, %d idempotency keys, %d letters\n",
			v.Data, v.Snapshots, v.Runs, v.Keys, v.RequestIDs, v.IdempotencyKeys, v.Letters)
	default:
		err = faultTable(p.stdout, v.Faults)
	}
	if err != nil {
		return err
	}
	return firstOf(v.Faults)
}

// checkSnapshot reads a snapshot to its end and builds the state that it holds.
func (d *directory) checkSnapshot(s persistence.SnapshotInfo) (actors.SnapshotContent, error) {
	var content actors.SnapshotContent
	err := d.ReadSnapshot(s, func(r io.Reader) error {
		var err error
		content, err = actors.CheckSnapshot(r, d.About().Shards)
		return err
	})
	return content, err
}
