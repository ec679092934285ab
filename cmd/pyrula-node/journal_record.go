package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/bits"
	"time"
	"unicode/utf8"

	"github.com/pyrula/pyrula-node/flow"
)

// recordLine is one line of a dump. The order of the fields is that of the line.
type recordLine struct {
	Frame uint64  `json:"frame"`
	Shard *uint16 `json:"shard,omitempty"` // none for what isn't a shard's
	Epoch uint64  `json:"epoch"`
	Seq   uint64  `json:"seq,omitempty"`
	At    string  `json:"at"`
	Kind  string  `json:"kind"`
	fieldsView
	// Of the items that begin a life.
	EntriesReplayed *uint64 `json:"entries_replayed,omitempty"`
	BytesCut        *uint64 `json:"bytes_cut,omitempty"`
	Fsync           string  `json:"fsync,omitempty"`
	// Of what this build can't read.
	Raw   string `json:"raw,omitempty"`
	Fault string `json:"fault,omitempty"`
}

// fieldsView are the fields of a record or a letter in readable form. What is zero in
// the record is left out.
type fieldsView struct {
	Run            string          `json:"run,omitempty"`
	Key            *keyView        `json:"key,omitempty"`
	Peer           *keyView        `json:"peer,omitempty"`
	Order          string          `json:"order,omitempty"`
	Fence          uint64          `json:"fence,omitempty"`
	Until          string          `json:"until,omitempty"`
	Before         string          `json:"before,omitempty"`
	After          string          `json:"after,omitempty"`
	Interval       string          `json:"interval,omitempty"`
	Burst          int64           `json:"burst,omitempty"`
	Lease          string          `json:"lease,omitempty"`
	Backoff        string          `json:"backoff,omitempty"`
	Attempts       int64           `json:"attempts,omitempty"`
	OtherShard     *uint16         `json:"other_shard,omitempty"`
	Number         uint64          `json:"number,omitempty"`
	EndedBy        string          `json:"ended_by,omitempty"`
	Flags          []string        `json:"flags,omitempty"`
	Workflow       string          `json:"workflow,omitempty"`
	Version        string          `json:"version,omitempty"`
	Worker         string          `json:"worker,omitempty"`
	Trigger        string          `json:"trigger,omitempty"`
	IdempotencyKey string          `json:"idempotency_key,omitempty"`
	RequestID      string          `json:"request_id,omitempty"`
	Reason         string          `json:"reason,omitempty"`
	ErrType        string          `json:"error_type,omitempty"`
	ErrText        string          `json:"error_text,omitempty"`
	Params         json.RawMessage `json:"params,omitempty"`
	Result         json.RawMessage `json:"result,omitempty"`
	Payload        json.RawMessage `json:"payload,omitempty"`
	Letter         *letterView     `json:"letter,omitempty"`
	Definition     *definitionView `json:"definition,omitempty"`
	Stamp          *stampView      `json:"stamp,omitempty"`
	Other          string          `json:"other,omitempty"`
	Root           string          `json:"root,omitempty"`
	Parent         string          `json:"parent,omitempty"`
	Name           string          `json:"name,omitempty"`
	Visit          int64           `json:"visit,omitempty"`
	Cost           int64           `json:"cost,omitempty"`
	Status         string          `json:"status,omitempty"`
	Origin         string          `json:"origin,omitempty"`
	Runs           []string        `json:"runs,omitempty"`
	Luggage        *luggageView    `json:"luggage,omitempty"`
	Extra          json.RawMessage `json:"extra,omitempty"`
}

type keyView struct {
	Workflow string `json:"workflow"`
	Value    string `json:"value"`
	Kind     string `json:"kind,omitempty"` // none for the actor of a value
}

type letterView struct {
	Kind string `json:"kind"`
	fieldsView
}

type stampView struct {
	Version     string     `json:"version"`
	VersionRank int64      `json:"version_rank"`
	Unknown     bool       `json:"unknown,omitempty"`
	Gates       []gateView `json:"gates"`
}

