package flow

import (
	"bytes"
	"strconv"
)

// Bounds of events and of the batches that they are gathered in (R8).
const (
	MaxBatchEvents  = 10_000    // events of one batch
	MaxBatchBytes   = 768 << 10 // of its events and their ids
	MaxEventIDBytes = 512       // the id of an event; of a CloudEvent: source and id
	MaxEventBytes   = MaxBatchBytes - MaxEventIDBytes
	MaxWindow       = 366 * Day // a window, a quiet time or a longest wait
)

// TriggerKind says how a trigger makes runs out of events.
type TriggerKind uint8

// The triggers.
const (
	TriggerCollect TriggerKind = iota + 1
	TriggerDebounce
)

// String is the trigger's name on the wire.
func (k TriggerKind) String() string {
	switch k {
	case TriggerCollect:
		return "collect"
	case TriggerDebounce:
		return "debounce"
	}
	return "trigger(" + strconv.Itoa(int(k)) + ")"
}

// Collect is the policy "one run for MaxEvents events of a key, or for what has come
// Window after the first of them" (P33).
type Collect struct {
	Key       KeySource
	MaxEvents int64 // 1 to MaxBatchEvents
	Window    Span  // above 0, to MaxWindow; it doesn't slide (P66)
	// MaxBytes makes a batch full by its size too; 1 to MaxBatchBytes. 0 means that it is
	// never: then an event that would pass MaxBatchBytes is refused.
	MaxBytes int64
}

// Debounce is the policy "one run for the events of a key, once none has come for
// Window" (P34).
type Debounce struct {
	Key    KeySource
	Window Span // above 0, to MaxWindow; each event starts it again
	// MaxWait is the longest that the first event waits, at least Window; 0 means for as
	// long as events come (P70).
	MaxWait Span
}

// Trigger is a declared trigger: integers only, so that it can be state. A Debounce
// uses no MaxEvents and no MaxBytes, a Collect no MaxWait.
type Trigger struct {
	Kind      TriggerKind
	Key       KeySource
	MaxEvents int64
	MaxBytes  int64
	Window    Span
	MaxWait   Span
}

// TriggerOfCollect and TriggerOfDebounce turn a valid policy into its trigger.
func TriggerOfCollect(c Collect) *Trigger {
	return &Trigger{Kind: TriggerCollect, Key: c.Key, MaxEvents: c.MaxEvents, MaxBytes: c.MaxBytes, Window: c.Window}
}

// TriggerOfDebounce turns a valid policy into its trigger.
func TriggerOfDebounce(d Debounce) *Trigger {
	return &Trigger{Kind: TriggerDebounce, Key: d.Key, Window: d.Window, MaxWait: d.MaxWait}
}

// Validate reports the first fault as a *FieldError under field (P57).
func (c Collect) Validate(field string) error {
	if err := c.Key.validate(field + ".key"); err != nil {
		return err
	}
	if c.MaxEvents < 1 || c.MaxEvents > MaxBatchEvents {
		return misconfigured(field+".max_events", "must be an integer from 1 to "+strconv.Itoa(MaxBatchEvents))
	}
	if c.MaxBytes < 0 || c.MaxBytes > MaxBatchBytes {
		return misconfigured(field+".max_bytes", "must be an integer from 1 to "+strconv.Itoa(MaxBatchBytes)+", or be left out")
	}
	return checkWindow(field+".window_seconds", c.Window)
}

// Validate reports the first fault as a *FieldError under field (P57).
func (d Debounce) Validate(field string) error {
	if err := d.Key.validate(field + ".key"); err != nil {
		return err
	}
	if err := checkWindow(field+".window_seconds", d.Window); err != nil {
		return err
	}
	if d.MaxWait != 0 && (d.MaxWait < d.Window || d.MaxWait > MaxWindow) {
		return misconfigured(field+".max_wait_seconds", "must be 0 (no longest wait), or from window_seconds to 31622400")
	}
	return nil
}

func checkWindow(field string, window Span) error {
	if window <= 0 || window > MaxWindow {
		return misconfigured(field, "must be a number of seconds above 0, at most 31622400")
	}
	return nil
}

// BatchKey is the name of the parameter that holds a batch's key, on which the gates of
// a triggered workflow are keyed (P74).
const BatchKey = "key"

// CheckTriggered refuses a gate that a triggered workflow can't have: one that isn't
// keyed on the batch's key (P74). Error: *FieldError of ErrConfiguration.
func CheckTriggered(rules []Rule) error {
	for i := range rules {
		if r := &rules[i]; r.Key.Text() != BatchKey {
			return misconfigured(r.Kind.String()+".key",
				`must be "key" beside a trigger: the gates of a triggered workflow are those of the batch's key`)
		}
	}
	return nil
}

// EventKey is the key of an event: given when a caller resolved it, which it must if the
// key is a function (P20) and mustn't otherwise. Error: *FieldError.
func (t *Trigger) EventKey(event []byte, given *string, eval Evaluate) (string, error) {
	asked := keyAsked{field: "key", owner: "trigger", what: "event", policy: "trigger." + t.Kind.String() + ".key"}
	return t.Key.resolve(asked, event, given, eval)
}

// StampBatch is the stamp of a run made of a batch with the key (P73): the gates are
// keyed on it (P74).
func (d *Definition) StampBatch(key string) *Stamp {
	s := &Stamp{Version: d.Version, VersionRank: d.Rank()}
	for i := range d.Rules {
		s.Gates = append(s.Gates, d.Rules[i].gate(key))
	}
	return s
}

// BatchParams are the parameters of a run made of a batch (P36): key, events and count.
// events are its events in order, with commas between.
func BatchParams(key string, events []byte, count int64) []byte {
	var b bytes.Buffer
	b.Grow(len(`{"key":"","events":[],"count":00000}`) + len(key) + len(events))
	b.WriteString(`{"key":`)
	must(appendText(&b, key))
	b.WriteString(`,"events":[`)
	b.Write(events)
	b.WriteString(`],"count":`)
	b.WriteString(strconv.FormatInt(count, 10))
	b.WriteByte('}')
	return b.Bytes()
}
