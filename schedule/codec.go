package schedule

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/pack"
)

// A definition in a record is one msgpack array:
//
//	[ version, workflow, params, cron, zone, every, start, at, catch up, paused ]
const (
	codecVersion = 1
	codecParts   = 10
	maxName      = flow.MaxNameBytes + 16
)

// ErrCodec says that bytes are no definition of a schedule: damage, or a format that is
// newer than this build.
var ErrCodec = errors.New("schedule: can't decode the definition")

// Encode is the definition in bytes.
func (d *Definition) Encode() []byte {
	var buf bytes.Buffer
	enc := msgpack.NewEncoder(&buf)
	enc.UseCompactInts(true)
	w := pack.NewWriter(enc)
	w.Array(codecParts)
	w.Number(codecVersion)
	w.Text(d.Workflow)
	w.Bytes(d.Params)
	w.Text(d.Spec.Cron)
	w.Text(d.Spec.Zone)
	w.Number(int64(d.Spec.Every))
	w.Number(int64(d.Spec.Start))
	w.Number(int64(d.Spec.At))
	w.Number(int64(d.CatchUp))
	w.Flag(d.Paused)
	if err := w.Err(); err != nil {
		panic("schedule: a buffer refused bytes: " + err.Error()) // it grows or panics by itself
	}
	return buf.Bytes()
}

// Decode reads what Encode wrote. Error: ErrCodec.
func Decode(b []byte) (*Definition, error) {
	var body pack.Body
	body.Reset(b)
	r := pack.NewReader(msgpack.NewDecoder(&body), body.Len)
	r.Array(codecParts, codecParts)
	if v := r.Number(); !r.Failed() && v != codecVersion {
		return nil, fmt.Errorf("%w: it has version %d, this build knows %d", ErrCodec, v, codecVersion)
	}
	d := &Definition{
		Workflow: r.Text(maxName), Params: r.Bytes(nil, flow.MaxRecordBytes),
		Spec: Spec{
			Cron: r.Text(MaxCronBytes), Zone: r.Text(maxZoneBytes), Every: flow.Span(r.Number()),
			Start: flow.Instant(r.Number()), At: flow.Instant(r.Number()),
		},
		CatchUp: CatchUp(r.Between(int64(CatchUpOne), int64(CatchUpAll))), Paused: r.Flag(),
	}
	if r.Failed() {
		return nil, fmt.Errorf("%w: %w", ErrCodec, r.Err())
	}
	if body.Len() > 0 {
		return nil, fmt.Errorf("%w: %d bytes are left over", ErrCodec, body.Len())
	}
	return d, nil
}
