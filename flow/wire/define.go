package wire

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/tidwall/gjson"

	"github.com/pyrula/pyrula-node/flow"
)

// Definition checks a declaration of the workflow name and turns it into the
// integers that are kept (P57). Seen and At are the registry's to fill in. Error:
// *flow.FieldError of flow.ErrConfiguration that names the first bad field.
func (d *Declaration) Definition(name string) (*flow.Definition, error) {
	if err := flow.CheckWorkflowName(name); err != nil {
		return nil, err
	}
	def, err := d.definition()
	if err != nil {
		return nil, err
	}
	def.Workflow = name
	def.Seal()
	return def, nil
}

// Check refuses a declaration out of range, whatever its workflow is called (P57).
// Error: *flow.FieldError of flow.ErrConfiguration.
func (d *Declaration) Check() error {
	_, err := d.definition()
	return err
}

func (d *Declaration) definition() (*flow.Definition, error) {
	if d.Version != "" && !flow.ValidName(d.Version) {
		return nil, refuse("version", "must be empty or "+flow.NameRule)
	}
	topic, err := d.topic()
	if err != nil {
		return nil, err
	}
	if present(d.Budget) {
		return nil, refuse("budget", "must be left out: it is not served by this version")
	}
	def := &flow.Definition{Version: d.Version, Attempts: flow.DefaultAttempts, Topic: topic}
	if err := d.rules(def); err != nil {
		return nil, err
	}
	if err := d.trigger(def); err != nil {
		return nil, err
	}
	if d.MaxAttempts != nil {
		def.Attempts = *d.MaxAttempts
	}
	if def.Attempts < 1 || def.Attempts > flow.MaxAttempts {
		return nil, refuse("max_attempts", fmt.Sprintf("must be an integer from 1 to %d", flow.MaxAttempts))
	}
	if def.Backoff, err = span("retry_backoff_seconds", d.RetryBackoffSeconds, bounds{0, flow.MaxBackoff, flow.DefaultBackoff}); err != nil {
		return nil, err
	}
	if def.Lease, err = span("lease_seconds", d.LeaseSeconds, bounds{flow.MinLease, flow.MaxLease, flow.DefaultLease}); err != nil {
		return nil, err
	}
	return def, nil
}

// topic is the Kafka topic that the workflow is bound to, or empty. Whoever is bound
// declares no gate and no trigger (P40).
func (d *Declaration) topic() (string, error) {
	if !present(d.Kafka) {
		return "", nil
	}
	for _, beside := range []struct {
		policy   string
		declared bool
	}{{"limit", d.Limit != nil}, {"rate", d.Rate != nil}, {"trigger", d.Trigger != nil}} {
		if beside.declared {
			return "", flow.CheckUnbound(beside.policy)
		}
	}
	k, err := readKafka(d.Kafka)
	if err != nil {
		return "", err
	}
	return k.Topic, flow.CheckTopic("kafka.topic", k.Topic)
}

// readKafka reads {"topic": "..."}, as strictly as the rest of a declaration is read.
func readKafka(raw json.RawMessage) (k Kafka, err error) {
	all := gjson.ParseBytes(raw)
	if !json.Valid(raw) || !all.IsObject() {
		return k, refuse("kafka", `must be {"topic": "..."}`)
	}
	seen := false
	all.ForEach(func(name, value gjson.Result) bool {
		switch {
		case name.String() != "topic":
			err = refuse("kafka", `must be {"topic": "..."}, with no other field`)
		case seen:
			err = refuse("kafka.topic", "must stand there once")
		case value.Type != gjson.String:
			err = refuse("kafka.topic", "must be a string")
		}
		k.Topic, seen = value.String(), true
		return err == nil
	})
	return k, err
}

func (d *Declaration) rules(def *flow.Definition) error {
	if d.Limit != nil {
		l := flow.Limit{Key: d.Limit.Key.Source(), Max: d.Limit.Max}
		if err := l.Validate("limit"); err != nil {
			return err
		}
		def.Rules = append(def.Rules, flow.RuleOfLimit(l))
	}
	if d.Rate != nil {
		r := flow.Rate{Key: d.Rate.Key.Source(), PerSecond: d.Rate.PerSecond}
		if d.Rate.Burst != nil {
			if r.Burst = *d.Rate.Burst; r.Burst < 1 {
				return refuse("rate.burst", fmt.Sprintf("must be an integer from 1 to %d", flow.MaxBurst))
			}
		}
		if err := r.Validate("rate"); err != nil {
			return err
		}
		def.Rules = append(def.Rules, flow.RuleOfRate(r))
	}
	return nil
}

