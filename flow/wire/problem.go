package wire

import "fmt"

// Problem is an RFC 9457 problem document: the body of every refusal. Type is a
// reference relative to the node's address; GET on it answers a ProblemType.
type Problem struct {
	Type         string `json:"type"`
	Title        string `json:"title"`
	Status       int    `json:"status"`
	Detail       string `json:"detail"`
	Code         string `json:"code"`
	Retryable    bool   `json:"retryable"`       // the same request again is safe and may be taken
	Field        string `json:"field,omitempty"` // the field that is refused, where one is
	RunID        string `json:"run_id,omitempty"`
	Key          string `json:"key,omitempty"`
	Gate         string `json:"gate,omitempty"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
}

// ProblemType answers GET /v1/problems/{code}: what the code means, whoever asks.
type ProblemType struct {
	Code      string `json:"code"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Retryable bool   `json:"retryable"`
	Meaning   string `json:"meaning"` // for a person: what happened and what to do
}

// Error is "stale_fence: detail", so a Problem can travel as an error.
func (p *Problem) Error() string { return fmt.Sprintf("%s: %s", p.Code, p.Detail) }

// The codes of problems. They are only ever added to.
const (
	CodeConfiguration   = "configuration_error"
	CodeInvalid         = "invalid_argument"
	CodeUnknownField    = "unknown_field"
	CodeMalformed       = "malformed_body"
	CodeTooLarge        = "body_too_large"
	CodeUnknownRun      = "unknown_run"
	CodeUnknownWorkflow = "unknown_workflow"
	CodeNotFound        = "not_found"
	CodeMethod          = "method_not_allowed"
	CodeNotDeclared     = "not_declared"
	CodeStaleFence      = "stale_fence"
	CodeRunEnded        = "run_ended"
	CodeRunNotEnded     = "run_not_ended"
	CodeStepConflict    = "step_conflict"
	CodeHistoryTooLarge = "history_too_large"
	CodeUnknownSchedule = "unknown_schedule"
	CodeBufferFull      = "buffer_full"
	CodeOverloaded      = "overloaded"
	CodeArchiveBehind   = "archive_behind"
	CodeNotReady        = "not_ready"
	CodeOutcomeUnknown  = "outcome_unknown"
	CodeNotSupported    = "not_supported"
	CodeMediaType       = "unsupported_media_type"
	CodeServerBusy      = "server_busy"
	CodeCrossOrigin     = "cross_origin"
	CodeHost            = "misdirected_host"
	CodeInternal        = "internal"
)
