package runactor

import (
	"github.com/vmihailenco/msgpack/v5"

	"github.com/pyrula/pyrula-node/flow"
)

// DecodeMsgpack reads what EncodeMsgpack wrote over r. A run that was held has no
// end of its lease until Resume. What is allocated is bounded by what was read.
// Error: ErrSnapshot, and then r must not be used.
func (r *Run) DecodeMsgpack(dec *msgpack.Decoder) error {
	d := reader{dec: dec}
	d.exactly("run", runParts)
	if v := d.number(); d.err == nil && v != snapshotVersion {
		return damaged("it has version %d, this build knows %d", v, snapshotVersion)
	}
	*r = Run{}
	d.id(&r.id)
	r.status = flow.Status(d.small("status"))
	r.marks = marks(d.small("marks"))
	r.order = flow.Instant(d.number())
	r.workflow = d.text()
	r.params = d.body()
	r.stamp = d.stamp()
	r.trigger = sharedTrigger(d.text())
	r.idempotencyKey = d.text()
	r.requestID = d.text()
	r.past = d.past()
	if d.err != nil {
		return d.err
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

// reader chains decoder calls and keeps the first error.
type reader struct {
	dec *msgpack.Decoder
	err error
}

func (d *reader) fail(err error) {
	if d.err == nil && err != nil {
		d.err = err
	}
}

// check keeps the first error of the decoder as an ErrSnapshot.
func (d *reader) check(err error) {
	if err != nil {
		d.fail(damaged("%v", err))
	}
}

// array reads a length; -1 is nil.
func (d *reader) array() int {
	if d.err != nil {
		return 0
	}
	n, err := d.dec.DecodeArrayLen()
	d.check(err)
	return n
}

func (d *reader) exactly(what string, parts int) {
	if n := d.array(); d.err == nil && n != parts {
		d.fail(damaged("a %s has %d parts, not %d", what, n, parts))
	}
}

func (d *reader) number() int64 {
	if d.err != nil {
		return 0
	}
	v, err := d.dec.DecodeInt64()
	d.check(err)
	return v
}

func (d *reader) small(what string) uint8 {
	v := d.number()
	if v < 0 || v > 0xFF {
		d.fail(damaged("%s %d is out of range", what, v))
		return 0
	}
	return uint8(v)
}

func (d *reader) flag() bool {
	if d.err != nil {
		return false
	}
	v, err := d.dec.DecodeBool()
	d.check(err)
	return v
}

// raw reads a length and then as many bytes; the length alone allocates little.
func (d *reader) raw(limit int) []byte {
	if d.err != nil {
		return nil
	}
	n, err := d.dec.DecodeBytesLen()
	d.check(err)
	if d.err == nil && (n < 0 || n > limit) {
		d.fail(damaged("%d bytes are announced, at most %d may come", n, limit))
	}
	var b []byte
	for d.err == nil && len(b) < n {
		k := min(n-len(b), readChunk)
		at := len(b)
		b = append(b, make([]byte, k)...)
		d.check(d.dec.ReadFull(b[at:]))
	}
	if d.err != nil {
		return nil
	}
	return b
}

func (d *reader) body() []byte { return d.raw(maxBodyBytes) }

func (d *reader) text() string { return string(d.raw(maxTextBytes)) }

func (d *reader) id(id *flow.RunID) {
	b := d.raw(len(id))
	if d.err == nil && len(b) != len(id) {
		d.fail(damaged("a run id has %d bytes", len(b)))
	}
	copy(id[:], b)
}

func (d *reader) stamp() *flow.Stamp {
	n := d.array()
	if d.err != nil || n < 0 {
		return nil
	}
	if n < stampParts || n > stampParts+maxGates {
		d.fail(damaged("a stamp has %d parts", n))
		return nil
	}
	s := &flow.Stamp{Version: d.text(), VersionRank: d.number(), Unknown: d.flag()}
	if n > stampParts {
		s.Gates = make([]flow.Gate, n-stampParts)
	}
	for i := range s.Gates {
		g := &s.Gates[i]
		d.exactly("gate", gateParts)
		g.Kind, g.KeyName, g.Key = flow.GateKind(d.small("gate kind")), d.text(), d.text()
		g.Max, g.Interval, g.Burst = d.number(), flow.Span(d.number()), d.number()
		if i > 0 && g.Key == s.Gates[0].Key {
			g.Key = s.Gates[0].Key // the usual case: one text for both
		}
	}
	return s
}

func (d *reader) past() *past {
	n := d.array()
	if d.err != nil || n < 0 {
		return nil
	}
	if n != pastParts {
		d.fail(damaged("a past has %d parts, not %d", n, pastParts))
		return nil
	}
	p := &past{
		fence: uint64(d.number()), worker: d.text(), version: d.text(),
		lease: flow.Span(d.number()), backoff: flow.Span(d.number()), attempts: d.number(),
		attempt: d.number(), failures: d.number(),
		started: flow.Instant(d.number()), until: flow.Instant(d.number()),
		last:  ending{kind: flow.InputKind(d.small("ending kind")), fence: uint64(d.number())},
		ended: flow.Instant(d.number()), result: d.body(),
		errType: d.text(), errText: d.text(), reason: d.text(),
	}
	p.journal.dropped = d.number()
	d.journal(&p.journal, p)
	return p
}

// journal reads the entries. Their texts repeat the run's own more often than not:
// equal ones are shared, as they were before.
func (d *reader) journal(j *journal, p *past) {
	n := d.array()
	if d.err == nil && (n < 0 || n >= flow.MaxRunEvents) {
		d.fail(damaged("a journal has %d entries", n))
	}
	share := func(s string) string {
		for _, known := range [...]string{p.worker, p.version, p.errType, p.errText, p.reason} {
			if s == known {
				return known
			}
		}
		return s
	}
	for i := 0; i < n && d.err == nil; i++ {
		d.exactly("journal entry", entryParts)
		e := entry{
			kind: flow.RecordKind(d.small("entry kind")),
			at:   flow.Instant(d.number()), until: flow.Instant(d.number()),
			fence: uint64(d.number()), attempt: d.number(),
			a: share(d.text()), b: share(d.text()),
		}
		j.kept = append(j.kept, e)
		j.text += e.textSize()
	}
}
