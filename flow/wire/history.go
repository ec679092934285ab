package wire

import (
	"encoding/json"
	"fmt"

	"github.com/pyrula/pyrula-node/flow"
)

// Bounds of what a body records. A value at the bound is legal.
const (
	MaxSteps    = 100 // steps, and signals to take, in one request
	MaxChildren = flow.MaxChildren
	MaxAwaited  = flow.MaxAwaited
	// MaxHistoryBytes bounds the history in one grant or one page; a single entry may be
	// larger.
	MaxHistoryBytes = 512 << 10
)

// The kinds of a durable wait.
const (
	WaitMoment = "moment"
	WaitSignal = "signal"
	WaitRuns   = "runs"
)

// The kinds of a child.
const (
	ChildKind    = "child"    // the body may wait for it, and a cancel reaches it then
	WorkflowKind = "workflow" // started, and on its own from then on
)

// Step is a step's outcome, recorded once: the Visit-th call of Name in the body.
// Error stands instead of Result when the body went on after the step had failed. Seq
// is its place in the run's history; a request leaves it out. CostUnits is kept for
// budgets.
type Step struct {
	Seq       int64           `json:"seq,omitempty"`
	Name      string          `json:"name"`
	Visit     int64           `json:"visit,omitempty"` // 1 when it is left out
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *RunError       `json:"error,omitempty"`
	CostUnits int64           `json:"cost_units,omitempty"`
}

// Signal is a signal that a run keeps: one that woke its last wait, until the body
// records a step or waits again, and those that no wait has got yet. Number counts the
// run's signals from 1; Delivered says that the last wait got it.
type Signal struct {
	Name      string          `json:"name"`
	Payload   json.RawMessage `json:"payload"`
	Number    int64           `json:"number,omitempty"`
	At        int64           `json:"at,omitempty"`
	Delivered bool            `json:"delivered,omitempty"`
}

// WaitEnd is a durable wait that is over: the Visit-th of its Kind and Name. A wait for
// a signal has its Payload, or TimedOut; one for runs has their Outcomes, in the order
// in which they were asked for.
type WaitEnd struct {
	Seq      int64           `json:"seq"`
	Kind     string          `json:"kind"`
	Name     string          `json:"name"`
	Visit    int64           `json:"visit"`
	TimedOut bool            `json:"timed_out,omitempty"`
	Payload  json.RawMessage `json:"payload,omitempty"`
	Outcomes []Outcome       `json:"outcomes,omitempty"`
}

