package pyrula

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// sleepName is the name under which sleeps stand in a history.
const sleepName = "sleep"

// Sleep suspends the run for a span of time: its slot is free meanwhile, no worker is
// needed, and restarts change nothing (P54). The body's goroutine ends here, its deferred
// calls run, and when the time is over the body is run again from its start, with what it
// has recorded. The span is counted by the worker's clock when Sleep is called for the
// first time.
//
// A span that isn't positive suspends too, for no time: whether time.Until is positive
// depends on the clock, and which operations a body calls must not.
//
// Error: the context's cause when the body should stop.
func (r *Run) Sleep(span time.Duration) error { return r.SleepUntil(time.Now().Add(span)) }

// SleepUntil is [Run.Sleep] until a moment, in whole milliseconds and never early. One
// that has passed suspends for no time.
func (r *Run) SleepUntil(at time.Time) error {
	id, known, err := r.ops.begin(opSleep, sleepName)
	if err != nil {
		return err
	}
	defer r.ops.end()
	if known != nil {
		return nil
	}
	ms := at.UnixMilli()
	if at.Nanosecond()%int(time.Millisecond) != 0 {
		ms++ // never early
	}
	r.ops.suspend(wire.Suspend{Until: wire.Until{AtMS: new(max(ms, 0))}, Step: sleepName, Visit: id.visit})
	return nil
}

// Signal is a signal that a wait got.
type Signal struct {
	Name    string
	Payload json.RawMessage // any JSON; "null" when it was sent without
}

// Decode reads the payload into v.
func (s Signal) Decode(v any) error {
	if err := json.Unmarshal(s.Payload, v); err != nil {
		return fmt.Errorf("decode the payload of signal %q: %w", s.Name, err)
	}
	return nil
}

// WaitSignal waits until a signal of a name comes, and suspends the run for that: see
// [Run.Sleep]. Signals are kept from the moment at which the run was submitted, and each
// wait gets the oldest that none has got. With a timeout above zero the wait ends with
// [ErrSignalTimeout] when none comes in time; zero waits for ever, and less than zero not
// at all: it asks for a signal that is kept already. A timeout of more than 100 years is
// one of 100 years.
//
// Errors: [ErrSignalTimeout], and the context's cause when the body should stop.
func (r *Run) WaitSignal(name string, timeout time.Duration) (Signal, error) {
	none := Signal{Name: name}
	if !flow.ValidName(name) {
		return none, Permanent(fmt.Errorf("%w: a signal's name must be %s", ErrInvalid, flow.NameRule))
	}
	id, known, err := r.ops.begin(opSignal, name)
	if err != nil {
		return none, err
	}
	defer r.ops.end()
	if known != nil {
		return signalOf(known.wait)
	}
	got, err := r.ops.take(id)
	if err != nil {
		return none, fmt.Errorf("take %s: %w", id, err)
	}
	if got != nil {
		return signalOf(got)
	}
	until := wire.Until{Signal: name}
	switch {
	case timeout > 0:
		until.TimeoutSeconds = new(min(timeout.Seconds(), wire.Seconds(flow.MaxTimeout)))
	case timeout < 0:
		until.TimeoutSeconds = new(0.0)
	}
	r.ops.suspend(wire.Suspend{Until: until, Visit: id.visit})
	return none, nil
}

// WaitSignal is [Run.WaitSignal] with the payload decoded into T.
func WaitSignal[T any](r *Run, name string, timeout time.Duration) (T, error) {
	var out T
	s, err := r.WaitSignal(name, timeout)
	if err != nil {
		return out, err
	}
	return out, s.Decode(&out)
}

func signalOf(w *wire.WaitEnd) (Signal, error) {
	if w.TimedOut {
		return Signal{Name: w.Name}, ErrSignalTimeout
	}
	return Signal{Name: w.Name, Payload: w.Payload}, nil
}

// take gives the wait a signal that is kept already, without a suspension; nil when the
// grant had none.
func (o *operations) take(id opID) (*wire.WaitEnd, error) {
	i := slices.Index(o.kept, id.name)
	if i < 0 {
		return nil, nil
	}
	o.kept = slices.Delete(o.kept, i, i+1)
	done, err := o.record(wire.Steps{Signals: []wire.SignalTake{{Name: id.name, Visit: id.visit}}})
	if err != nil || len(done.Waits) == 0 {
		return nil, err
	}
	return &done.Waits[0], nil
}
