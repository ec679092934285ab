package wire

import "encoding/json"

// Gate is a stamped gate: Max belongs to a limit, PerSecond and Burst to a rate.
type Gate struct {
	Kind      string  `json:"kind"`
	KeyName   string  `json:"key_name"`
	Key       string  `json:"key"`
	Max       int64   `json:"max,omitempty"`
	PerSecond float64 `json:"per_second,omitempty"`
	Burst     int64   `json:"burst,omitempty"`
}

// Source says what made a run. GatedFrom is the run that was handed on to it (P25), and
// GatedRoot the first of that chain (P79); Parent is the run whose body started it,
// RetryOf the run that was retried by hand, Schedule the schedule that started it.
type Source struct {
	Trigger   string  `json:"trigger"`
	GatedFrom *string `json:"gated_from"`
	GatedRoot *string `json:"gated_root"`
	Parent    *string `json:"parent"`
	RetryOf   *string `json:"retry_of"`
	Schedule  *string `json:"schedule"`
}

// Provenance is where a run comes from.
type Provenance struct {
	Source Source `json:"source"`
}

// Wait says why a run waits. Reason is never empty.
type Wait struct {
	Reason   string   `json:"reason"`
	Gate     *string  `json:"gate"`
	Key      *string  `json:"key"`
	Used     *int64   `json:"used"`
	Max      *int64   `json:"max"`
	Position *int64   `json:"position"`
	OpensAt  *int64   `json:"opens_at"`
	Since    *int64   `json:"since"`          // when this wait began: the submit, or the last time that the run was queued again or suspended
	Signal   *string  `json:"signal"`         // for reason signal: its name
	Runs     []string `json:"runs,omitempty"` // for reason child: those that haven't ended yet
}

// Run is the status object.
type Run struct {
	RunID             string          `json:"run_id"`
	RequestedRunID    string          `json:"requested_run_id,omitempty"`
	Workflow          string          `json:"workflow"`
	Status            string          `json:"status"`
	Attempt           int64           `json:"attempt"`
	Gates             []Gate          `json:"gates"`
	GatesUnknown      bool            `json:"gates_unknown"`
	StampedVersion    string          `json:"stamped_version"`
	VersionRank       int64           `json:"version_rank"`
	DefinitionVersion *string         `json:"definition_version"`
	DefinitionHash    *string         `json:"definition_hash"`
	IdempotencyKey    *string         `json:"idempotency_key"`
	Provenance        Provenance      `json:"provenance"`
	ContinuedTo       *string         `json:"continued_to"`
	Wait              *Wait           `json:"wait"`
	Worker            *string         `json:"worker"`
	CancelRequested   bool            `json:"cancel_requested"`
	Budget            json.RawMessage `json:"budget"`
	SubmittedAt       int64           `json:"submitted_at"`
	StartedAt         *int64          `json:"started_at"`
	EndedAt           *int64          `json:"ended_at"`
	Result            json.RawMessage `json:"result"`
	Error             *RunError       `json:"error"`
}

// Result answers GET /v1/runs/{id}/result: 200 when ended, 202 before.
type Result struct {
	RunID          string          `json:"run_id"`
	RequestedRunID string          `json:"requested_run_id,omitempty"` // as in Run (P81)
	Status         string          `json:"status"`
	Result         json.RawMessage `json:"result"`
	Error          *RunError       `json:"error"`
}

// Event is one entry of a run's own journal.
type Event struct {
	Seq     int64     `json:"seq"`
	Type    string    `json:"type"`
	At      int64     `json:"at"`
	Attempt int64     `json:"attempt,omitempty"`
	Fence   uint64    `json:"fence,omitempty"`
	Worker  string    `json:"worker,omitempty"`
	Version *string   `json:"version,omitempty"`
	Gates   *[]Gate   `json:"gates,omitempty"`         // of run:init (P23)
	Unknown *bool     `json:"gates_unknown,omitempty"` // of run:init
	Reason  string    `json:"reason,omitempty"`
	Error   *RunError `json:"error,omitempty"`
	Until   int64     `json:"until,omitempty"`

	Name  string   `json:"name,omitempty"`  // of a step, a signal, or a wait
	Visit int64    `json:"visit,omitempty"` // of a step or a wait
	Runs  []string `json:"runs,omitempty"`  // the successor of run:continued; children; the runs that are waited for
}

// Events answers GET /v1/runs/{id}/events.
type Events struct {
	Events []Event `json:"events"`
}

// WhyGate is one gate of a run as it stands now.
type WhyGate struct {
	Gate
	Open    bool   `json:"open"`
	Used    *int64 `json:"used,omitempty"`
	Tokens  *int64 `json:"tokens,omitempty"`
	OpensAt *int64 `json:"opens_at,omitempty"`
}

// Holder is a run that takes a slot: executing, ended but not yet let go by its
// worker, or reserved for a run whose token is under way.
type Holder struct {
	RunID string `json:"run_id"`
	Fence uint64 `json:"fence"`
	State string `json:"state"`
}

// Why answers GET /v1/runs/{id}/why.
type Why struct {
	RunID   string    `json:"run_id"`
	Status  string    `json:"status"`
	Wait    *Wait     `json:"wait"`
	Gates   []WhyGate `json:"gates"`
	Holders []Holder  `json:"holders"`
	Text    string    `json:"text"` // one sentence for a person
}

// RunList answers GET /v1/runs, newest first.
type RunList struct {
	Runs       []Run   `json:"runs"`
	NextCursor *string `json:"next_cursor"`
}

// ListQuery are the parameters of GET /v1/runs. Cursor is opaque.
type ListQuery struct {
	Workflow string
	Key      *string
	Status   string
	Limit    int // 1 to MaxListLimit; 0 means 100
	Cursor   string
}

// KeyView answers GET /v1/keys/{workflow}/{key}.
type KeyView struct {
	Workflow       string     `json:"workflow"`
	Key            string     `json:"key"`
	Used           int64      `json:"used"`
	Max            *int64     `json:"max"` // of the current declaration's limit
	Holders        []Holder   `json:"holders"`
	Rate           *RateState `json:"rate"`
	Queued         int64      `json:"queued"`
	OldestWaitMS   *int64     `json:"oldest_wait_ms"`
	BufferedEvents int64      `json:"buffered_events"`
	Batch          *OpenBatch `json:"batch"` // the events that are gathered; null when there are none
}

// OpenBatch is a batch that no run is made of yet.
type OpenBatch struct {
	RunID    string `json:"run_id"` // of the run that it will be
	Events   int64  `json:"events"`
	Bytes    int64  `json:"bytes"`
	OpenedAt int64  `json:"opened_at"`
	FiresAt  int64  `json:"fires_at"` // its deadline; later when no worker is alive then
	Due      bool   `json:"due"`      // the deadline has passed, and a worker is waited for
}

// RateState is a bucket as it stands now.
type RateState struct {
	Tokens    int64   `json:"tokens"`
	Burst     int64   `json:"burst"`
	PerSecond float64 `json:"per_second"`
	OpensAt   *int64  `json:"opens_at"` // when the next token comes; null when one is there
}
