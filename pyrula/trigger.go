package pyrula

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pyrula/pyrula-node/flow"
)

// Collect makes one run of many events (P33): of MaxEvents events with one key, or of
// those that have come Window after the first of them. The window doesn't slide (P66).
// The run's parameters are a [Batch] (P36); events are sent with [Trigger], [Client.Trigger]
// and [Client.TriggerBatch].
//
//	MaxEvents 3   e1 ─ e2 ─ e3 → run {e1, e2, e3}, at once
//	Window 60 s   e4 ──── e5 ─────────── 60 s after e4 → run {e4, e5}
//
// Key is the name of a field of the event ("user_id", as it stands in its JSON), "cel:" and
// an expression ("cel:event.repo.name"), or a function of the event: func(E) string or
// func(E) (string, error), in all other respects like the Key of a [Limit]. An event without
// the field has the key "". The batch's key is what a Limit or a [Rate] of the workflow is
// keyed on, as "key" (P39, P74).
//
// Every event that was acknowledged is in exactly one run, in the order in which its key
// took it, also after a crash of the node. Batches that are due fire at once when the node
// is back (P71), and without a worker when one comes (P72). A workflow has at most one
// trigger (P57) and none beside a [KafkaTopic] (P40).
type Collect struct {
	Key       any
	MaxEvents int           // 1 to 10,000; 1 makes a run of every event (P68)
	Window    time.Duration // above 0, at most 366 days
	// MaxBytes makes a batch full by its size too: a batch whose events have so many bytes
	// fires. 1 to 786,432; 0 means never by its size, and then an event that would pass
	// 786,432 bytes is refused with [ErrBufferFull] (P70).
	MaxBytes int
	Label    string // names a function key. Defaults to "collect"
}

// Debounce makes one run of the events with one key, once none has come for Window (P34):
// each event starts the window again. The run's parameters are a [Batch] (P36).
//
//	Window 5 s   e1 ── e2 ─ e3 ───── 5 s after e3 → run {e1, e2, e3}
//
// A key whose events never pause never fires, unless MaxWait is set: then a batch fires at
// the latest so long after its first event (P70). A batch takes up to 10,000 events or
// 786,432 bytes; the next event is refused with [ErrBufferFull], and nothing is lost.
// Debounce never answers an event with a run (P37). See [Collect] for all the rest.
type Debounce struct {
	Key     any
	Window  time.Duration // above 0, at most 366 days
	MaxWait time.Duration // at least Window, at most 366 days; 0 means that there is none
	Label   string        // names a function key. Defaults to "debounce"
}

// Batch is what a run of a triggered workflow takes, as the In of [Define]: the key of its
// events, the events in the order in which the key took them, and how many they are (P36).
// A struct or a map of the program's own may stand in its place, as long as its JSON has
// these three fields.
type Batch[E any] struct {
	Key    string `json:"key"`
	Events []E    `json:"events"`
	Count  int    `json:"count"` // always len(Events)
}

// batchFields are the parameters of a run that is made of events.
var batchFields = []string{flow.BatchKey, "events", "count"}

func isTrigger(p Policy) bool {
	switch p.(type) {
	case Collect, Debounce:
		return true
	}
	return false
}

func (c Collect) declare(d *definition) error {
	source, err := d.eventKey(flow.TriggerCollect, c.Key, c.Label)
	if err != nil {
		return err
	}
	valid := flow.Collect{Key: source, MaxEvents: int64(c.MaxEvents), Window: flow.Span(c.Window), MaxBytes: int64(c.MaxBytes)}
	if err := valid.Validate("trigger.collect"); err != nil {
		return misconfigured(d.name, err)
	}
	d.trigger, d.triggerKey = flow.TriggerOfCollect(valid), c.Key
	return nil
}

func (b Debounce) declare(d *definition) error {
	source, err := d.eventKey(flow.TriggerDebounce, b.Key, b.Label)
	if err != nil {
		return err
	}
	valid := flow.Debounce{Key: source, Window: flow.Span(b.Window), MaxWait: flow.Span(b.MaxWait)}
	if err := valid.Validate("trigger.debounce"); err != nil {
		return misconfigured(d.name, err)
	}
	d.trigger, d.triggerKey = flow.TriggerOfDebounce(valid), b.Key
	return nil
}

// eventKey is the declared source of a trigger's key, which is one of each event. What the
// body takes must be a batch.
func (d *definition) eventKey(trigger flow.TriggerKind, key any, label string) (flow.KeySource, error) {
	if d.trigger != nil {
		return flow.KeySource{}, d.wrong("trigger", "must be declared once, a Collect or a Debounce")
	}
	event, err := d.event()
	if err != nil {
		return flow.KeySource{}, err
	}
	name := trigger.String()
	return d.keySource(keyed{"trigger." + name, name, event, "field"}, key, label)
}

// event is the type of the events that the body takes; nil when In doesn't tell.
func (d *definition) event() (reflect.Type, error) {
	fields, closed := parametersOf(d.input)
	if !closed {
		return nil, nil //nolint:nilnil // no type is known, which is no error
	}
	for _, name := range batchFields {
		if find(fields, name) == nil {
			return nil, d.wrong("trigger", fmt.Sprintf("must stand beside a body that takes a Batch, or a type with its fields %s; those of %v: %s",
				strings.Join(batchFields, ", "), d.input, namesOf(fields)))
		}
	}
	list := find(fields, "events").of
	for list.Kind() == reflect.Pointer && !encodesItself(list) {
		list = list.Elem()
	}
	switch kind := list.Kind(); {
	case kind == reflect.Interface || encodesItself(list):
		return nil, nil //nolint:nilnil // as above
	case !slices.Contains([]reflect.Kind{reflect.Slice, reflect.Array}, kind) || !objectLike(list.Elem()):
		return nil, d.wrong("trigger", fmt.Sprintf("must stand beside events that are a list of JSON objects, and %v is none", list))
	}
	return list.Elem(), nil
}
