package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pyrula/pyrula-node/cmd/pyrula-node/node"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/persistence"
	"github.com/pyrula/pyrula-node/persistence/archive"
)

func (p *program) journalCommand() *cobra.Command {
	journal := &cobra.Command{
		Use:   "journal",
		Short: "Check the data of a node that doesn't run, and print its journal",
		Args:  noArgs,
		RunE:  help,
	}
	p.declareInspecting(journal)
	journal.AddCommand(p.journalVerifyCommand(), p.journalDumpCommand(), p.journalStatCommand())
	return journal
}

// declareInspecting gives the commands below c the flags of one that looks at a data
// directory.
func (p *program) declareInspecting(c *cobra.Command) {
	flags := c.PersistentFlags()
	flags.String("data", "", "`directory` of a node that doesn't run, or a backup ["+dataVariable+"]")
	flags.String(configFlag, "", "configuration `file` that names it ["+configVariable+"]")
	flags.VarP((*format)(&p.asJSON), "output", "o", "table, or json: one object, and an error as a problem document")
}

// inspecting wraps what a command does with a data directory.
func (p *program) inspecting(do func(context.Context, *directory) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, _ []string) (err error) {
		vs, err := resolve(c.Flags(), p.getenv)
		if err != nil {
			return err
		}
		path := vs["data"].text
		if path == "" {
			return &usageError{c.CommandPath(), errors.New("no data directory: say --data DIR, set " + dataVariable + ", or have data: DIR in the file of --config")}
		}
		in, err := persistence.OpenInspector(path)
		if err != nil {
			return openFault(path, err)
		}
		defer func() { err = errors.Join(err, in.Close()) }()
		return do(c.Context(), &directory{in, path})
	}
}

// openFault is why a directory can't be looked at, with what to do about it.
func openFault(path string, err error) error {
	switch {
	case errors.Is(err, persistence.ErrLocked):
		return fmt.Errorf("a node is running on %s: stop it, or look at a volume snapshot: %w", path, persistence.ErrLocked)
	case errors.Is(err, persistence.ErrNotData):
		return &usageError{err: err}
	}
	return err
}

// directory is a data directory that is looked at.
type directory struct {
	*persistence.Inspector
	path string
}

// object prints one JSON object.
func (p *program) object(v any) error {
	enc := json.NewEncoder(p.stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// fault is one thing that is wrong with a data directory.
type fault struct {
	File     string `json:"file"`
	Offset   int64  `json:"offset"`
	Expected string `json:"expected"`
	Found    string `json:"found"`

	err error
}

// faultOf is an error about a file as a fault.
func faultOf(file string, err error) fault {
	if damage, ok := errors.AsType[*persistence.DamageError](err); ok {
		return fault{damage.File, damage.Offset, damage.Expected, damage.Found, damage}
	}
	if damage, ok := errors.AsType[*archive.DamageError](err); ok {
		told := *damage
		told.What = runsNamed(damage)
		return fault{told.File, 0, "a whole archive", told.What, &told}
	}
	return fault{File: file, Expected: "a file that this build can read", Found: plain(err.Error()), err: err}
}

// archivedID is how the archive, which doesn't know what its items are, tells of one.
var archivedID = regexp.MustCompile(`\b[0-9a-f]{32}\b`)

// runsNamed is what is wrong with a file of the archive, with the ids of runs as people
// know them. In the file of the keys such digits are a key.
func runsNamed(damage *archive.DamageError) string {
	if filepath.Base(damage.File) == archive.KeysName {
		return damage.What
	}
	return archivedID.ReplaceAllStringFunc(damage.What, func(digits string) string {
		var id flow.RunID
		if _, err := hex.Decode(id[:], []byte(digits)); err != nil {
			return digits
		}
		return id.String()
	})
}

// verdict is what verify found.
type verdict struct {
	Data      string  `json:"data"`
	Whole     bool    `json:"whole"`
	Segments  int     `json:"segments"`
	Frames    int64   `json:"frames"`
	Items     int64   `json:"items"`
	Records   int64   `json:"records"`
	Snapshots int     `json:"snapshots"`
	Archived  uint64  `json:"archived_runs"`
	TornFile  string  `json:"torn_file,omitempty"`
	TornAt    int64   `json:"torn_offset,omitempty"`
	TornBytes int64   `json:"torn_bytes"`
	Faults    []fault `json:"faults"`

	refused bool // the journal is, so nothing of it is cut off
}

func (p *program) journalVerifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify --data DIR",
		Short: "Check everything in a data directory",
		Long: `Check every frame, item and record of the journal, every snapshot and every file of the
archive, as a start would and beyond: a start uses one snapshot of each shard and doesn't
read the archive, this reads all. Nothing is changed.

The command exits with 1 when anything is wrong, and names file, offset, what was
expected and what was found: every damaged snapshot, the first place in each damaged
file of the archive, and the first one in the journal, behind which it isn't read.

A torn tail is what a crash leaves of the write that was under way: it is reported, and
it is no fault. A wrong bit in the last frame of a node that was killed looks the same.

Two things aren't seen here. Whether the archive lacks runs or keys that were moved into
it, or is that of another directory: a start compares that, and refuses. And whether a
plain copy of a running node's directory is of one moment: it can look whole.`,
		Args: noArgs,
		RunE: p.inspecting(p.journalVerify),
	}
}

