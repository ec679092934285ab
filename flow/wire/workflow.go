package wire

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/pyrula/pyrula-node/flow"
)

// Key is the source of a policy's key: a parameter name, as a JSON string, an expression
// behind "cel:", or {"function": "label"} for a function that only the workflow's code has.
type Key struct {
	Name     string
	Function string
}

type functionKey struct {
	Function string `json:"function"`
}

// MarshalJSON writes the string or the object.
func (k Key) MarshalJSON() ([]byte, error) {
	if k.Function != "" {
		return json.Marshal(functionKey{k.Function})
	}
	return json.Marshal(k.Name)
}

// UnmarshalJSON reads the string or the object.
func (k *Key) UnmarshalJSON(b []byte) error {
	*k = Key{}
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &k.Name)
	}
	var f functionKey
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil || f.Function == "" {
		return fmt.Errorf(`key must be the name of a parameter, "cel:" and an expression, or {"function": "label"}`)
	}
	k.Function = f.Function
	return nil
}

// Source is the key as the state machines know it.
func (k Key) Source() flow.KeySource { return flow.KeySource{Name: k.Name, Function: k.Function} }

// KeyOf is the wire form of a source.
func KeyOf(s flow.KeySource) Key { return Key{Name: s.Name, Function: s.Function} }

// Limit is flow.Limit on the wire.
type Limit struct {
	Key Key   `json:"key"`
	Max int64 `json:"max"`
}

// Rate is flow.Rate on the wire; a missing burst means per_second rounded up.
type Rate struct {
	Key       Key     `json:"key"`
	PerSecond float64 `json:"per_second"`
	Burst     *int64  `json:"burst,omitempty"`
}

// Trigger makes runs out of events: one of the two (P57).
type Trigger struct {
	Collect  *Collect  `json:"collect,omitempty"`
	Debounce *Debounce `json:"debounce,omitempty"`
}

// Collect is flow.Collect on the wire. A missing max_bytes means that only the number of
// events and the window end a batch.
type Collect struct {
	Key           Key     `json:"key"`
	MaxEvents     int64   `json:"max_events"`
	WindowSeconds float64 `json:"window_seconds"`
	MaxBytes      *int64  `json:"max_bytes,omitempty"`
}

// Debounce is flow.Debounce on the wire. A missing max_wait_seconds, or 0, means that there
// is no longest wait.
type Debounce struct {
	Key            Key      `json:"key"`
	WindowSeconds  float64  `json:"window_seconds"`
	MaxWaitSeconds *float64 `json:"max_wait_seconds,omitempty"`
}

// Kafka binds a workflow to a topic: its consumers make a run of each record. It
// stands alone: no Limit, Rate or trigger beside it (P40).
type Kafka struct {
	Topic string `json:"topic"`
}

// Declaration is the body of PUT /v1/workflows/{name}. Budget is known and refused with
// 400 until it is served. Kafka is a [Kafka] as JSON; it is read where the declaration is
// checked.
type Declaration struct {
	Version             string          `json:"version"`
	Limit               *Limit          `json:"limit,omitempty"`
	Rate                *Rate           `json:"rate,omitempty"`
	Trigger             *Trigger        `json:"trigger,omitempty"`
	MaxAttempts         *int64          `json:"max_attempts,omitempty"`          // default 1
	RetryBackoffSeconds *float64        `json:"retry_backoff_seconds,omitempty"` // default 1
	LeaseSeconds        *float64        `json:"lease_seconds,omitempty"`         // default 30
	Budget              json.RawMessage `json:"budget,omitempty"`
	Kafka               json.RawMessage `json:"kafka,omitempty"`
}

// Declared answers a declaration.
type Declared struct {
	Workflow       string `json:"workflow"`
	Version        string `json:"version"`
	VersionRank    int64  `json:"version_rank"`
	DefinitionHash string `json:"definition_hash"`
	GatesHash      string `json:"gates_hash"`
	Changed        bool   `json:"changed"`
}

// WorkflowVersion is one declaration, read back.
type WorkflowVersion struct {
	Declared
	Limit               *Limit   `json:"limit"`
	Rate                *Rate    `json:"rate"`
	Trigger             *Trigger `json:"trigger"`
	Kafka               *Kafka   `json:"kafka"`
	MaxAttempts         int64    `json:"max_attempts"`
	RetryBackoffSeconds float64  `json:"retry_backoff_seconds"`
	LeaseSeconds        float64  `json:"lease_seconds"`
	DeclaredAt          int64    `json:"declared_at"`
	Current             bool     `json:"current"` // what a submit by name is stamped with
}

// Workflow is a workflow with its declarations, oldest first.
type Workflow struct {
	Name     string            `json:"name"`
	Versions []WorkflowVersion `json:"versions"`
}

// WorkflowList answers GET /v1/workflows, sorted by name.
type WorkflowList struct {
	Workflows []Workflow `json:"workflows"`
}
