package persistence

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pyrula/pyrula-node/persistence/enginetest"
	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// death is a way in which a disk fails at an operation.
type death struct {
	name string
	err  error
	// hits says whether operation i fails when the disk is told to fail at n.
	hits func(op vfs.Op, n int) bool
}

var deaths = []death{
	{"one error", unix.EIO, func(op vfs.Op, n int) bool { return op.Index == n }},
	{"dead from then on", unix.EIO, func(op vfs.Op, n int) bool { return op.Index >= n }},
	{"full from then on", unix.ENOSPC, func(op vfs.Op, n int) bool {
		return op.Index >= n && (op.Kind == vfs.OpCreate || op.Kind == vfs.OpWrite)
	}},
	{"nothing is synced from then on", unix.EIO, func(op vfs.Op, n int) bool {
		return op.Index >= n && (op.Kind == vfs.OpSync || op.Kind == vfs.OpSyncDir)
	}},
}

// wornDir makes a data directory of two shards that gives a start everything to do: a
// torn tail, a shard at rest, snapshots to go back to, and leftovers to remove. It
// returns what is acknowledged in it.
func wornDir(t *testing.T) (*vfs.Mem, []witness) {
	t.Helper()
	disk := vfs.NewMem()
	l := openLocal(t, onDisk(disk, 2))
	ledgers := startAll(t, l)
	write(t, l, ledgers[1], 1, "rests")
	for round := range 4 {
		for i := range 4 {
			write(t, l, ledgers[0], 0, fmt.Sprintf("%d/%d/%01200d", round, i, i))
			barrier(t, l, ledgers[0], 0)
		}
		if round < 3 && !l.round(t.Context()) {
			t.Fatal("a round has failed")
		}
	}
	known := witnesses(ledgers)
	left := disk.CrashClone(nil)
	list, err := listJournal(left, "/data/"+journalDir)
	if err != nil {
		t.Fatal(err)
	}
	first, last := segmentName(list.segments[0].first), segmentName(list.segments[len(list.segments)-1].first)
	change(t, left, "/data/"+journalDir+"/"+last, func(d []byte) []byte { return append(d, 7, 7, 7, 7, 7) })
	putFile(left, "/data/"+journalDir+"/"+first+tempSuffix, []byte("x"))
	putFile(left, "/data/"+snapshotDir+"/"+snapshotRef{Epoch: 1, Pos: 9, Index: 9}.fileName(), []byte("x"))
	return left, known
}

// TestS16DiskThatDiesAnywhere lets a disk fail at operation n in several ways, for many
// n, from the opening of a worn directory over recovery, repair, appends, snapshots and
// truncation to the close. It fails when anything is acknowledged after the journal has
// stopped, or when a start on a disk that works again, as programs saw it last or as a
// power cut leaves it, misses an acknowledged line or is refused.
func TestS16DiskThatDiesAnywhere(t *testing.T) {
	base, known := wornDir(t)
	for _, d := range deaths {
		stops, refusals := 0, 0
		for n := 0; ; n += deathStep {
			r := &dying{death: d, at: n, disk: base.CrashClone(nil), known: known}
			r.run(t)
			stops += r.stopped
			if r.ledgers == nil {
				refusals++
			}
			if !r.hit {
				break
			}
		}
		if stops == 0 || refusals == 0 {
			t.Errorf("%s: %d stops of the journal and %d starts that failed, want some of each", d.name, stops, refusals)
		}
	}
}

// dying is a life on a disk that fails at one operation.
type dying struct {
	death
	at    int
	disk  *vfs.Mem
	known []witness

	hit     bool
	stopped int
	ledgers []*enginetest.Ledger // nil when the engine didn't come up
}

func (r *dying) run(t *testing.T) {
	t.Helper()
	what := fmt.Sprintf("%s at operation %d", r.name, r.at)
	cfg := onDisk(vfs.NewFault(r.disk, func(op vfs.Op) error {
		if !r.hits(op, r.at) {
			return nil
		}
		r.hit = true
		return fmt.Errorf("operation %d: %w", op.Index, r.err)
	}), 2)
	atStop := make(chan []witness, 1)
	cfg.OnFatal = func(error) { atStop <- witnesses(r.ledgers) }
	r.live(t, cfg)
	known := r.known
	if r.ledgers != nil {
		known = witnesses(r.ledgers)
	}
	select {
	case then := <-atStop:
		r.stopped = 1
		for s, w := range then {
			if known[s].acked != w.acked {
				t.Errorf("%s: shard %d was told of a commit after the stop", what, s)
			}
		}
	default:
	}
	lawful(t, r.ledgers)
	for how, left := range map[string]*vfs.Mem{"power cut": r.disk.CrashClone(nil), "kill": keptCache(t, r.disk)} {
		recoverCut(t, what+", "+how, cut{disk: left, known: known})
	}
}

// live plays the life. Every error is the end of a step, and some are the end of the
// life; none may be the end of an acknowledged line.
func (r *dying) live(t *testing.T, cfg Config) {
	t.Helper()
	l, err := Open(cfg)
	if err != nil {
		return
	}
	ctx := context.Background()
	ledgers := openAll(t, l)
	if err := l.Start(ctx); err == nil {
		r.ledgers = ledgers
		for s, w := range r.known {
			w.check(t, r.name, ledgers[s])
		}
		r.work(ctx, l)
	}
	// A journal that works can fail to close: then the next start replays more.
	if err := l.Close(ctx); err != nil && !r.hit {
		t.Errorf("%s: close: %v", r.name, err)
	}
}

func (r *dying) work(ctx context.Context, l *Local) {
	for round := range 4 {
		for i := range 4 {
			body := fmt.Sprintf("new %d/%d/%s", round, i, strings.Repeat("n", 900))
			if _, err := r.ledgers[0].Append(int64(i), body); err != nil {
				return
			}
			if err := l.shards[0].ReadBarrier(ctx, r.ledgers[0].Epoch(), true); err != nil {
				return
			}
		}
		if !l.round(ctx) {
			continue // the next one may work
		}
	}
}