func (p *program) journalVerify(ctx context.Context, d *directory) error {
	v := verdict{Data: d.path, Snapshots: len(d.Snapshots()), Faults: []fault{}}
	for _, s := range d.Snapshots() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := d.checkSnapshot(s); err != nil {
			v.Faults = append(v.Faults, faultOf(s.Path, err))
		}
	}
	if err := v.readArchive(ctx, d); err != nil {
		return err
	}
	entries := newEntryReader()
	rep, err := d.ReadJournal(ctx, func(f persistence.FrameInfo) error {
		for i := range f.Items {
			if f.Items[i].Kind != entryKind {
				continue
			}
			records, err := entries.read(&f.Items[i])
			if err != nil {
				return undecoded(&f, i, err)
			}
			v.Records += int64(len(records))
		}
		return nil
	})
	if ctx.Err() != nil {
		return err
	}
	if err != nil {
		v.Faults, v.refused = append(v.Faults, faultOf(d.path, err)), true
	}
	v.Segments, v.Frames, v.Items = rep.Segments, rep.Frames, rep.Items
	if rep.Torn > 0 {
		v.TornBytes, v.TornFile, v.TornAt = rep.Torn, rep.TornFile, rep.TornOffset
	}
	v.Whole = len(v.Faults) == 0
	return p.tellVerdict(&v)
}

// readArchive checks the files of the archive, if there is one. Its error is that of
// the directory or of ctx, what is wrong with a file is a fault.
func (v *verdict) readArchive(ctx context.Context, d *directory) error {
	dir := filepath.Join(d.path, node.ArchiveDir)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	rep, err := archive.Inspect(ctx, dir)
	if err != nil && (ctx.Err() != nil || len(rep.Files) == 0) {
		return err
	}
	keys := false
	for i := range rep.Files {
		f := &rep.Files[i]
		keys = keys || f.Name == archive.KeysName
		if f.Err != nil {
			v.Faults = append(v.Faults, faultOf(filepath.Join(dir, f.Name), f.Err))
		} else if !f.Day.IsZero() {
			v.Archived += f.Items
		}
	}
	if !keys && len(rep.Files) > 0 { // an archive is made with it
		file := filepath.Join(dir, archive.KeysName)
		err := fmt.Errorf("%s: no file, and there are runs beside it: the idempotency keys of before are unknown", file)
		v.Faults = append(v.Faults, fault{file, 0, "the idempotency keys", "no file", err})
	}
	return nil
}

// undecoded is a record that can't be read in a frame whose checksum is right.
func undecoded(f *persistence.FrameInfo, item int, err error) error {
	it := &f.Items[item]
	return &persistence.DamageError{
		File: f.File, Offset: f.Offset,
		Expected: "records that this build knows",
		Found:    fmt.Sprintf("in frame %d, shard %d entry %d of epoch %d: %v", f.Index, it.Shard, it.Seq, it.Epoch, err),
	}
}

// tellVerdict prints it, and is an error when anything is wrong.
func (p *program) tellVerdict(v *verdict) error {
	if p.asJSON {
		if err := p.object(v); err != nil {
			return err
		}
	} else if err := p.verdictText(v); err != nil {
		return err
	}
	return firstOf(v.Faults)
}

// firstOf is the first fault as an error; nil without any.
func firstOf(faults []fault) error {
	switch len(faults) {
	case 0:
		return nil
	case 1:
		return faults[0].err
	}
	return fmt.Errorf("%w (and %d more)", faults[0].err, len(faults)-1)
}

func (p *program) verdictText(v *verdict) error {
	if v.TornBytes > 0 {
		next := "the next start cuts it off"
		switch {
		case v.refused:
			next = "it was on disk once, so a start refuses it"
		case !v.Whole:
			next = "a start that isn't refused cuts it off"
		}
		fmt.Fprintf(p.stdout, "%s has a torn tail of %d bytes at offset %d: %s\n", v.TornFile, v.TornBytes, v.TornAt, next)
	}
	if v.Whole {
		const form = "%s is whole: %d segments, %d frames, %d items, %d records, %d snapshots, %d archived runs; " +
			"whether the archive lacks any only a start sees\n"
		_, err := fmt.Fprintf(p.stdout, form, v.Data, v.Segments, v.Frames, v.Items, v.Records, v.Snapshots, v.Archived)
		return err
	}
	return faultTable(p.stdout, v.Faults)
}

// faultTable lists what is wrong.
func faultTable(out io.Writer, faults []fault) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "FILE\tOFFSET\tEXPECTED\tFOUND")
	for _, f := range faults {
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\n", f.File, f.Offset, f.Expected, f.Found)
	}
	return table.Flush()
}

// entryKind is how persistence names an entry of a shard.
const entryKind = "entry"

// entryReader decodes the records of entries. The records are valid until the next
// read.
type entryReader struct {
	reader  *flow.Reader
	records []flow.Record
}

func newEntryReader() *entryReader { return &entryReader{reader: flow.NewReader()} }

// read decodes the records of one entry. With an error the records before the fault
// are given.
func (r *entryReader) read(it *persistence.ItemInfo) ([]flow.Record, error) {
	r.records = r.records[:0]
	if err := r.reader.Reset(it.Body); err != nil {
		return nil, err
	}
	for r.reader.More() {
		r.records = append(r.records, flow.Record{})
		last := len(r.records) - 1
		if err := r.reader.Record(&r.records[last]); err != nil {
			return r.records[:last], err
		}
		r.records[last].At = flow.Instant(it.Wall)
	}
	return r.records, nil
}
