package wire

import "encoding/json"

// ClaimWorkflow is a workflow that a worker serves, in its version; GatesHash
// tells declarations of one version apart, else the version's last one counts.
type ClaimWorkflow struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	GatesHash string `json:"gates_hash,omitempty"`
}

// Claim is the body of POST /v1/claims: Credit runs at most, waiting up to WaitMS
// for the first.
type Claim struct {
	Worker    string          `json:"worker"`
	Workflows []ClaimWorkflow `json:"workflows"`
	Credit    int             `json:"credit"`
	WaitMS    int64           `json:"wait_ms,omitempty"`

	// Plain says that the answer has no room for candidates: the claim stands inside
	// another request.
	Plain bool `json:"-"`
}

// Grant is a run that a worker now holds under Fence.
type Grant struct {
	RunID           string          `json:"run_id"`
	Workflow        string          `json:"workflow"`
	Version         string          `json:"version"`
	Key             string          `json:"key"`
	Params          json.RawMessage `json:"params"`
	Attempt         int64           `json:"attempt"`
	Fence           uint64          `json:"fence"`
	LeaseSeconds    float64         `json:"lease_seconds"`
	Steps           []Step          `json:"steps"`
	Signals         []Signal        `json:"signals"`
	Waits           []WaitEnd       `json:"waits"`
	Children        []ChildGroup    `json:"children"`
	HistoryNext     *int64          `json:"history_next"` // the after of the next page of History; null when all is here
	State           json.RawMessage `json:"state"`
	CancelRequested bool            `json:"cancel_requested"`
}

// Claimed answers a claim; Runs is empty when the wait is over. Resolve are runs that
// the worker doesn't hold and that wait for its answer at POST /v1/resolutions.
type Claimed struct {
	Runs    []Grant     `json:"runs"`
	Resolve []Candidate `json:"resolve,omitempty"`
}

// Beat names a run by its holder's fence.
type Beat struct {
	RunID string `json:"run_id"`
	Fence uint64 `json:"fence"`
}

// Heartbeat is the body of POST /v1/heartbeats: at most MaxBatch runs.
type Heartbeat struct {
	Worker string `json:"worker"`
	Runs   []Beat `json:"runs"`
}

// BeatResult says whether the lease was renewed. Without OK the worker stops the
// body: it doesn't hold the run any more.
type BeatResult struct {
	RunID           string `json:"run_id"`
	OK              bool   `json:"ok"`
	CancelRequested bool   `json:"cancel_requested"`
}

// HeartbeatResult answers a heartbeat, in order.
type HeartbeatResult struct {
	Runs []BeatResult `json:"runs"`
}

// Complete is the body of POST /v1/runs/{id}/complete; a missing result is null.
type Complete struct {
	Fence  uint64          `json:"fence"`
	Result json.RawMessage `json:"result,omitempty"`
	Claim  *Claim          `json:"claim,omitempty"`
}

// RunError is why an attempt failed.
type RunError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// Fail is the body of POST /v1/runs/{id}/fail.
type Fail struct {
	Fence     uint64   `json:"fence"`
	Error     RunError `json:"error"`
	Retryable bool     `json:"retryable"`
	Claim     *Claim   `json:"claim,omitempty"`
}

// Until says what a suspended run waits for: a moment, a signal for at most
// TimeoutSeconds (for ever without them), or the end of all of Runs.
type Until struct {
	AtMS           *int64   `json:"at_ms,omitempty"`
	Signal         string   `json:"signal,omitempty"`
	TimeoutSeconds *float64 `json:"timeout_seconds,omitempty"`
	Runs           []string `json:"runs,omitempty"`
}

// Suspend is the body of POST /v1/runs/{id}/suspend. Suspending until a moment
// that has passed hands the run back at once, at its old place and without using
// an attempt: so a worker drains.
//
// A wait for a signal or for runs, and one for a moment that is given a Step, stands in
// the run's history when it is over, as the Visit-th of its kind and name; the name of a
// wait for a signal is the signal's. A Visit that is left out is the next one.
type Suspend struct {
	Fence uint64 `json:"fence"`
	Until Until  `json:"until"`
	Step  string `json:"step,omitempty"`
	Visit int64  `json:"visit,omitempty"`
	Claim *Claim `json:"claim,omitempty"`
}

// Ended answers complete, fail and suspend; Runs stands only when a claim was
// asked for. A claim that fails doesn't undo the ending before it: then Runs is
// empty and ClaimProblem says why.
type Ended struct {
	RunID        string   `json:"run_id"`
	Status       string   `json:"status"`
	Runs         *[]Grant `json:"runs,omitempty"`
	ClaimProblem *Problem `json:"claim_problem,omitempty"`
}

// Completion is one entry of a batch of completions.
type Completion struct {
	RunID  string          `json:"run_id"`
	Fence  uint64          `json:"fence"`
	Result json.RawMessage `json:"result,omitempty"`
}

// CompleteBatch is the body of POST /v1/runs:complete: at most MaxBatch runs.
type CompleteBatch struct {
	Runs  []Completion `json:"runs"`
	Claim *Claim       `json:"claim,omitempty"`
}

// CompleteResult answers one entry: Problem when it was refused.
type CompleteResult struct {
	RunID   string   `json:"run_id"`
	Status  string   `json:"status,omitempty"`
	Problem *Problem `json:"problem,omitempty"`
}

// CompleteBatchResult answers a batch of completions, in order. Runs and
// ClaimProblem are those of Ended.
type CompleteBatchResult struct {
	Results      []CompleteResult `json:"results"`
	Runs         *[]Grant         `json:"runs,omitempty"`
	ClaimProblem *Problem         `json:"claim_problem,omitempty"`
}

// Stop is the body of POST /v1/runs/{id}/cancel and /terminate; it may be empty.
type Stop struct {
	Reason string `json:"reason,omitempty"`
}

// Stopped answers cancel and terminate. Changed is false when the run had ended, or
// was asked to stop, before.
type Stopped struct {
	RunID   string `json:"run_id"`
	Status  string `json:"status"`
	Changed bool   `json:"changed"`
}