// trigger fills in what makes runs of events, and what that asks of the gates (P74).
func (d *Declaration) trigger(def *flow.Definition) error {
	t := d.Trigger
	switch {
	case t == nil:
		return nil
	case (t.Collect == nil) == (t.Debounce == nil):
		return refuse("trigger", "must hold one of collect and debounce")
	}
	var err error
	if t.Collect != nil {
		def.Trigger, err = t.Collect.policy()
	} else {
		def.Trigger, err = t.Debounce.policy()
	}
	if err != nil {
		return err
	}
	return flow.CheckTriggered(def.Rules)
}

func (c *Collect) policy() (*flow.Trigger, error) {
	p := flow.Collect{Key: c.Key.Source(), MaxEvents: c.MaxEvents, Window: spanOf(c.WindowSeconds)}
	if c.MaxBytes != nil {
		if p.MaxBytes = *c.MaxBytes; p.MaxBytes == 0 {
			p.MaxBytes = -1 // what means "never" is said by leaving it out
		}
	}
	return flow.TriggerOfCollect(p), p.Validate("trigger.collect")
}

func (d *Debounce) policy() (*flow.Trigger, error) {
	p := flow.Debounce{Key: d.Key.Source(), Window: spanOf(d.WindowSeconds)}
	if s := d.MaxWaitSeconds; s != nil && *s != 0 {
		if p.MaxWait = spanOf(*s); p.MaxWait == 0 {
			p.MaxWait = -1
		}
	}
	return flow.TriggerOfDebounce(p), p.Validate("trigger.debounce")
}

// spanOf is a number of seconds as a span, and -1 for what is none.
func spanOf(seconds float64) flow.Span {
	ns := math.Round(seconds * float64(flow.Second))
	if !(ns >= 0 && ns <= math.MaxInt64/2) {
		return -1
	}
	return flow.Span(ns)
}

type bounds struct{ least, most, byDefault flow.Span }

func span(field string, seconds *float64, b bounds) (flow.Span, error) {
	if seconds == nil {
		return b.byDefault, nil
	}
	given := spanOf(*seconds)
	if given < b.least || given > b.most {
		return 0, refuse(field, fmt.Sprintf("must be a number of seconds from %g to %g",
			Seconds(b.least), Seconds(b.most)))
	}
	return given, nil
}

// Seconds is a span as the wire carries it.
func Seconds(s flow.Span) float64 { return float64(s) / float64(flow.Second) }

func refuse(field, want string) error {
	return &flow.FieldError{Kind: flow.ErrConfiguration, Field: field, Want: want}
}

// PoliciesOf are the declared gates of a definition, read back.
func PoliciesOf(def *flow.Definition) (l *Limit, r *Rate) {
	for _, rule := range def.Rules {
		switch rule.Kind {
		case flow.GateLimit:
			l = &Limit{Key: KeyOf(rule.Key), Max: rule.Max}
		case flow.GateRate:
			r = &Rate{Key: KeyOf(rule.Key), PerSecond: flow.PerSecond(rule.Interval), Burst: &rule.Burst}
		}
	}
	return l, r
}

// TriggerOf is a declared trigger, read back; nil without one.
func TriggerOf(t *flow.Trigger) *Trigger {
	if t == nil {
		return nil
	}
	if t.Kind == flow.TriggerDebounce {
		wait := Seconds(t.MaxWait)
		return &Trigger{Debounce: &Debounce{Key: KeyOf(t.Key), WindowSeconds: Seconds(t.Window), MaxWaitSeconds: &wait}}
	}
	c := &Collect{Key: KeyOf(t.Key), MaxEvents: t.MaxEvents, WindowSeconds: Seconds(t.Window)}
	if t.MaxBytes != 0 {
		c.MaxBytes = &t.MaxBytes
	}
	return &Trigger{Collect: c}
}

// KafkaOf is the Kafka topic of a definition, read back; nil without one.
func KafkaOf(def *flow.Definition) *Kafka {
	if def.Topic == "" {
		return nil
	}
	return &Kafka{Topic: def.Topic}
}

// GatesOf are stamped gates on the wire; never null.
func GatesOf(s *flow.Stamp) []Gate {
	out := make([]Gate, 0, len(s.Gates))
	for _, g := range s.Gates {
		w := Gate{Kind: g.Kind.String(), KeyName: g.KeyName, Key: g.Key, Max: g.Max, Burst: g.Burst}
		if g.Kind == flow.GateRate {
			w.PerSecond = flow.PerSecond(g.Interval)
		}
		out = append(out, w)
	}
	return out
}
