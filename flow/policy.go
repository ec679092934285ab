package flow

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Bounds of names, keys and bodies. A value at the bound is legal.
const (
	MaxNameBytes           = 128     // workflow, worker, version, signal and label names
	MaxKeyBytes            = 1 << 10 // a resolved key value
	MaxIdempotencyKeyBytes = 256
	MaxRequestIDBytes      = 64
	MaxReasonBytes         = 1 << 10
	MaxErrorTypeBytes      = 256
	MaxErrorMessageBytes   = 16 << 10
	MaxExpressionBytes     = 512            // of a key that is an expression, without its "cel:"
	MaxPayloadBytes        = 1<<20 - 16<<10 // params or result: a body of 1 MiB less its envelope
)

// Bounds of policies.
const (
	MaxLimit        = 1_000_000_000 // slots of one key
	MaxBurst        = 1_000_000_000
	MaxPerSecond    = 1e9             // one token a nanosecond
	MaxInterval     = 366 * Day       // the slowest rate: one start in this time
	MaxBucket       = 100 * 365 * Day // interval x burst; keeps bucket arithmetic far from wrapping
	MaxAttempts     = 1_000_000
	MaxBackoff      = 30 * Day
	MinLease        = 1 * Second
	MaxLease        = 1 * Day
	DefaultLease    = 30 * Second
	DefaultAttempts = 1
	DefaultBackoff  = 1 * Second
	MaxFields       = 64
)

// Bounds of what a body records.
const (
	MaxHistoryBytes  = 8 << 20   // steps, waits, children, kept signals and state of one run (R13)
	MaxVisits        = 1_000_000 // calls of one name in one body
	MaxChildren      = 128       // runs that one call starts
	MaxAwaited       = 128       // runs that one suspension waits for
	MaxWaiters       = 100       // runs that wait for the end of one run
	MaxSignals       = 10_000    // signals that one run keeps for waits to come
	MaxLuggageBytes  = 512 << 10 // signals that a run keeps before its first start: a successor takes them over at once
	MaxHistoryItems  = 100_000   // steps, waits and groups of children of one run
	MaxCostUnits     = 1 << 40
	MaxTimeout       = 100 * 365 * Day // of a wait for a signal
	MaxScheduleNames = 10_000          // schedules of one node
)

// KeySource says where the key of a policy comes from (P12): the parameter called Name,
// the expression that Name holds behind "cel:", or a function of the caller known by its
// Function label. The zero value is no source.
type KeySource struct {
	Name     string
	Function string
}

// expressionPrefix tells expressions from parameters in Name.
const expressionPrefix = "cel:"

// Expression is the expression that computes the key where a run is stamped, and whether
// it is one.
func (k KeySource) Expression() (string, bool) { return strings.CutPrefix(k.Name, expressionPrefix) }

// IsFunction says that only a process that has the workflow's code can resolve
// the key (P20).
func (k KeySource) IsFunction() bool { return k.Function != "" }

// functionPrefix tells functions from parameters in Text. No parameter that is a
// key may begin with it, so that two sources never share a text.
const functionPrefix = "function:"

// Text is the source in one string, for comparing and showing gates (P82).
func (k KeySource) Text() string {
	if k.IsFunction() {
		return functionPrefix + k.Function
	}
	return k.Name
}

// shown is the source for a sentence.
func (k KeySource) shown() string {
	switch expression, is := k.Expression(); {
	case is:
		return "the expression " + strconv.Quote(expression)
	case k.IsFunction():
		return "the function " + strconv.Quote(k.Function)
	}
	return "the parameter " + strconv.Quote(k.Name)
}

func (k KeySource) validate(field string) error {
	expression, isExpression := k.Expression()
	switch {
	case k.Name == "" && k.Function == "":
		return misconfigured(field, `must be the name of a parameter, "cel:" and an expression, or {"function": "label"}`)
	case k.Name != "" && k.Function != "":
		return misconfigured(field, "must be a parameter name or a function, not both")
	case isExpression && (expression == "" || len(expression) > MaxExpressionBytes):
		return misconfigured(field, `must be "cel:" and an expression of 1 to 512 bytes`)
	case isExpression:
		return nil // what it says is for its evaluator to check
	case strings.HasPrefix(k.Name, functionPrefix):
		return misconfigured(field, `must be the name of a parameter, or {"function": "label"}: "function:" is how a function's key is shown`)
	case k.Name != "" && !ValidName(k.Name):
		return misconfigured(field, "must be "+NameRule)
	case k.Function != "" && !ValidName(k.Function):
		return misconfigured(field+".function", "must be "+NameRule)
	}
	return nil
}

