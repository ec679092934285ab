package pyrula

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
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

	triggered  bool          // a trigger stands among the policies
	trigger    *flow.Trigger // nil until it is declared
	triggerKey any           // as the user wrote it

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
	d.triggered = slices.ContainsFunc(policies, isTrigger)
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

// checkBound refuses a gate or a trigger beside a Kafka topic, in whichever order they
// were declared (P40).
func (d *definition) checkBound() error {
	switch {
	case d.topic != "" && d.limit != nil:
		return misconfigured(d.name, flow.CheckUnbound("limit"))
	case d.topic != "" && d.rate != nil:
		return misconfigured(d.name, flow.CheckUnbound("rate"))
	case d.topic != "" && d.trigger != nil:
		return misconfigured(d.name, flow.CheckUnbound("trigger"))
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

// keyed is what the key of a policy is computed of.
type keyed struct {
	policy string       // as the wire names it: "limit", "trigger.collect"
	label  string       // of a function that has none of its own
	of     reflect.Type // nil when it isn't known
	what   string       // of its fields
}

// gateKey is the declared source of a gate's key, which is one of the parameters. Beside a
// trigger it is the batch's key, whichever of the two is declared first (P74).
func (d *definition) gateKey(gate flow.GateKind, key any, label string) (flow.KeySource, error) {
	name := gate.String()
	if d.triggered && (key != any(flow.BatchKey) || label != "") {
		other := []flow.Rule{{Kind: gate, Key: flow.KeySource{Function: name}}}
		return flow.KeySource{}, misconfigured(d.name, flow.CheckTriggered(other))
	}
	return d.keySource(keyed{name, name, d.input, "parameter"}, key, label)
}

// keySource is the declared source of a policy's key. Whether a function takes what it
// must is checked here too, since reflection knows it.
func (d *definition) keySource(k keyed, key any, label string) (flow.KeySource, error) {
	name, isName := key.(string)
	switch {
	case isName && label != "":
		return flow.KeySource{}, d.wrong(k.policy+".label", "belongs to a function, and the key is "+strconv.Quote(name))
	case isName:
		return d.parameter(k, name)
	case k.of == nil:
		return flow.KeySource{}, d.wrong(k.policy+".key", fmt.Sprintf(
			"must be the name of a %s, or \"cel:\" and an expression, not %T: what a function would take isn't known", k.what, key))
	case key == nil || !keyFunction(k.of, key):
		return flow.KeySource{}, d.wrong(k.policy+".key", fmt.Sprintf(
			"must be the name of a %[1]s, \"cel:\" and an expression, a func(%[2]v) string or a func(%[2]v) (string, error), not %[3]T", k.what, k.of, key))
	}
	return flow.KeySource{Function: cmp.Or(label, k.label)}, nil
}

// parameter is the source of a key that is a field by name, or an expression, which is the
// node's to check. A name that no field has would give every run the key "", and so one
// queue for all, which nobody means.
func (d *definition) parameter(k keyed, name string) (flow.KeySource, error) {
	source := flow.KeySource{Name: name}
	if err := (flow.Limit{Key: source, Max: 1}).Validate(k.policy); err != nil {
		return source, misconfigured(d.name, err) // no field could have the name
	}
	if _, isExpression := source.Expression(); isExpression || k.of == nil {
		return source, nil
	}
	fields, closed := parametersOf(k.of)
	if !closed || find(fields, name) != nil {
		return source, nil
	}
	return source, &ConfigurationError{Workflow: d.name, Field: k.policy + ".key", Want: fmt.Sprintf(
		"%q is no %s of %v: %s", name, k.what, k.of, namesOf(fields))}
}

// functionKey says that a key is resolved where runs are submitted or events sent.
func (d *definition) functionKey() bool {
	return d.limit != nil && d.limit.Key.IsFunction() || d.rate != nil && d.rate.Key.IsFunction() ||
		d.trigger != nil && d.trigger.Key.IsFunction()
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
	if d.trigger != nil {
		w.Trigger = wire.TriggerOf(d.trigger)
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
