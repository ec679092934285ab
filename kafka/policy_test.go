package kafka_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/kafka"
	"github.com/pyrula/pyrula-node/pyrula"
)

func nothing(*pyrula.Run, order) (int, error) { return 0, nil }

// Fails when a workflow is bound to a topic and has a gate too, in whichever order
// they are written, or is bound to what is no topic, and the SDK takes it.
func TestP40WrongDefinitions(t *testing.T) {
	limit, rate, bound := pyrula.Limit{Key: "n", Max: 1}, pyrula.Rate{Key: "n", PerSecond: 1}, pyrula.KafkaTopic(topic)
	for _, c := range []struct {
		field    string
		policies []pyrula.Policy
	}{
		{"limit", []pyrula.Policy{limit, bound}}, {"limit", []pyrula.Policy{bound, limit}},
		{"rate", []pyrula.Policy{rate, bound}}, {"rate", []pyrula.Policy{bound, rate}},
		{"limit", []pyrula.Policy{rate, bound, limit}},
		{"kafka", []pyrula.Policy{bound, bound}},
		{"kafka.topic", []pyrula.Policy{pyrula.KafkaTopic("")}}, {"kafka.topic", []pyrula.Policy{pyrula.KafkaTopic("..")}},
		{"kafka.topic", []pyrula.Policy{pyrula.KafkaTopic("or ders")}}, {"kafka.topic", []pyrula.Policy{pyrula.KafkaTopic(strings.Repeat("t", 250))}},
	} {
		w := pyrula.Define("charge", nothing, c.policies...)
		_, err := kafka.NewConsumer(nil, w, kafka.Config{Brokers: []string{"127.0.0.1:1"}, Group: group})
		for _, err := range []error{w.Err(), err} {
			wrong, ok := errors.AsType[*pyrula.ConfigurationError](err)
			if !ok || wrong.Field != c.field || !errors.Is(err, pyrula.ErrConfiguration) {
				t.Errorf("%s: error %v", c.field, err)
				continue
			}
			if gate := c.field == "limit" || c.field == "rate"; gate && !(strings.Contains(wrong.Want, "max_concurrency") && strings.Contains(wrong.Want, "partitions")) {
				t.Errorf("%s: %q doesn't say how to throttle instead", c.field, wrong.Want)
			}
		}
	}
}

// Fails when a consumer is made of wrong settings, or of a workflow without a topic.
func TestConsumerSettings(t *testing.T) {
	w := newWorld(t, 1)
	bound, good := pyrula.Define("charge", nothing, pyrula.KafkaTopic(topic)), []string{"127.0.0.1:1"}
	for text, c := range map[string]struct {
		workflow pyrula.Definition
		cfg      kafka.Config
	}{
		"kafka":           {pyrula.Define("charge", nothing), kafka.Config{Brokers: good, Group: group}},
		"brokers":         {bound, kafka.Config{Group: group}},
		"group":           {bound, kafka.Config{Brokers: good}},
		"group must":      {bound, kafka.Config{Brokers: good, Group: strings.Repeat("g", 250)}},
		"max_concurrency": {bound, kafka.Config{Brokers: good, Group: group, MaxConcurrency: -1}},
		"from 1 to 1024":  {bound, kafka.Config{Brokers: good, Group: group, MaxConcurrency: 1025}},
		"worker's name":   {bound, kafka.Config{Brokers: good, Group: group, Name: "a\n"}},
		"parse port":      {bound, kafka.Config{Brokers: []string{"kafka:port"}, Group: group}},
	} {
		_, err := kafka.NewConsumer(w.client, c.workflow, c.cfg)
		if !errors.Is(err, pyrula.ErrConfiguration) || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v, want a configuration error of %s", err, text)
		}
	}
	if _, err := kafka.NewConsumer(w.client, bound, kafka.Config{Brokers: good, Group: group}); err != nil {
		t.Errorf("a consumer that nothing is wrong with: %v", err)
	}
}

// Fails when the node takes a gate or a trigger beside a topic, refuses it without the
// field, keeps something of it, or doesn't read a topic back.
func TestP40Node(t *testing.T) {
	w := newWorld(t, 1)
	bound := pyrula.Define("charge", nothing, pyrula.KafkaTopic(topic))
	key := wire.Key{Name: "n"}
	for field, d := range map[string]wire.Declaration{
		"limit":       {Kafka: []byte(`{"topic":"orders"}`), Limit: &wire.Limit{Key: key, Max: 1}},
		"rate":        {Kafka: []byte(`{"topic":"orders"}`), Rate: &wire.Rate{Key: key, PerSecond: 1}},
		"trigger":     {Kafka: []byte(`{"topic":"orders"}`), Trigger: &wire.Trigger{Collect: &wire.Collect{Key: key, MaxEvents: 2, WindowSeconds: 1}}},
		"kafka.topic": {Kafka: []byte(`{"topic":"or ders"}`)},
	} {
		_, err := w.client.DeclareWire(t.Context(), "charge", d)
		refused, ok := errors.AsType[*pyrula.APIError](err)
		if !ok || !errors.Is(err, pyrula.ErrConfiguration) || refused.Problem.Field != field {
			t.Errorf("%s: error %v", field, err)
		}
	}
	if _, err := w.client.Workflow(t.Context(), "charge"); !errors.Is(err, pyrula.ErrUnknownWorkflow) {
		t.Errorf("a refused declaration is kept: error %v", err)
	}
	for _, changed := range []bool{true, false} {
		got, err := w.client.Declare(t.Context(), bound)
		if err != nil || got[0].Changed != changed {
			t.Fatalf("declare: %+v, error %v", got, err)
		}
	}
	for range 2 {
		info, err := w.client.Workflow(t.Context(), "charge")
		if err != nil || len(info.Versions) != 1 || info.Versions[0].Kafka == nil || info.Versions[0].Kafka.Topic != topic {
			t.Errorf("read back as %+v, error %v", info, err)
		}
		w.reopenNode() // and once more from its journal
	}
}
