package pyrula

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// Definition is a workflow with its types taken off, so that workflows of different
// types stand in one list. Every *[Workflow] is one; only this package makes them.
type Definition interface {
	definition() *definition
}

// definition is what a worker and a client know of a workflow. It is never changed
// once [Define] has returned.
type definition struct {
	name     string
	version  string
	limit    *flow.Limit
	rate     *flow.Rate
	limitKey any // as the user wrote it
	rateKey  any
	attempts *int64
	backoff  *float64
	lease    time.Duration
	leaseSet bool
	topic    string // of Kafka; empty for a workflow that isn't bound to one
	err      error  // the first fault; returned by whatever uses the workflow

	input reflect.Type // In of Define
	// prepare decodes params and returns the call of the body with them.
	prepare func(params json.RawMessage) (call, error)
	// keys computes the function keys of encoded params.
	keys func(params json.RawMessage) (*wire.StampKeys, error)
}

// call runs a body with its parameters and returns the encoded result.
type call func(r *Run) (json.RawMessage, error)

// wrong is a fault of the definition.
func (d *definition) wrong(field, want string) error {
	return &ConfigurationError{Workflow: d.name, Field: field, Want: want}
}

// apply checks the name and declares the policies, up to the first fault.
func (d *definition) apply(policies []Policy) error {
	if err := flow.CheckWorkflowName(d.name); err != nil {
		return misconfigured(d.name, err)
	}
	if !objectLike(d.input) {
		return d.wrong("params", fmt.Sprintf("must be a JSON object, and %v is none", d.input))
	}
	for i, p := range policies {
		if p == nil {
			return d.wrong(fmt.Sprintf("policies[%d]", i), "must not be nil")
		}
		if err := p.declare(d); err != nil {
			return err
		}
	}
	return d.checkBound()
}

// checkBound refuses a gate beside a Kafka topic, in whichever order they were
// declared (P40).
func (d *definition) checkBound() error {
	switch {
	case d.topic != "" && d.limit != nil:
		return misconfigured(d.name, flow.CheckUnbound("limit"))
	case d.topic != "" && d.rate != nil:
		return misconfigured(d.name, flow.CheckUnbound("rate"))
	}
	return nil
}

// TopicOf is the name of a workflow and the Kafka topic that it is bound to by
// [KafkaTopic], for those who consume it. Error: [ErrConfiguration] when the
// declaration is wrong, or the workflow isn't bound to a topic.
func TopicOf(workflow Definition) (name, topic string, err error) {
	d := workflow.definition()
	if d.err != nil {
		return "", "", d.err
	}
	if d.topic == "" {
		return "", "", d.wrong("kafka", "must be declared: bind the workflow to a topic with KafkaTopic")
	}
	return d.name, d.topic, nil
}

// keySource is the declared source of a policy's key. Whether a function is one of
// In is checked here too, since reflection knows it.
func (d *definition) keySource(gate string, key any, label string) (flow.KeySource, error) {
	name, isName := key.(string)
	switch {
	case isName && label != "":
		return flow.KeySource{}, d.wrong(gate+".label", "belongs to a function, and the key is a parameter name")
	case isName:
		return d.parameter(gate, name)
	case key == nil || !keyFunction(d.input, key):
		return flow.KeySource{}, d.wrong(gate+".key", fmt.Sprintf(
			"must be the name of a parameter, a func(%[1]v) string or a func(%[1]v) (string, error), not %[2]T", d.input, key))
	case label == "":
		label = gate
	}
	return flow.KeySource{Function: label}, nil
}

// parameter is the source of a key that is a parameter by name. A name that no field
// of In has would give every run the key "", and so one queue for all, which nobody
// means.
func (d *definition) parameter(gate, name string) (flow.KeySource, error) {
	source := flow.KeySource{Name: name}
	if err := (flow.Limit{Key: source, Max: 1}).Validate(gate); err != nil {
		return source, misconfigured(d.name, err) // no parameter could have the name
	}
	fields, closed := parametersOf(d.input)
	if !closed || slices.Contains(fields, name) {
		return source, nil
	}
	return source, &ConfigurationError{Workflow: d.name, Field: gate + ".key", Want: fmt.Sprintf(
		"%q is no parameter of %v: %s", name, d.input, cmp.Or(strings.Join(fields, ", "), "it has none"))}
}

// functionKey says that a key is resolved where runs are submitted.
func (d *definition) functionKey() bool {
	return d.limit != nil && d.limit.Key.IsFunction() || d.rate != nil && d.rate.Key.IsFunction()
}

// declaration is the definition on the wire.
func (d *definition) declaration() wire.Declaration {
	w := wire.Declaration{Version: d.version, MaxAttempts: d.attempts, RetryBackoffSeconds: d.backoff}
	if d.leaseSet {
		w.LeaseSeconds = new(d.lease.Seconds())
	}
	if d.topic != "" {
		w.Kafka = kafkaOf(d.topic)
	}
	if d.limit != nil {
		w.Limit = &wire.Limit{Key: wire.KeyOf(d.limit.Key), Max: d.limit.Max}
	}
	if d.rate != nil {
		w.Rate = &wire.Rate{Key: wire.KeyOf(d.rate.Key), PerSecond: d.rate.PerSecond}
		if d.rate.Burst > 0 {
			w.Rate.Burst = new(d.rate.Burst)
		}
	}
	return w
}

// kafkaOf is the binding to a topic on the wire.
func kafkaOf(topic string) json.RawMessage {
	raw, err := json.Marshal(wire.Kafka{Topic: topic})
	if err != nil {
		panic("pyrula: a string is not JSON: " + err.Error())
	}
	return raw
}

// objectLike says whether values of a type may encode as a JSON object. What only
// its own MarshalJSON knows passes; the submit looks again.
func objectLike(t reflect.Type) bool {
	if t.Implements(reflect.TypeFor[json.Marshaler]()) {
		return true
	}
	switch t.Kind() {
	case reflect.Pointer:
		return objectLike(t.Elem())
	case reflect.Struct, reflect.Map, reflect.Interface:
		return true
	default:
		return false
	}
}
