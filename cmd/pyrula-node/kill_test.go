package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// archiving are the flags with which ended runs leave memory at once.
var archiving = []string{"--recent", "1s", "--recent-runs", "20"}

// lives are the ways in which a node is started, in turn. A lazy fsync loses nothing
// when only the process dies.
var lives = [][]string{
	archiving,
	{"--fsync", "every=50ms"},
	append([]string{"--fsync", "every=50ms"}, archiving...),
	{},
}

// TestKill9 kills a node again and again while clients submit, stop and declare, and
// workers claim, renew, complete, fail and suspend: under load, while it starts,
// while it takes snapshots, twice in a row. It fails when something that was
// acknowledged is gone or otherwise after a kill, when a run ends twice or never,
// when its events have a gap, when more bodies of a tenant execute at once than its
// Limit says, or when a Rate lets more through.
func TestKill9(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience+kills*5*time.Second)
	defer cancel()
	k := &killing{t: t, dir: t.TempDir(), crew: newCrew(ctx.Done()), rng: rand.New(rand.NewPCG(kills, 1))}
	c, l := k.crew, k.crew.ledger
	n := k.serve()
	for _, name := range gated {
		if !c.declare(name, declarations[name]) {
			t.Fatalf("declare %s", name)
		}
	}
	c.start()
	for turn := 0; k.killed < kills; turn++ {
		k.load()
		k.end(n, turn)
		n = k.serve()
		c.remembers(t, k.rng)
		if k.faulty() {
			break
		}
	}
	l.note(func() { l.enough = true })
	if !k.faulty() {
		c.drained(t)
	}
	cancel()
	c.wg.Wait()
	for _, fault := range l.faults[:min(len(l.faults), 8)] { // the rest is like them
		t.Error(fault)
	}
	t.Logf("%d kills in %d lives; %d submits acknowledged, %d of unknown outcome; %v; at most %d bodies of a tenant at once",
		k.killed, k.born, len(l.ids), l.unknown, l.verbs, l.most)
	if l.most < slots {
		t.Errorf("at most %d bodies of a tenant executed at once: the Limit of %d was never reached, so nothing is shown", l.most, slots)
	}
}

// perLife is how many submits are sent in one life, single ones and batches.
const perLife = 25

// killing is one kill loop.
type killing struct {
	t      *testing.T
	dir    string
	crew   *crew
	rng    *rand.Rand
	born   int // lives that began
	killed int // lives that ended by kill -9
}

// spawn begins a life.
func (k *killing) spawn() *child {
	k.t.Helper()
	args := append([]string{"serve", "--data", k.dir, "--addr", "127.0.0.1:0"}, lives[k.born%len(lives)]...)
	k.born++
	return spawn(k.t, args...)
}

// serve begins a life and tells the crew where it is.
func (k *killing) serve() *child {
	k.t.Helper()
	n := k.spawn()
	k.crew.base.Store(new(n.url()))
	return n
}

// load waits for some work to be done, that of limited workflows too: so slots whose
// holders are lost are given back now and then.
func (k *killing) load() {
	k.t.Helper()
	l := k.crew.ledger
	var acks, ends int
	l.note(func() { l.allowed += perLife })
	l.look(func() { acks, ends = l.acks+20+k.rng.IntN(40), l.ends+1+k.rng.IntN(4) })
	ready := func() bool { return l.acks >= acks && l.ends >= ends || len(l.faults) > 0 }
	if !l.until(k.crew.over, ready) {
		k.t.Fatalf("after %d kills the work doesn't go on\n%s", k.killed, k.crew.stuck(k.t))
	}
}

func (k *killing) faulty() (yes bool) {
	k.crew.ledger.look(func() { yes = len(k.crew.ledger.faults) > 0 })
	return yes || k.t.Failed()
}

func (k *killing) kill(n *child) {
	k.t.Helper()
	n.kill()
	k.killed++
}

// end ends a life in one of several ways, in turn.
func (k *killing) end(n *child, turn int) {
	k.t.Helper()
	switch turn % 6 {
	case 0:
		k.kill(n)
	case 1: // and once more, before anything is read
		k.kill(n)
		n = k.spawn()
		n.says("pyrula-node starts")
		k.kill(n)
	case 2: // while snapshots are taken
		before := k.snapshots()
		n.signal(syscall.SIGTERM)
		n.says("msg=draining")
		k.await(n, time.Second, func() bool { return k.snapshots() != before })
		k.kill(n)
	case 3: // and once more, right when it is ready
		k.kill(n)
		n = k.spawn()
		n.url()
		k.kill(n)
	case 4: // a clean end: the next start is from snapshots
		n.signal(syscall.SIGTERM)
		if code := n.exit(); code != exitOK {
			k.t.Fatalf("SIGTERM ends it with %d:\n%s", code, n.said())
		}
	default: // and twice more, at any moment of a start
		k.kill(n)
		for range 2 {
			n = k.spawn()
			k.await(n, time.Duration(k.rng.IntN(80))*time.Millisecond, func() bool { return false })
			k.kill(n)
		}
	}
}