// Limit is the policy "at most Max runs with one key execute at once" (P3).
type Limit struct {
	Key KeySource
	Max int64 // slots, 1 to MaxLimit
}

// Rate is the policy "at most PerSecond starts a second for one key, in bursts of
// at most Burst" (P4).
type Rate struct {
	Key       KeySource
	PerSecond float64 // starts a second, more than 0
	Burst     int64   // tokens of a full bucket; 0 means PerSecond rounded up
}

// Validate reports the first fault as a *FieldError under field (P57).
func (l Limit) Validate(field string) error {
	if err := l.Key.validate(field + ".key"); err != nil {
		return err
	}
	if l.Max < 1 || l.Max > MaxLimit {
		return misconfigured(field+".max", "must be an integer from 1 to "+strconv.Itoa(MaxLimit))
	}
	return nil
}

// Validate reports the first fault as a *FieldError under field (P57).
func (r Rate) Validate(field string) error {
	if err := r.Key.validate(field + ".key"); err != nil {
		return err
	}
	if !(r.PerSecond > 0) || r.PerSecond > MaxPerSecond || float64(Second)/r.PerSecond > float64(MaxInterval) {
		return misconfigured(field+".per_second",
			"must be a number above 0: at most 1000000000, and at least one start in 366 days")
	}
	if r.Burst < 0 || r.Burst > MaxBurst {
		return misconfigured(field+".burst", "must be an integer from 1 to "+strconv.Itoa(MaxBurst))
	}
	if float64(r.Interval())*float64(r.burst()) > float64(MaxBucket) {
		return misconfigured(field+".burst", "must be smaller: the bucket would take over 100 years to fill")
	}
	return nil
}

// Interval is the time in which one token comes back, in whole nanoseconds and
// never too short, so that rounding can't let a run start early (P55).
func (r Rate) Interval() Span {
	exact := float64(Second) / r.PerSecond
	// A quotient within a part in 10^12 of a whole number is that number: 1/3 a
	// second means three seconds, not three seconds and a nanosecond.
	if near := math.Round(exact); near >= 1 && math.Abs(exact-near) <= near*1e-12 {
		return Span(near)
	}
	return Span(math.Ceil(exact))
}

func (r Rate) burst() int64 {
	if r.Burst > 0 {
		return r.Burst
	}
	return max(1, int64(math.Ceil(r.PerSecond)))
}

// PerSecond is the shortest decimal that declares the given interval: what a
// person wrote, found again from the integer that is kept.
func PerSecond(interval Span) float64 {
	exact := float64(Second) / float64(interval)
	for digits := 1; digits < 17; digits++ {
		v, err := strconv.ParseFloat(strconv.FormatFloat(exact, 'g', digits, 64), 64)
		if err == nil && v > 0 && (Rate{PerSecond: v}).Interval() == interval {
			return v
		}
	}
	return exact
}

// NameRule says in words what ValidName checks.
const NameRule = "1 to 128 bytes of UTF-8 without control characters"

// ValidName says whether s may name a workflow, worker, version, signal or label.
func ValidName(s string) bool {
	return s != "" && len(s) <= MaxNameBytes && cleanText(s)
}

func cleanText(s string) bool {
	for i, r := range s {
		if r < 0x20 || (r >= 0x7F && r < 0xA0) || (r == 0xFFFD && !strings.HasPrefix(s[i:], "\uFFFD")) {
			return false
		}
	}
	return true
}

// reserved are the top-level paths of the HTTP API; POST /{name} must not meet one.
var reserved = []string{"v1", "metrics", "livez", "readyz", "healthz", "openapi.json"}

// CheckWorkflowName refuses a workflow name that is not a name or that is the
// path of something else. Error: *FieldError.
func CheckWorkflowName(s string) error {
	if !ValidName(s) {
		return misconfigured("name", "must be "+NameRule)
	}
	if slices.Contains(reserved, s) {
		return misconfigured("name", "must not be one of the reserved names "+strings.Join(reserved, ", "))
	}
	return nil
}
