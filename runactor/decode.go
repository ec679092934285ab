package runactor

import (
	"github.com/vmihailenco/msgpack/v5"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/pack"
)

// DecodeMsgpack reads what EncodeMsgpack wrote over r. A run that was held has no
// end of its lease until Resume. What is allocated is bounded by what was read.
// Error: ErrSnapshot, and then r must not be used.
func (r *Run) DecodeMsgpack(dec *msgpack.Decoder) error { return r.DecodeShared(dec, nil) }

// DecodeShared is DecodeMsgpack for many runs of one owner: names and stamps that
// stand in shared already are taken from there, which spares memory and time. nil
// shares nothing.
func (r *Run) DecodeShared(dec *msgpack.Decoder, shared *flow.Shared) error {
	d := reader{pack.NewReader(dec, nil), shared}
	parts := d.Array(oldRunParts, runParts)
	if v := d.Number(); !d.Failed() && (v < 1 || v > snapshotVersion || (v == 1) != (parts == oldRunParts)) {
		return damaged("it has version %d and %d parts, this build knows versions up to %d", v, parts, snapshotVersion)
	}
	*r = Run{}
	flow.ReadRunID(&d.Reader, &r.id)
	r.status = flow.Status(d.small())
	r.marks = marks(d.small())
	r.order = flow.Instant(d.Number())
	r.workflow = d.name()
	r.params = d.body()
	r.stamp = flow.ReadStamp(&d.Reader, shared)
	r.trigger = sharedTrigger(d.name())
	r.idempotencyKey = d.text()
	r.requestID = d.text()
	r.past = d.past()
	if parts == runParts {
		r.from = d.lineage()
	}
	if d.Failed() {
		return damaged("%v", d.Err())
	}
	if err := r.Check(); err != nil {
		return damaged("%v", err)
	}
	return nil
}

// sharedTrigger keeps one copy of the usual triggers for all runs.
func sharedTrigger(s string) string {
	for _, known := range [...]string{"client", "http", "schedule", "trigger", "child", "retry_by_name", "case", "replay", "eval"} {
		if s == known {
			return known
		}
	}
	return s
}

// reader reads the parts of a run, each within its bound.
type reader struct {
	pack.Reader
	shared *flow.Shared
}

func (d *reader) small() uint8 { return uint8(d.Between(0, 0xFF)) }

func (d *reader) body() []byte { return d.Bytes(nil, maxBodyBytes) }

func (d *reader) text() string { return d.Text(maxTextBytes) }

// name is a text that few values fill.
func (d *reader) name() string { return d.shared.Name(&d.Reader, maxTextBytes) }

func (d *reader) past() *past {
	parts, ok := d.Optional(oldPastParts, pastParts)
	if !ok {
		return nil
	}
	p := &past{
		fence: uint64(d.Number()), worker: d.name(), version: d.name(),
		lease: flow.Span(d.Number()), backoff: flow.Span(d.Number()), attempts: d.Number(),
		attempt: d.Number(), failures: d.Number(),
		started: flow.Instant(d.Number()), until: flow.Instant(d.Number()),
		last:  ending{kind: flow.InputKind(d.small()), fence: uint64(d.Number())},
		ended: flow.Instant(d.Number()), result: d.body(),
		errType: d.text(), errText: d.text(), reason: d.text(),
	}
	p.journal.dropped = d.Number()
	d.journal(&p.journal, p)
	if parts == oldPastParts || d.Failed() {
		return p
	}
	if parts != pastParts {
		d.Failf("a past of %d parts", parts)
		return p
	}
	p.since = flow.Instant(d.Number())
	var b book
	b.wait = d.wait()
	flow.ReadRunID(&d.Reader, &b.successor)
	b.chain = flow.Instant(d.Number())
	if recorded := d.book(&b); recorded || b.wait.kind != waitNone || !b.successor.IsZero() || b.chain != 0 {
		p.book = &b
	}
	return p
}

func (d *reader) lineage() *lineage {
	if _, ok := d.Optional(lineageParts, lineageParts); !ok {
		return nil
	}
	l := new(lineage)
	flow.ReadRunID(&d.Reader, &l.gatedFrom)
	flow.ReadRunID(&d.Reader, &l.gatedRoot)
	flow.ReadRunID(&d.Reader, &l.parent)
	l.origin = d.name()
	return l
}

