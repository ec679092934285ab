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
	d.Array(runParts, runParts)
	if v := d.Number(); !d.Failed() && v != snapshotVersion {
		return damaged("it has version %d, this build knows %d", v, snapshotVersion)
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
	if _, ok := d.Optional(pastParts, pastParts); !ok {
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
	return p
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
		d.Array(entryParts, entryParts)
		e := entry{
			kind: flow.RecordKind(d.small()),
			at:   flow.Instant(d.Number()), until: flow.Instant(d.Number()),
			fence: uint64(d.Number()), attempt: d.Number(),
			a: share(d.text()), b: share(d.text()),
		}
		j.kept = append(j.kept, e)
		j.text += e.textSize()
	}
}
