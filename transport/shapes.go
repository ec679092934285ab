package transport

import (
	"encoding/json"
	"fmt"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// One method for each shape of a request reads it; flow/wire checks it. A shape
// that may be missing is read by a function that answers nil for null.

// What an integer must be, as the check of its bounds says it too.
var (
	wantCredit = fmt.Sprintf("must be an integer from 0 to %d", wire.MaxBatch)
	wantWait   = fmt.Sprintf("must be an integer from 0 to %d", wire.MaxWaitMillis)
)

const wantAt = "must be Unix milliseconds, an integer of at least 0"

func (r *reader) submit() wire.Submit { return r.submitWith() }

// submitWith reads a submit with what its path requires of it.
func (r *reader) submitWith(required ...string) (s wire.Submit) {
	for m := r.object(required...); r.member(&m); {
		switch r.name() {
		case "workflow":
			s.Workflow = r.str()
		case "params":
			s.Params = r.params()
		case "idempotency_key":
			s.IdempotencyKey = r.strPtr()
		case "request_id":
			s.RequestID = r.str()
		case "trigger":
			s.Trigger = r.str()
		case "budget":
			s.Budget = r.raw()
		case "stamp":
			s.Stamp = r.stamp()
		default:
			r.unknown()
		}
	}
	return s
}

// params reads the parameters of a run: a JSON object.
func (r *reader) params() json.RawMessage {
	if c := r.peek(); c != '{' && c != 'n' {
		r.mismatch("must be a JSON object")
		return nil
	}
	return r.raw()
}

func (r *reader) stamp() *wire.Stamp {
	if r.null() {
		return nil
	}
	var s wire.Stamp
	for m := r.object(); r.member(&m); {
		switch r.name() {
		case "version":
			s.Version = r.str()
		case "keys":
			s.Keys = r.stampKeys()
		default:
			r.unknown()
		}
	}
	return &s
}

func (r *reader) stampKeys() *wire.StampKeys {
	if r.null() {
		return nil
	}
	var k wire.StampKeys
	for m := r.object(); r.member(&m); {
		switch r.name() {
		case "limit":
			k.Limit = r.strPtr()
		case "rate":
			k.Rate = r.strPtr()
		default:
			r.unknown()
		}
	}
	return &k
}

func (r *reader) batch() (b wire.Batch) {
	for m := r.object("runs"); r.member(&m); {
		switch r.name() {
		case "runs":
			for l := r.list(wire.MaxBatch); r.element(&l); {
				b.Runs = append(b.Runs, r.submitWith("workflow"))
			}
		default:
			r.unknown()
		}
	}
	return b
}

func (r *reader) claim() (c wire.Claim) {
	for m := r.object("worker", "workflows", "credit"); r.member(&m); {
		switch r.name() {
		case "worker":
			c.Worker = r.str()
		case "workflows":
			for l := r.list(wire.MaxWorkflows); r.element(&l); {
				c.Workflows = append(c.Workflows, r.claimWorkflow())
			}
		case "credit":
			c.Credit = int(r.integer(wantCredit))
		case "wait_ms":
			c.WaitMS = r.integer(wantWait)
		default:
			r.unknown()
		}
	}
	return c
}

func (r *reader) claimPtr() *wire.Claim {
	if r.null() {
		return nil
	}
	return new(r.claim())
}

func (r *reader) claimWorkflow() (w wire.ClaimWorkflow) {
	for m := r.object("name"); r.member(&m); {
		switch r.name() {
		case "name":
			w.Name = r.str()
		case "version":
			w.Version = r.str()
		case "gates_hash":
			w.GatesHash = r.str()
		default:
			r.unknown()
		}
	}
	return w
}

func (r *reader) heartbeat() (h wire.Heartbeat) {
	for m := r.object("worker", "runs"); r.member(&m); {
		switch r.name() {
		case "worker":
			h.Worker = r.str()
		case "runs":
			for l := r.list(wire.MaxBatch); r.element(&l); {
				h.Runs = append(h.Runs, r.beat())
			}
		default:
			r.unknown()
		}
	}
	return h
}

func (r *reader) beat() (b wire.Beat) {
	for m := r.object("run_id", "fence"); r.member(&m); {
		switch r.name() {
		case "run_id":
			b.RunID = r.str()
		case "fence":
			b.Fence = r.fence()
		default:
			r.unknown()
		}
	}
	return b
}

func (r *reader) complete() (c wire.Complete) {
	for m := r.object("fence"); r.member(&m); {
		switch r.name() {
		case "fence":
			c.Fence = r.fence()
		case "result":
			c.Result = r.raw()
		case "claim":
			c.Claim = r.claimPtr()
		default:
			r.unknown()
		}
	}
	return c
}

func (r *reader) completeBatch() (b wire.CompleteBatch) {
	for m := r.object("runs"); r.member(&m); {
		switch r.name() {
		case "runs":
			for l := r.list(wire.MaxBatch); r.element(&l); {
				b.Runs = append(b.Runs, r.completion())
			}
		case "claim":
			b.Claim = r.claimPtr()
		default:
			r.unknown()
		}
	}
	return b
}

func (r *reader) completion() (c wire.Completion) {
	for m := r.object("run_id", "fence"); r.member(&m); {
		switch r.name() {
		case "run_id":
			c.RunID = r.str()
		case "fence":
			c.Fence = r.fence()
		case "result":
			c.Result = r.raw()
		default:
			r.unknown()
		}
	}
	return c
}

func (r *reader) fail() (f wire.Fail) {
	for m := r.object("fence", "error.type"); r.member(&m); {
		switch r.name() {
		case "fence":
			f.Fence = r.fence()
		case "error":
			f.Error = r.runError()
		case "retryable":
			f.Retryable = r.boolean()
		case "claim":
			f.Claim = r.claimPtr()
		default:
			r.unknown()
		}
	}
	return f
}

func (r *reader) runError() (e wire.RunError) {
	if r.null() {
		return e
	}
	for m := r.object("type"); r.member(&m); {
		switch r.name() {
		case "type":
			e.Type = r.str()
		case "message":
			e.Message = r.str()
		default:
			r.unknown()
		}
	}
	return e
}

func (r *reader) suspend() (s wire.Suspend) {
	for m := r.object("fence"); r.member(&m); {
		switch r.name() {
		case "fence":
			s.Fence = r.fence()
		case "until":
			s.Until = r.until()
		case "step":
			s.Step = r.str()
		case "visit":
			s.Visit = r.integer(wantVisit)
		case "claim":
			s.Claim = r.claimPtr()
		default:
			r.unknown()
		}
	}
	return s
}

func (r *reader) until() (u wire.Until) {
	if r.null() {
		return u
	}
	for m := r.object(); r.member(&m); {
		switch r.name() {
		case "at_ms":
			u.AtMS = r.integerPtr(wantAt)
		case "signal":
			u.Signal = r.str()
		case "timeout_seconds":
			u.TimeoutSeconds = r.numberPtr()
		case "runs":
			u.Runs = r.strings(wire.MaxAwaited)
		default:
			r.unknown()
		}
	}
	return u
}

// strings reads a list of strings, nil for null and never nil otherwise.
func (r *reader) strings(most int) []string {
	if r.null() {
		return nil
	}
	all := []string{}
	for l := r.list(most); r.element(&l); {
		all = append(all, r.str())
	}
	return all
}

func (r *reader) stop() (s wire.Stop) {
	for m := r.object(); r.member(&m); {
		switch r.name() {
		case "reason":
			s.Reason = r.str()
		default:
			r.unknown()
		}
	}
	return s
}