func (d *reader) runIDs() []flow.RunID {
	b := d.body()
	if len(b)%len(flow.RunID{}) != 0 {
		d.Failf("%d bytes are no list of ids", len(b))
	}
	if len(b) == 0 {
		return nil
	}
	return flow.DecodeRunIDs(b)
}

func (d *reader) wait() (w wait) {
	if _, ok := d.Optional(waitParts, waitParts); !ok {
		return w
	}
	w.kind = waitKind(d.Between(int64(waitMoment), int64(lastWait)))
	w.name, w.visit, w.number = d.name(), d.Number(), uint64(d.Number())
	w.awaited = d.runIDs()
	n := d.Array(0, flow.MaxAwaited)
	if n != len(w.awaited) {
		d.Failf("%d outcomes of %d runs", n, len(w.awaited))
	}
	if n == 0 || d.Failed() {
		return w
	}
	w.known, w.ended = make([]Outcome, n), make([]bool, n)
	for i := range n {
		w.known[i], w.ended[i] = d.outcome()
	}
	return w
}

func (d *reader) outcome() (o Outcome, known bool) {
	if _, known = d.Optional(outcomeParts, outcomeParts); !known {
		return o, false
	}
	o.Status = flow.Status(d.Between(0, int64(flow.StatusContinued)))
	o.Payload, o.ErrType, o.ErrText = d.body(), d.text(), d.text()
	return o, true
}

// book reads what is recorded, and whether that is anything. What it counts for is counted
// anew, with the outcomes of the wait that is under way.
func (d *reader) book(b *book) bool {
	b.bytes = b.wait.bytes()
	if _, ok := d.Optional(bookParts, bookParts); !ok {
		return false
	}
	last := uint64(d.Number())
	b.fresh, b.state = int(d.Between(0, flow.MaxHistoryItems)), d.body()
	b.bytes += len(b.state)
	for n := d.Array(0, flow.MaxHistoryItems+1); n > 0 && !d.Failed(); n-- {
		b.add(d.item())
	}
	for n := d.Array(0, flow.MaxSignals); n > 0 && !d.Failed(); n-- {
		b.keep(flow.ReadSignal(&d.Reader))
	}
	b.last = last
	for n := d.Array(0, flow.MaxWaiters); n > 0 && !d.Failed(); n-- {
		b.waiters = append(b.waiters, flow.ReadWaiter(&d.Reader))
	}
	if b.fresh > len(b.items) {
		d.Failf("entry %d of %d", b.fresh, len(b.items))
	}
	return true
}

func (d *reader) item() (it Item) {
	d.Array(itemParts, itemParts)
	it.Kind = ItemKind(d.Between(1, int64(lastItem)))
	it.Name, it.Visit, it.Payload = d.name(), d.Number(), d.body()
	it.ErrType, it.ErrText, it.Cost = d.text(), d.text(), d.Number()
	it.Signal, it.Request, it.Runs = uint64(d.Number()), d.text(), d.runIDs()
	n := d.Array(0, flow.MaxAwaited)
	for i := 0; i < n && !d.Failed(); i++ {
		o, _ := d.outcome()
		it.Outcomes = append(it.Outcomes, o)
	}
	return it
}

// journal reads the entries. Their texts repeat the run's own more often than not:
// equal ones are shared, as they were before.
func (d *reader) journal(j *journal, p *past) {
	n := d.Array(0, flow.MaxRunEvents-1)
	share := func(s string) string {
		for _, known := range [...]string{p.worker, p.version, p.errType, p.errText, p.reason} {
			if s == known {
				return known
			}
		}
		return s
	}
	for i := 0; i < n && !d.Failed(); i++ {
		parts := d.Array(oldEntryParts, entryParts)
		e := entry{
			kind: flow.RecordKind(d.small()),
			at:   flow.Instant(d.Number()), until: flow.Instant(d.Number()),
			fence: uint64(d.Number()), attempt: d.Number(),
			a: share(d.text()), b: share(d.text()),
		}
		if parts == entryParts {
			e.more = d.detail()
		}
		j.kept = append(j.kept, e)
		j.text += e.textSize()
	}
}

func (d *reader) detail() *detail {
	if _, ok := d.Optional(detailParts, detailParts); !ok {
		return nil
	}
	return &detail{name: d.name(), visit: d.Number(), runs: d.runIDs()}
}
