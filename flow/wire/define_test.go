package wire_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// Fails when a declaration has a gate or a trigger beside its Kafka topic, or a topic
// that can't be one, and is taken, or is refused without the field and what to do.
func TestP40KafkaDeclarations(t *testing.T) {
	limit, rate := &wire.Limit{Key: wire.Key{Name: "k"}, Max: 1}, &wire.Rate{Key: wire.Key{Name: "k"}, PerSecond: 1}
	topic := json.RawMessage(`{"topic":"orders"}`)
	for field, d := range map[string]wire.Declaration{
		"limit":   {Kafka: topic, Limit: limit},
		"rate":    {Kafka: topic, Rate: rate},
		"trigger": {Kafka: topic, Trigger: &wire.Trigger{Debounce: &wire.Debounce{Key: wire.Key{Name: "k"}, WindowSeconds: 1}}},
	} {
		got := fieldOf(t, d)
		if got.Field != field || !strings.Contains(got.Want, "max_concurrency") || !strings.Contains(got.Want, "partitions") {
			t.Errorf("%s beside a topic: %v", field, got)
		}
	}
	for body, field := range map[string]string{
		`7`: "kafka", `[]`: "kafka", `"orders"`: "kafka", `{"topic"`: "kafka", `{"topic":"a","x":1}`: "kafka", `{"Topic":"a"}`: "kafka",
		`{}`: "kafka.topic", `{"topic":""}`: "kafka.topic", `{"topic":null}`: "kafka.topic", `{"topic":7}`: "kafka.topic",
		`{"topic":"a b"}`: "kafka.topic", `{"topic":".."}`: "kafka.topic", `{"topic":"a","topic":"a"}`: "kafka.topic",
		`{"topic":"` + strings.Repeat("t", 250) + `"}`: "kafka.topic",
	} {
		if got := fieldOf(t, wire.Declaration{Kafka: json.RawMessage(body)}); got.Field != field {
			t.Errorf("%s is refused for %q, want %q", body, got.Field, field)
		}
	}
}

// fieldOf is the refusal of a declaration.
func fieldOf(t *testing.T, d wire.Declaration) *flow.FieldError {
	t.Helper()
	_, err := d.Definition("w")
	f, ok := errors.AsType[*flow.FieldError](err)
	if !ok || !errors.Is(err, flow.ErrConfiguration) {
		t.Fatalf("%+v gives error %v, want a refused field", d, err)
	}
	return f
}

// Fails when a topic that was declared isn't read back, or one that wasn't is.
func TestP40TopicIsReadBack(t *testing.T) {
	for body, want := range map[string]*wire.Kafka{
		`{"topic": "orders.v1"}`: {Topic: "orders.v1"}, "null": nil, "": nil,
	} {
		def, err := (&wire.Declaration{Version: "1", Kafka: json.RawMessage(body)}).Definition("w")
		if err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		if diff := cmp.Diff(want, wire.KafkaOf(def)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", body, diff)
		}
	}
}