type gateView struct {
	Kind     string `json:"kind"`
	KeyName  string `json:"key_name"`
	Key      string `json:"key"`
	Max      int64  `json:"max,omitempty"`
	Interval string `json:"interval,omitempty"`
	Burst    int64  `json:"burst,omitempty"`
}

type definitionView struct {
	Workflow string     `json:"workflow"`
	Version  string     `json:"version"`
	Seen     int64      `json:"seen"`
	At       string     `json:"at,omitempty"`
	Lease    string     `json:"lease,omitempty"`
	Attempts int64      `json:"attempts,omitempty"`
	Backoff  string     `json:"backoff,omitempty"`
	Hash     string     `json:"hash"`
	Kafka    string     `json:"kafka,omitempty"`
	Gates    []ruleView `json:"gates"`

	Trigger *triggerView `json:"trigger,omitempty"` // of a workflow that takes events
}

type triggerView struct {
	Kind      string `json:"kind"`
	Key       string `json:"key"`
	Window    string `json:"window"`
	MaxEvents int64  `json:"max_events,omitempty"`
	MaxBytes  int64  `json:"max_bytes,omitempty"`
	MaxWait   string `json:"max_wait,omitempty"`
}

type ruleView struct {
	Kind     string `json:"kind"`
	Key      string `json:"key"`
	Max      int64  `json:"max,omitempty"`
	Interval string `json:"interval,omitempty"`
	Burst    int64  `json:"burst,omitempty"`
}

// recordView is a record in readable form.
func recordView(rec *flow.Record) (fieldsView, error) {
	v := viewOf(&rec.Fields)
	switch rec.Kind {
	case flow.RecSubmitted:
		v.Params = payload(rec.Payload)
		return v, v.luggage(rec.Extra)
	case flow.RecStarted:
		v.runs(rec.Extra)
	case flow.RecCompleted, flow.RecStep, flow.RecOutcome:
		v.Result = payload(rec.Payload)
	case flow.RecCancelled, flow.RecHoldFreed:
		if rec.Number != 0 {
			v.EndedBy, v.Number = flow.InputKind(rec.Number).String(), 0
		}
	case flow.RecSent:
		v.OtherShard = &rec.Shard
		letter, err := letterOf(rec.Payload)
		v.Letter = letter
		return v, err
	case flow.RecReceived, flow.RecDelivered:
		v.OtherShard = &rec.Shard
	case flow.RecKeyed:
		if rec.Number != 0 {
			v.OtherShard = &rec.Shard
		}
	case flow.RecDeclared:
		definition, err := definitionOf(rec.Payload)
		v.Definition = definition
		return v, err
	default:
		v.Payload = payload(rec.Payload)
	}
	return v, nil
}

// viewOf is all but the payload, whose meaning depends on the kind.
func viewOf(f *flow.Fields) fieldsView {
	v := fieldsView{
		Key: keyViewOf(&f.Key), Peer: keyViewOf(&f.Peer),
		Order: moment(f.Order), Fence: f.Fence, Until: moment(f.Until), Before: moment(f.Before), After: moment(f.After),
		Interval: span(f.Interval), Burst: f.Burst, Lease: span(f.Lease), Backoff: span(f.Backoff), Attempts: f.Attempts,
		Number: f.Number, Flags: flagNames(f.Flags), Workflow: f.Workflow, Version: f.Version, Worker: f.Worker,
		Trigger: f.Trigger, IdempotencyKey: f.IdempotencyKey, RequestID: f.RequestID, Reason: f.Reason,
		ErrType: f.ErrType, ErrText: f.ErrText, Stamp: stampViewOf(f.Stamp),
	}
	if !f.Run.IsZero() {
		v.Run = f.Run.String()
	}
	if f.Shard != 0 {
		v.OtherShard = &f.Shard
	}
	v.late(f)
	return v
}