// Outcome is how an awaited run ended. RunID is the id that was asked for; of a run
// that was handed on the outcome is its last successor's. Status is "unknown" when no
// run has the id.
type Outcome struct {
	RunID  string          `json:"run_id"`
	Status string          `json:"status"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *RunError       `json:"error,omitempty"`
}

// ChildGroup is the runs that one call of a body has started.
type ChildGroup struct {
	Seq   int64    `json:"seq"`
	Step  string   `json:"step"`
	Visit int64    `json:"visit"`
	Kind  string   `json:"kind"`
	Runs  []string `json:"runs"`
}

// History is a page of what a run has recorded, in three lists that Seq puts in one
// order. It answers GET /v1/runs/{id}/steps?after=; Next is the after of the next page,
// null on the last.
type History struct {
	Steps    []Step       `json:"steps"`
	Waits    []WaitEnd    `json:"waits"`
	Children []ChildGroup `json:"children"`
	Next     *int64       `json:"next"`
}

// Steps is the body of POST /v1/runs/{id}/steps: outcomes to record, signals to take
// without suspending, and the run's state, which replaces the one before. All of it is
// recorded at once, or nothing.
type Steps struct {
	Fence   uint64          `json:"fence"`
	Steps   []Step          `json:"steps,omitempty"`
	Signals []SignalTake    `json:"signals,omitempty"`
	State   json.RawMessage `json:"state,omitempty"`
	Claim   *Claim          `json:"claim,omitempty"`
}

// SignalTake asks for the oldest kept signal of a name, for the Visit-th wait of that
// name. When there is none nothing is recorded for it, and the answer leaves it out.
type SignalTake struct {
	Name  string `json:"name"`
	Visit int64  `json:"visit"`
}

// Recorded answers POST /v1/runs/{id}/steps: Status is executing, or failed when the
// history would have become too large; Waits are the signals that were taken, now or by
// an earlier sending of the same request.
type Recorded struct {
	RunID        string    `json:"run_id"`
	Status       string    `json:"status"`
	Waits        []WaitEnd `json:"waits"`
	Runs         *[]Grant  `json:"runs,omitempty"`
	ClaimProblem *Problem  `json:"claim_problem,omitempty"`
}

// ChildRun is one run that a body starts. See Submit.
type ChildRun struct {
	Workflow       string          `json:"workflow"`
	Params         json.RawMessage `json:"params,omitempty"`
	IdempotencyKey *string         `json:"idempotency_key,omitempty"`
	Stamp          *Stamp          `json:"stamp,omitempty"`
}

// Children is the body of POST /v1/runs/{id}/children: the Visit-th call of Step starts
// these runs. The same call again answers the runs of the first time.
type Children struct {
	Fence uint64     `json:"fence"`
	Kind  string     `json:"kind,omitempty"` // child (default) or workflow
	Step  string     `json:"step,omitempty"` // defaults to the first run's workflow
	Visit int64      `json:"visit,omitempty"`
	Runs  []ChildRun `json:"runs"`
	Claim *Claim     `json:"claim,omitempty"`
}

// ChildrenStarted answers Children. Created is false when the runs were started before.
type ChildrenStarted struct {
	RunID        string   `json:"run_id"`
	RunIDs       []string `json:"run_ids"`
	Created      bool     `json:"created"`
	Runs         *[]Grant `json:"runs,omitempty"`
	ClaimProblem *Problem `json:"claim_problem,omitempty"`
}

// SignalRequest is POST /v1/runs/{id}/signals/{signal}: the body is Payload, any JSON,
// and null when it is empty. RequestID, from the header Idempotency-Key, makes a repeat
// answer the first one's number. Payload owns its bytes.
type SignalRequest struct {
	Name      string
	Payload   json.RawMessage
	RequestID string
}

// Signalled answers POST /v1/runs/{id}/signals/{signal}: RunID is the run that keeps the
// signal, the last successor of the one that was asked for. Created is false for the
// repeat of a request with an Idempotency-Key.
type Signalled struct {
	RunID   string `json:"run_id"`
	Status  string `json:"status"`
	Number  int64  `json:"number"`
	Created bool   `json:"created"`
}

// Retry is the body of POST /v1/runs/{id}/retry; it may be empty.
type Retry struct {
	RequestID string `json:"request_id,omitempty"`
}

// Candidate is a queued run whose gates differ from those of a version that a worker
// serves, and whose key under them only the worker's code can compute. The worker has
// no lease on it: it answers with a Resolution.
type Candidate struct {
	RunID     string          `json:"run_id"`
	Workflow  string          `json:"workflow"`
	Version   string          `json:"version"`
	GatesHash string          `json:"gates_hash"`
	Params    json.RawMessage `json:"params"`
}

// Resolution is the keys of one candidate, or why they can't be computed.
type Resolution struct {
	RunID     string     `json:"run_id"`
	Version   string     `json:"version"`
	GatesHash string     `json:"gates_hash"`
	Keys      *StampKeys `json:"keys,omitempty"`
	Problem   string     `json:"problem,omitempty"`
}

// Resolve is the body of POST /v1/resolutions: at most MaxBatch candidates.
type Resolve struct {
	Worker string       `json:"worker"`
	Runs   []Resolution `json:"runs"`
}

// Resolved answers Resolve, in order: HandedOn says that a successor took the run's place.
type Resolved struct {
	Runs []ResolvedRun `json:"runs"`
}

// ResolvedRun is what became of one candidate.
type ResolvedRun struct {
	RunID    string `json:"run_id"`
	HandedOn bool   `json:"handed_on"`
}

func checkName(field, name string) error {
	if !flow.ValidName(name) {
		return flow.Invalid(field, "must be "+flow.NameRule)
	}
	return nil
}

func checkVisit(visit int64) error {
	if visit < 0 || visit > flow.MaxVisits {
		return flow.Invalid("visit", fmt.Sprintf("must be an integer from 1 to %d", flow.MaxVisits))
	}
	return nil
}

// Check refuses steps without a name, out of bounds, or with both a result and an error.
func (s *Steps) Check() error {
	if err := checkFence(s.Fence); err != nil {
		return err
	}
	if len(s.Steps) > MaxSteps {
		return flow.Invalid("steps", fmt.Sprintf("must hold at most %d entries", MaxSteps))
	}
	if len(s.Signals) > MaxSteps {
		return flow.Invalid("signals", fmt.Sprintf("must hold at most %d entries", MaxSteps))
	}
	for i := range s.Steps {
		if err := s.Steps[i].check(); err != nil {
			return within(entry("steps", i), err)
		}
	}
	for i, t := range s.Signals {
		err := checkName("name", t.Name)
		if err == nil {
			err = checkVisit(t.Visit)
		}
		if err != nil {
			return within(entry("signals", i), err)
		}
	}
	switch {
	case present(s.State) && s.State[0] != '{':
		return flow.Invalid("state", "must be a JSON object")
	case len(s.State) > flow.MaxPayloadBytes:
		return checkSize("state", len(s.State), flow.MaxPayloadBytes)
	case len(s.Steps)+len(s.Signals) == 0 && !present(s.State):
		return flow.Invalid("steps", "must hold a step, unless signals or state is given")
	}
	return checkClaim(s.Claim)
}

func (s *Step) check() error {
	switch {
	case !flow.ValidName(s.Name):
		return checkName("name", s.Name)
	case s.Seq != 0:
		return flow.Invalid("seq", "must be left out: the node counts")
	case s.Error != nil && present(s.Result):
		return flow.Invalid("error", "must not stand beside a result")
	case s.Error != nil && (len(s.Error.Type) < 1 || len(s.Error.Type) > flow.MaxErrorTypeBytes):
		return flow.Invalid("error.type", fmt.Sprintf("must be 1 to %d bytes", flow.MaxErrorTypeBytes))
	case s.Error != nil && len(s.Error.Message) > flow.MaxErrorMessageBytes:
		return checkSize("error.message", len(s.Error.Message), flow.MaxErrorMessageBytes)
	case s.CostUnits < 0 || s.CostUnits > flow.MaxCostUnits:
		return flow.Invalid("cost_units", fmt.Sprintf("must be an integer from 0 to %d", flow.MaxCostUnits))
	}
	return checkVisit(s.Visit)
}

// Check refuses children out of bounds, and a kind that doesn't exist.
func (c *Children) Check() error {
	if err := checkFence(c.Fence); err != nil {
		return err
	}
	if c.Kind != "" && c.Kind != ChildKind && c.Kind != WorkflowKind {
		return flow.Invalid("kind", "must be child or workflow")
	}
	if c.Step != "" {
		if err := checkName("step", c.Step); err != nil {
			return err
		}
	}
	if err := checkVisit(c.Visit); err != nil {
		return err
	}
	if err := checkCount("runs", len(c.Runs), MaxChildren); err != nil {
		return err
	}
	for i := range c.Runs {
		r := &c.Runs[i]
		if err := checkWorkflow("workflow", r.Workflow); err != nil {
			return within(entry("runs", i), err)
		}
		s := Submit{Params: r.Params, IdempotencyKey: r.IdempotencyKey, Stamp: r.Stamp}
		if err := s.Check(); err != nil {
			return within(entry("runs", i), err)
		}
	}
	return checkClaim(c.Claim)
}

// Check refuses a request id that is too long.
func (r *Retry) Check() error {
	return checkSize("request_id", len(r.RequestID), flow.MaxRequestIDBytes)
}

// Check refuses a signal's name, payload or request id out of bounds.
func (s *SignalRequest) Check() error {
	if err := checkName("signal", s.Name); err != nil {
		return err
	}
	if err := checkSize("payload", len(s.Payload), flow.MaxPayloadBytes); err != nil {
		return err
	}
	return checkSize("Idempotency-Key", len(s.RequestID), flow.MaxRequestIDBytes)
}

// Check refuses resolutions without a run, or without keys and without a problem.
func (r *Resolve) Check() error {
	if err := checkWorker(r.Worker); err != nil {
		return err
	}
	if err := checkCount("runs", len(r.Runs), MaxBatch); err != nil {
		return err
	}
	for i := range r.Runs {
		if err := r.Runs[i].check(); err != nil {
			return within(entry("runs", i), err)
		}
	}
	return nil
}

func (r *Resolution) check() error {
	if err := checkRunID(r.RunID); err != nil {
		return err
	}
	if err := checkVersion("version", r.Version); err != nil {
		return err
	}
	switch {
	case len(r.GatesHash) > flow.MaxNameBytes:
		return checkSize("gates_hash", len(r.GatesHash), flow.MaxNameBytes)
	case (r.Keys == nil) == (r.Problem == ""):
		return flow.Invalid("keys", "must be given, or a problem instead")
	case len(r.Problem) > flow.MaxErrorMessageBytes:
		return checkSize("problem", len(r.Problem), flow.MaxErrorMessageBytes)
	case r.Keys == nil:
		return nil
	}
	s := Stamp{Keys: r.Keys}
	return s.Check()
}
