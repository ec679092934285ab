package wire

import "encoding/json"

// Stamp carries keys that the caller resolved itself (function keys, P20), and
// the version whose gates they are for.
type Stamp struct {
	Version string     `json:"version"`
	Keys    *StampKeys `json:"keys,omitempty"`
}

// StampKeys are resolved key values by gate.
type StampKeys struct {
	Limit *string `json:"limit,omitempty"`
	Rate  *string `json:"rate,omitempty"`
}

// Submit is the body of POST /v1/workflows/{name}/runs and, with Workflow, an
// entry of a batch. Params must be a JSON object; missing means {}.
type Submit struct {
	Workflow       string          `json:"workflow,omitempty"`
	Params         json.RawMessage `json:"params,omitempty"`
	IdempotencyKey *string         `json:"idempotency_key,omitempty"`
	RequestID      string          `json:"request_id,omitempty"` // makes a repeat within 10 minutes answer the same run (R10)
	Trigger        string          `json:"trigger,omitempty"`    // client (default), case, replay, eval
	Budget         json.RawMessage `json:"budget,omitempty"`     // known and refused until it is served
	Stamp          *Stamp          `json:"stamp,omitempty"`
}

// Submitted answers a submit. In a batch an entry that was refused has Problem
// instead of the rest.
type Submitted struct {
	RunID   string   `json:"run_id,omitempty"`
	Status  string   `json:"status,omitempty"` // none for a run of before whose retention is over
	Created bool     `json:"created"`
	Problem *Problem `json:"problem,omitempty"`
}

// Batch is the body of POST /v1/runs:batch: at most MaxBatch runs.
type Batch struct {
	Runs []Submit `json:"runs"`
}

// BatchResult answers a batch: one result per run, in order.
type BatchResult struct {
	Runs []Submitted `json:"runs"`
}

// ShortSubmitted answers POST /{name} (P87).
type ShortSubmitted struct {
	RunID string `json:"run_id"`
}