// letterOf is the letter in a sent record.
func letterOf(body []byte) (*letterView, error) {
	var in flow.Input
	r := flow.NewReader()
	if err := r.Reset(body); err != nil {
		return nil, fmt.Errorf("letter: %w", err)
	}
	if err := r.Input(&in); err != nil {
		return nil, fmt.Errorf("letter: %w", err)
	}
	v := &letterView{Kind: in.Kind.String(), fieldsView: viewOf(&in.Fields)}
	if in.Kind != flow.InCreate {
		v.Payload = payload(in.Payload)
		return v, nil
	}
	v.Params = payload(in.Payload)
	return v, v.luggage(in.Extra)
}

// definitionOf is the declaration in a declared record.
func definitionOf(body []byte) (*definitionView, error) {
	r := flow.NewReader()
	if err := r.Reset(body); err != nil {
		return nil, fmt.Errorf("definition: %w", err)
	}
	d, err := r.Definition()
	if err != nil {
		return nil, fmt.Errorf("definition: %w", err)
	}
	v := &definitionView{
		Workflow: d.Workflow, Version: d.Version, Seen: d.Seen, At: moment(d.At), Lease: span(d.Lease),
		Attempts: d.Attempts, Backoff: span(d.Backoff), Hash: d.Hash, Kafka: d.Topic, Gates: []ruleView{},
	}
	for i := range d.Rules {
		rule := &d.Rules[i]
		v.Gates = append(v.Gates, ruleView{rule.Kind.String(), rule.Key.Text(), rule.Max, span(rule.Interval), rule.Burst})
	}
	if t := d.Trigger; t != nil {
		v.Trigger = &triggerView{t.Kind.String(), t.Key.Text(), span(t.Window), t.MaxEvents, t.MaxBytes, span(t.MaxWait)}
	}
	return v, nil
}

func keyViewOf(k *flow.KeyID) *keyView {
	if *k == (flow.KeyID{}) {
		return nil
	}
	v := &keyView{Workflow: k.Workflow, Value: k.Value}
	switch k.Kind {
	case flow.KeyOfValue:
	case flow.KeyUngated:
		v.Kind = "ungated"
	case flow.KeyUnknown:
		v.Kind = "unknown"
	}
	return v
}

func stampViewOf(s *flow.Stamp) *stampView {
	if s == nil {
		return nil
	}
	v := &stampView{Version: s.Version, VersionRank: s.VersionRank, Unknown: s.Unknown, Gates: []gateView{}}
	for i := range s.Gates {
		g := &s.Gates[i]
		v.Gates = append(v.Gates, gateView{g.Kind.String(), g.KeyName, g.Key, g.Max, span(g.Interval), g.Burst})
	}
	return v
}

// flagWords are the names of the flags, by their bit.
var flagWords = [...]string{
	"retryable", "token", "ok", "cancel", "repeat", "forfeited", "dropped", "absolute", "started", "credit",
	"signal", "runs", "recorded", "posted", "child", "debounce",
}

func flagNames(flags flow.Flags) []string {
	var out []string
	for rest := uint32(flags); rest != 0; rest &= rest - 1 {
		bit := bits.TrailingZeros32(rest)
		if bit < len(flagWords) {
			out = append(out, flagWords[bit])
		} else {
			out = append(out, fmt.Sprintf("bit %d", bit))
		}
	}
	return out
}

// momentLayout is RFC 3339 with all nine digits, so that lines stand in columns.
const momentLayout = "2006-01-02T15:04:05.000000000Z"

// moment is an instant in UTC, "" for none.
func moment(at flow.Instant) string {
	if at == 0 {
		return ""
	}
	return time.Unix(0, int64(at)).UTC().Format(momentLayout)
}

// span is a length of time, "" for none.
func span(s flow.Span) string {
	if s == 0 {
		return ""
	}
	return time.Duration(s).String()
}

// payload is a body as it is when it is JSON, else {"hex":"..."}.
func payload(body []byte) json.RawMessage {
	if len(body) == 0 {
		return nil
	}
	if json.Valid(body) && utf8.Valid(body) {
		return body
	}
	return json.RawMessage(`{"hex":"` + hex.EncodeToString(body) + `"}`)
}
