// Package wire holds the shapes of requests and responses: what the HTTP API
// speaks as JSON, and what the Go SDK sends. Names are snake_case, times are Unix
// milliseconds, durations carry their unit in the name. Fields may be added,
// never renamed.
//
// The package has shapes and their checks only; it opens no connection and knows
// no server.
package wire

// Paths of the HTTP API that programs build; {name}, {id}, {workflow} and {key}
// are percent-encoded single segments.
const (
	PathWorkflows  = "/v1/workflows"
	PathRuns       = "/v1/runs"
	PathBatch      = "/v1/runs:batch"
	PathCompletion = "/v1/runs:complete"
	PathClaims     = "/v1/claims"
	PathHeartbeats = "/v1/heartbeats"
	PathResolve    = "/v1/resolutions"
	PathSchedules  = "/v1/schedules"
	PathKeys       = "/v1/keys"
	PathNode       = "/v1/node"
	PathProblems   = "/v1/problems"
	PathLive       = "/livez"
	PathReady      = "/readyz"
	PathHealth     = "/healthz" // another name of PathLive
	PathMetrics    = "/metrics"
	PathOpenAPI    = "/openapi.json"
)

// DefaultAddr is where a node listens unless told otherwise.
const DefaultAddr = "127.0.0.1:7477"

// ContentProblem and ContentJSON are the media types of answers.
const (
	ContentJSON    = "application/json"
	ContentProblem = "application/problem+json"
)

// Bounds of requests. A value at the bound is legal.
const (
	MaxBodyBytes  = 1 << 20 // a request body; beyond it 413
	MaxBatch      = 256     // runs in one batch, credit of one claim, heartbeats in one request
	MaxWaitMillis = 30_000  // of a long poll; a longer wait is refused
	MaxListLimit  = 500     // runs in one page of a list
	MaxWorkflows  = 256     // workflows in one claim
	// MaxCursorBytes bounds the cursor of a list, which nodes make and clients give back.
	MaxCursorBytes = 4 << 10
)