// await polls for a moment of a process: until it has come, the process has ended,
// or some time is over.
func (k *killing) await(n *child, most time.Duration, come func() bool) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(most)
	for !come() {
		select {
		case <-tick.C:
		case <-n.ended:
			return
		case <-late:
			return
		}
	}
}

// snapshots are the names in the snapshot directory, those of unfinished ones too.
func (k *killing) snapshots() string {
	k.t.Helper()
	entries, err := os.ReadDir(filepath.Join(k.dir, "snapshots"))
	if err != nil {
		k.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// drained waits for the end of every run, and then looks at all that is left.
func (c *crew) drained(t *testing.T) {
	t.Helper()
	l := c.ledger
	again := time.NewTicker(10 * retryPause)
	defer again.Stop()
	var have map[string]gjson.Result
	for atRest := false; !atRest; {
		have = c.all(t)
		atRest = c.free(t)
		for _, run := range have {
			atRest = atRest && isFinal(run.Get("status").String())
		}
		if atRest {
			break
		}
		select {
		case <-again.C:
		case <-c.over:
			t.Fatalf("not every run ends, or a key isn't free\n%s", c.stuck(t))
		}
	}
	k := l.known()
	l.compare(k, have)
	var extra int
	l.look(func() { extra = len(have) - len(k.ids) - l.unknown })
	if extra > 0 {
		t.Errorf("%d runs are there that nobody can have submitted", extra)
	}
	for i, id := range slices.Sorted(maps.Keys(have)) {
		if i%max(1, len(have)/closely) == 0 {
			c.closely(t, k, id)
		}
		if run := have[id]; run.Get("status").String() == "completed" && l.bodies[id] == 0 {
			t.Errorf("run %s is completed and never had a body", id)
		}
	}
	if n := archived(t, *c.base.Load()); n < int64(len(have))/4 {
		t.Errorf("%d of %d runs are in the archive: nearly nothing is shown of it", n, len(have))
	}
	for i := range tenants {
		rateHolds(t, rate{"near", "tenant", fmt.Sprintf("t%d", i), 30, 8}, have)
		rateHolds(t, rate{"pace", "tenant", fmt.Sprintf("t%d", i), 30, 8}, have)
	}
	for i := range regions {
		// A token is taken in its own shard, and the run starts in another when it arrives:
		// as many as there are slots may be under way at once.
		rateHolds(t, rate{"far", "region", fmt.Sprintf("r%d", i), 60, 16 + slots*tenants}, have)
	}
}

// free says whether every key is free.
func (c *crew) free(t *testing.T) bool {
	t.Helper()
	for i := range tenants {
		for _, name := range gated {
			_, text := get(t, fmt.Sprintf("%s/v1/keys/%s/t%d", *c.base.Load(), name, i))
			if key := gjson.Parse(text); key.Get("used").Int() != 0 || key.Get("queued").Int() != 0 {
				return false
			}
		}
	}
	return true
}

// rate is a Rate of one key, as it was declared.
type rate struct {
	workflow, name, key string
	perSecond, burst    int64
}

// rateHolds checks a Rate over all lives of the node: in any interval no more than
// burst + rate × interval start (P4).
func rateHolds(t *testing.T, r rate, have map[string]gjson.Result) {
	t.Helper()
	var starts []int64 // milliseconds, cut off
	for _, run := range have {
		key := run.Get(`gates.#(key_name=="` + r.name + `")#|#(kind=="rate").key`).String()
		if run.Get("workflow").String() == r.workflow && key == r.key && run.Get("started_at").Int() > 0 {
			starts = append(starts, run.Get("started_at").Int())
		}
	}
	slices.Sort(starts)
	if len(starts) == 0 {
		t.Errorf("no run of %s with key %s has started, so nothing is shown", r.workflow, r.key)
	}
	for i := range starts {
		for j := i; j < len(starts); j++ {
			span := starts[j] - starts[i] + 1
			if n := int64(j - i + 1); n*1000 > r.burst*1000+r.perSecond*span {
				t.Errorf("%d starts of %s with key %s within %d ms", n, r.workflow, r.key, span)
				return
			}
		}
	}
}
