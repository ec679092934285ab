package transport

import (
	"fmt"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// The shapes of what a body records, of signals and of schedules. See shapes.go.

var (
	wantVisit = fmt.Sprintf("must be an integer from 1 to %d", flow.MaxVisits)
	wantCost  = fmt.Sprintf("must be an integer from 0 to %d", int64(flow.MaxCostUnits))
)

const wantSeq = "must be left out: the node counts"

// stepsOf reads the body of a recording; steps its list.
func (r *reader) stepsOf() (s wire.Steps) {
	for m := r.object("fence"); r.member(&m); {
		switch r.name() {
		case "fence":
			s.Fence = r.fence()
		case "steps":
			s.Steps = r.steps()
		case "signals":
			s.Signals = r.takes()
		case "state":
			s.State = r.params()
		case "claim":
			s.Claim = r.claimPtr()
		default:
			r.unknown()
		}
	}
	return s
}

func (r *reader) steps() (all []wire.Step) {
	if r.null() {
		return nil
	}
	for l := r.listUpTo(wire.MaxSteps); r.element(&l); {
		all = append(all, r.step())
	}
	return all
}

func (r *reader) step() (s wire.Step) {
	for m := r.object("name"); r.member(&m); {
		switch r.name() {
		case "seq":
			s.Seq = r.integer(wantSeq)
		case "name":
			s.Name = r.str()
		case "visit":
			s.Visit = r.integer(wantVisit)
		case "result":
			s.Result = r.raw()
		case "error":
			s.Error = r.runErrorPtr()
		case "cost_units":
			s.CostUnits = r.integer(wantCost)
		default:
			r.unknown()
		}
	}
	return s
}

func (r *reader) runErrorPtr() *wire.RunError {
	if r.null() {
		return nil
	}
	return new(r.runError())
}

// takes reads the signals that a body takes without suspending.
func (r *reader) takes() (all []wire.SignalTake) {
	if r.null() {
		return nil
	}
	for l := r.listUpTo(wire.MaxSteps); r.element(&l); {
		all = append(all, r.take())
	}
	return all
}

func (r *reader) take() (t wire.SignalTake) {
	for m := r.object("name", "visit"); r.member(&m); {
		switch r.name() {
		case "name":
			t.Name = r.str()
		case "visit":
			t.Visit = r.integer(wantVisit)
		default:
			r.unknown()
		}
	}
	return t
}

func (r *reader) children() (c wire.Children) {
	for m := r.object("fence", "runs"); r.member(&m); {
		switch r.name() {
		case "fence":
			c.Fence = r.fence()
		case "kind":
			c.Kind = r.str()
		case "step":
			c.Step = r.str()
		case "visit":
			c.Visit = r.integer(wantVisit)
		case "runs":
			for l := r.list(wire.MaxChildren); r.element(&l); {
				c.Runs = append(c.Runs, r.childRun())
			}
		case "claim":
			c.Claim = r.claimPtr()
		default:
			r.unknown()
		}
	}
	return c
}

func (r *reader) childRun() (c wire.ChildRun) {
	for m := r.object("workflow"); r.member(&m); {
		switch r.name() {
		case "workflow":
			c.Workflow = r.str()
		case "params":
			c.Params = r.params()
		case "idempotency_key":
			c.IdempotencyKey = r.strPtr()
		case "stamp":
			c.Stamp = r.stamp()
		default:
			r.unknown()
		}
	}
	return c
}

func (r *reader) retry() (t wire.Retry) {
	for m := r.object(); r.member(&m); {
		switch r.name() {
		case "request_id":
			t.RequestID = r.str()
		default:
			r.unknown()
		}
	}
	return t
}

func (r *reader) resolve() (v wire.Resolve) {
	for m := r.object("worker", "runs"); r.member(&m); {
		switch r.name() {
		case "worker":
			v.Worker = r.str()
		case "runs":
			for l := r.list(wire.MaxBatch); r.element(&l); {
				v.Runs = append(v.Runs, r.resolution())
			}
		default:
			r.unknown()
		}
	}
	return v
}

func (r *reader) resolution() (v wire.Resolution) {
	for m := r.object("run_id", "gates_hash"); r.member(&m); {
		switch r.name() {
		case "run_id":
			v.RunID = r.str()
		case "version":
			v.Version = r.str()
		case "gates_hash":
			v.GatesHash = r.str()
		case "keys":
			v.Keys = r.stampKeys()
		case "problem":
			v.Problem = r.str()
		default:
			r.unknown()
		}
	}
	return v
}

// schedule reads a schedule whose name stands in the path.
func (r *reader) schedule() wire.Schedule { return r.scheduleWith("workflow") }

func (r *reader) namedSchedule() wire.Schedule { return r.scheduleWith("name", "workflow") }

func (r *reader) scheduleWith(required ...string) (s wire.Schedule) {
	for m := r.object(required...); r.member(&m); {
		switch r.name() {
		case "name":
			s.Name = r.str()
		case "workflow":
			s.Workflow = r.str()
		case "params":
			s.Params = r.params()
		case "cron":
			s.Cron = r.str()
		case "time_zone":
			s.TimeZone = r.str()
		case "every_seconds":
			s.EverySeconds = r.numberPtr()
		case "start_ms":
			s.StartMS = r.integerPtr(wantMoment)
		case "at_ms":
			s.AtMS = r.integerPtr(wantMoment)
		case "catch_up":
			s.CatchUp = r.str()
		case "paused":
			s.Paused = r.boolean()
		default:
			r.unknown()
		}
	}
	return s
}
