package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/persistence"
)

// selection says which records a dump shows.
type selection struct {
	shard    int // -1: all
	run      flow.RunID
	workflow string
	from     uint64 // first frame
}

// narrow says that only records are wanted, not what the journal says of its lives.
func (s *selection) narrow() bool { return s.shard >= 0 || !s.run.IsZero() || s.workflow != "" }

func (p *program) journalDumpCommand() *cobra.Command {
	var pick selection
	run := ""
	dump := &cobra.Command{
		Use:   "dump --data DIR",
		Short: "Print the journal, one record a line, as JSON",
		Long: `Print every record that the journal still holds, one a line, as JSON, in the order in
which they were written. A start needs older ones no more and deletes them: what they
made is in the snapshots and in the archive. When nothing was asked for that the journal
still holds, a line on stderr says so.

  frame, shard, epoch, seq   where the record stands; the records of one entry share them
  at                         shard time of the entry
  kind                       what happened; the other fields depend on it

With --workflow come the records that name the workflow, and all records of runs whose
submit is in the journal: later ones don't name it, so their ids are kept in memory.

A record of a kind that this build doesn't know is printed as kind(N) with its bytes in
hex under "raw" and the reason under "fault". Then, and when a damaged frame ends the
output, the command exits with 1.`,
		Args: noArgs,
	}
	flags := dump.Flags()
	flags.IntVar(&pick.shard, "shard", -1, "only the records of this shard; -1: of all")
	flags.StringVar(&run, "run", "", "only records about this run, of what the journal still holds")
	flags.StringVar(&pick.workflow, "workflow", "", "only records about this workflow")
	flags.Uint64Var(&pick.from, "from", 0, "only `frame`s from this number on")
	dump.RunE = p.inspecting(func(ctx context.Context, d *directory) error {
		if shards := d.About().Shards; pick.shard < -1 || pick.shard >= shards {
			return &usageError{dump.CommandPath(), fmt.Errorf("--shard %d: the directory has shards 0 to %d", pick.shard, shards-1)}
		}
		if run != "" {
			var err error
			if pick.run, err = flow.ParseRunID(run); err != nil {
				return &usageError{err: fmt.Errorf("--run %q is not a run id: want \"run_\" and 26 characters", run)}
			}
		}
		return p.journalDump(ctx, d, pick)
	})
	return dump
}

func (p *program) journalDump(ctx context.Context, d *directory, pick selection) error {
	out := bufio.NewWriterSize(p.stdout, 64<<10)
	w := &dumpWriter{pick: pick, entries: newEntryReader(), enc: json.NewEncoder(out), ours: map[flow.RunID]bool{}}
	w.enc.SetEscapeHTML(false)
	rep, err := d.ReadJournal(ctx, w.frame)
	if failed := out.Flush(); failed != nil {
		return failed
	}
	if err != nil {
		return err
	}
	if rep.Torn > 0 {
		fmt.Fprintf(p.stderr, "%s: %s ends with a torn tail of %d bytes at offset %d: the next start cuts it off\n",
			p.name, rep.TornFile, rep.Torn, rep.TornOffset)
	}
	if w.lines == 0 {
		fmt.Fprintf(p.stderr, "%s: no record in frames %d to %d matches; older runs stand in snapshots and in the archive\n",
			p.name, rep.First, rep.Last)
	}
	if w.unknown > 0 {
		return fmt.Errorf("%d records are not known to this build: they stand above with their bytes", w.unknown)
	}
	return nil
}

// dumpWriter writes the lines of one dump.
type dumpWriter struct {
	pick    selection
	entries *entryReader
	enc     *json.Encoder
	ours    map[flow.RunID]bool // runs of the workflow that is asked for
	batch   flow.KeyID          // whose open batch is to be the run that is asked for
	unknown int64
	lines   int64 // written
}

// line writes one.
func (w *dumpWriter) line(line *recordLine) error {
	w.lines++
	return w.enc.Encode(line)
}

