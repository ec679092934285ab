package transport

import (
	"encoding/json"
	"fmt"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// The shapes of a declaration. See shapes.go.

var (
	wantMax      = fmt.Sprintf("must be an integer from 1 to %d", flow.MaxLimit)
	wantBurst    = fmt.Sprintf("must be an integer from 1 to %d", flow.MaxBurst)
	wantAttempts = fmt.Sprintf("must be an integer from 1 to %d", flow.MaxAttempts)
	wantEvents   = fmt.Sprintf("must be an integer from 1 to %d", flow.MaxBatchEvents)
	wantBytes    = fmt.Sprintf("must be an integer from 1 to %d, or be left out", flow.MaxBatchBytes)
)

// declaration reads a declaration, in which a wrong type is configuration too
// (P57).
func (r *reader) declaration() (d wire.Declaration) {
	r.kind = flow.ErrConfiguration
	for m := r.object(); r.member(&m); {
		switch r.name() {
		case "version":
			d.Version = r.str()
		case "limit":
			d.Limit = r.limit()
		case "rate":
			d.Rate = r.rate()
		case "trigger":
			d.Trigger = r.trigger()
		case "max_attempts":
			d.MaxAttempts = r.integerPtr(wantAttempts)
		case "retry_backoff_seconds":
			d.RetryBackoffSeconds = r.numberPtr()
		case "lease_seconds":
			d.LeaseSeconds = r.numberPtr()
		case "budget":
			d.Budget = r.raw()
		case "kafka":
			d.Kafka = r.kafka()
		default:
			r.unknown()
		}
	}
	return d
}

// kafka reads {"topic": "..."} and gives it as it is written: its check reads it again.
func (r *reader) kafka() json.RawMessage {
	if r.null() {
		return nil
	}
	start := r.i
	for m := r.object("topic"); r.member(&m); {
		switch r.name() {
		case "topic":
			r.str()
		default:
			r.unknown()
		}
	}
	return r.since(start)
}

func (r *reader) limit() *wire.Limit {
	if r.null() {
		return nil
	}
	var l wire.Limit
	for m := r.object("key", "max"); r.member(&m); {
		switch r.name() {
		case "key":
			l.Key = r.key()
		case "max":
			l.Max = r.integer(wantMax)
		default:
			r.unknown()
		}
	}
	return &l
}

func (r *reader) rate() *wire.Rate {
	if r.null() {
		return nil
	}
	var t wire.Rate
	for m := r.object("key", "per_second"); r.member(&m); {
		switch r.name() {
		case "key":
			t.Key = r.key()
		case "per_second":
			t.PerSecond = r.number()
		case "burst":
			t.Burst = r.integerPtr(wantBurst)
		default:
			r.unknown()
		}
	}
	return &t
}

// trigger reads one of the two; that it is one and not both is for its check to say.
func (r *reader) trigger() *wire.Trigger {
	if r.null() {
		return nil
	}
	var t wire.Trigger
	for m := r.object(); r.member(&m); {
		switch r.name() {
		case "collect":
			t.Collect = r.collect()
		case "debounce":
			t.Debounce = r.debounce()
		default:
			r.unknown()
		}
	}
	return &t
}

func (r *reader) collect() *wire.Collect {
	if r.null() {
		return nil
	}
	var c wire.Collect
	for m := r.object("key", "max_events", "window_seconds"); r.member(&m); {
		switch r.name() {
		case "key":
			c.Key = r.key()
		case "max_events":
			c.MaxEvents = r.integer(wantEvents)
		case "window_seconds":
			c.WindowSeconds = r.number()
		case "max_bytes":
			c.MaxBytes = r.integerPtr(wantBytes)
		default:
			r.unknown()
		}
	}
	return &c
}

func (r *reader) debounce() *wire.Debounce {
	if r.null() {
		return nil
	}
	var d wire.Debounce
	for m := r.object("key", "window_seconds"); r.member(&m); {
		switch r.name() {
		case "key":
			d.Key = r.key()
		case "window_seconds":
			d.WindowSeconds = r.number()
		case "max_wait_seconds":
			d.MaxWaitSeconds = r.numberPtr()
		default:
			r.unknown()
		}
	}
	return &d
}

// key reads the name of a parameter, an expression, or the label of a function (P12).
func (r *reader) key() (k wire.Key) {
	switch r.peek() {
	case '"':
		k.Name = r.str()
	case '{':
		for m := r.object(); r.member(&m); {
			switch r.name() {
			case "function":
				k.Function = r.str()
			default:
				r.unknown()
			}
		}
	default:
		if !r.null() {
			r.mismatch(`must be the name of a parameter, "cel:" and an expression, or {"function": "label"}`)
		}
	}
	return k
}