func (w *dumpWriter) frame(f persistence.FrameInfo) error {
	for i := range f.Items {
		it := &f.Items[i]
		var err error
		switch {
		case it.Kind == entryKind:
			err = w.entry(&f, it)
		case !w.pick.narrow() && f.Index >= w.pick.from:
			err = w.life(&f, it)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// life writes an item that begins a life of the node.
func (w *dumpWriter) life(f *persistence.FrameInfo, it *persistence.ItemInfo) error {
	line := recordLine{Frame: f.Index, Epoch: uint64(it.Epoch), At: moment(flow.Instant(it.Wall)), Kind: it.Kind}
	if it.Kind == recoveredKind {
		replayed := uint64(it.Seq)
		line.EntriesReplayed, line.BytesCut = &replayed, &it.Cut
	} else {
		line.Fsync = fsyncOf(f)
	}
	return w.line(&line)
}

// Items that begin a life, as persistence names them.
const (
	bootKind      = "boot"
	recoveredKind = "recovered"
)

// fsyncOf is how the life of a frame acknowledges.
func fsyncOf(f *persistence.FrameInfo) string {
	if f.Lazy {
		return "every"
	}
	return "always"
}

func (w *dumpWriter) entry(f *persistence.FrameInfo, it *persistence.ItemInfo) error {
	shard := uint16(it.Shard)
	line := recordLine{Frame: f.Index, Shard: &shard, Epoch: uint64(it.Epoch), Seq: uint64(it.Seq), At: moment(flow.Instant(it.Wall))}
	if w.pick.workflow == "" && w.pick.run.IsZero() && !w.inPlace(&line) {
		return nil
	}
	records, err := w.entries.read(it)
	if err != nil {
		return w.piecewise(line, it)
	}
	for i := range records {
		if err := w.record(line, &records[i]); err != nil {
			return err
		}
	}
	return nil
}

// record writes a record that this build knows.
func (w *dumpWriter) record(line recordLine, rec *flow.Record) error {
	w.follow(rec)
	if !w.wanted(&line, rec) {
		return nil
	}
	line.Kind = rec.Kind.String()
	view, err := recordView(rec)
	line.fieldsView = view
	if err != nil {
		w.unknown++
		line.Raw, line.Fault = hex.EncodeToString(rec.Payload), plain(err.Error())
	}
	return w.line(&line)
}

// wanted says whether a record is asked for, and notes the runs of the workflow that
// is: also those in frames and shards that aren't shown.
func (w *dumpWriter) wanted(line *recordLine, rec *flow.Record) bool {
	if w.pick.workflow != "" && !w.aboutWorkflow(rec) {
		return false
	}
	if !w.pick.run.IsZero() && !aboutRun(rec, w.pick.run) && !w.gathered(rec) {
		return false
	}
	return w.inPlace(line)
}

// gathered says whether a record is an event of the batch that the run was made of, which
// names only its key.
func (w *dumpWriter) gathered(rec *flow.Record) bool {
	return rec.Kind == flow.RecEvent && rec.Key == w.batch
}

// inPlace says whether the place of a record is asked for.
func (w *dumpWriter) inPlace(line *recordLine) bool {
	return line.Frame >= w.pick.from && (w.pick.shard < 0 || w.pick.shard == int(*line.Shard))
}

// follow notes the key of the picked run's batch while that is open.
func (w *dumpWriter) follow(rec *flow.Record) {
	switch {
	case rec.Run != w.pick.run || w.pick.run.IsZero():
	case rec.Kind == flow.RecBatchOpened:
		w.batch = rec.Key
	case rec.Kind == flow.RecBatchCut:
		w.batch = flow.KeyID{}
	}
}

func aboutRun(rec *flow.Record, run flow.RunID) bool {
	if rec.Run == run {
		return true
	}
	in, ok := letterIn(rec)
	return ok && in.Run == run
}

func (w *dumpWriter) aboutWorkflow(rec *flow.Record) bool {
	named := func(f *flow.Fields) bool {
		return f.Workflow == w.pick.workflow || f.Key.Workflow == w.pick.workflow || f.Peer.Workflow == w.pick.workflow
	}
	if (rec.Kind == flow.RecSubmitted || rec.Kind == flow.RecBatchCut) && named(&rec.Fields) {
		w.ours[rec.Run] = true
	}
	if named(&rec.Fields) || w.ours[rec.Run] {
		return true
	}
	in, ok := letterIn(rec)
	return ok && (named(&in.Fields) || w.ours[in.Run])
}

// letterIn is the letter that a sent record holds.
func letterIn(rec *flow.Record) (in flow.Input, ok bool) {
	if rec.Kind != flow.RecSent {
		return in, false
	}
	r := flow.NewReader()
	return in, r.Reset(rec.Payload) == nil && r.Input(&in) == nil
}

// piecewise writes the records of an entry that doesn't decode as a whole: those that
// are known, and the bytes of those that aren't. What can't be read might be about
// anything, so only the place decides whether it is shown.
func (w *dumpWriter) piecewise(line recordLine, it *persistence.ItemInfo) error {
	pieces, rest := split(it.Body)
	for _, piece := range pieces {
		var rec flow.Record
		err := rec.DecodeMsgpack(msgpack.NewDecoder(bytes.NewReader(piece)))
		if err == nil {
			err = w.record(line, &rec)
		} else {
			err = w.raw(line, piece, err)
		}
		if err != nil {
			return err
		}
	}
	if len(rest) > 0 {
		return w.raw(line, rest, fmt.Errorf("%w: these bytes are no records", flow.ErrCodec))
	}
	return nil
}

func (w *dumpWriter) raw(line recordLine, piece []byte, fault error) error {
	if !w.inPlace(&line) {
		return nil
	}
	w.unknown++
	line.Kind, line.Raw, line.Fault = kindOf(piece), hex.EncodeToString(piece), plain(fault.Error())
	return w.line(&line)
}

// kindOf is the name of the kind that a piece begins with; "unknown" when it begins
// otherwise.
func kindOf(piece []byte) string {
	dec := msgpack.NewDecoder(bytes.NewReader(piece))
	if n, err := dec.DecodeArrayLen(); err != nil || n < 1 {
		return "unknown"
	}
	kind, err := dec.DecodeUint8()
	if err != nil {
		return "unknown"
	}
	return flow.RecordKind(kind).String()
}

// split cuts the body of an entry into the arrays that records are, without knowing
// what they mean. rest is what isn't an array.
func split(body []byte) (pieces [][]byte, rest []byte) {
	if len(body) == 0 || body[0] != bodyVersion {
		return nil, body
	}
	rest = body[1:]
	for len(rest) > 0 && isArray(rest[0]) {
		in := bytes.NewReader(rest)
		if err := skip(msgpack.NewDecoder(in)); err != nil {
			break
		}
		size := len(rest) - in.Len()
		pieces, rest = append(pieces, rest[:size]), rest[size:]
	}
	return pieces, rest
}

// skip passes over one value, however deep it is: the decoder's own Skip calls itself
// for each level, and a body of 2 MiB can have two million.
func skip(dec *msgpack.Decoder) error {
	for left := 1; left > 0; left-- {
		code, err := dec.PeekCode()
		n := 0
		switch {
		case err != nil:
		case isArray(code):
			n, err = dec.DecodeArrayLen()
		case msgpcode.IsFixedMap(code) || code == msgpcode.Map16 || code == msgpcode.Map32:
			n, err = dec.DecodeMapLen()
			n *= 2
		default:
			err = dec.Skip()
		}
		if err != nil {
			return err
		}
		left += n
	}
	return nil
}

func isArray(code byte) bool {
	return msgpcode.IsFixedArray(code) || code == msgpcode.Array16 || code == msgpcode.Array32
}

// bodyVersion is the first byte of an entry whose rest is a row of arrays.
const bodyVersion = 1
