package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/pyrula/pyrula-node/flow"
)

// Checks look at one request alone: names, bounds and what isn't served yet. They
// know no state, and they rely on the decoder for two things: a json.RawMessage is
// well-formed JSON, and what is required stands there. Every refusal is a
// *flow.FieldError that names the field as the sender wrote it.

// triggers are what a client may say about where its run comes from.
var triggers = []string{"client", "case", "replay", "eval"}

// notServed refuses a field that is known and not served by this version.
func notServed(field string) error {
	return flow.Invalid(field, "must be left out: it is not served by this version")
}

// within puts a place before the field of an error, and is nil for nil.
func within(prefix string, err error) error {
	if err == nil {
		return nil
	}
	return flow.At(prefix, err)
}

// entry is the place of one entry of a list.
func entry(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]." }

func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// checkWorkflow is flow.CheckWorkflowName for a name inside a request, where it is
// an argument and not configuration.
func checkWorkflow(field, name string) error {
	var f *flow.FieldError
	if err := flow.CheckWorkflowName(name); errors.As(err, &f) {
		return flow.Invalid(field, f.Want)
	}
	return nil
}

func checkVersion(field, version string) error {
	if version != "" && !flow.ValidName(version) {
		return flow.Invalid(field, "must be empty or "+flow.NameRule)
	}
	return nil
}

func checkWorker(name string) error {
	if !flow.ValidName(name) {
		return flow.Invalid("worker", "must be "+flow.NameRule)
	}
	return nil
}

func checkFence(fence uint64) error {
	if fence == 0 {
		return flow.Invalid("fence", "must be the fence of the grant, an integer of at least 1")
	}
	return nil
}

func checkRunID(id string) error {
	if _, err := flow.ParseRunID(id); err != nil {
		return flow.Invalid("run_id", `must be "run_" and 26 characters of Crockford's base 32`)
	}
	return nil
}

func checkSize(field string, n, most int) error {
	if n > most {
		return flow.Invalid(field, fmt.Sprintf("must be at most %d bytes", most))
	}
	return nil
}

func checkCount(field string, n, most int) error {
	if n < 1 || n > most {
		return flow.Invalid(field, fmt.Sprintf("must hold 1 to %d entries", most))
	}
	return nil
}

// CheckWait refuses the wait of a long poll out of bounds (P57).
func CheckWait(field string, ms int64) error {
	if ms < 0 || ms > MaxWaitMillis {
		return flow.Invalid(field, fmt.Sprintf("must be an integer from 0 to %d", MaxWaitMillis))
	}
	return nil
}

// Check refuses what a single submit may not say. Error: *flow.FieldError.
func (s *Submit) Check() error {
	switch {
	case len(s.Params) > flow.MaxPayloadBytes:
		return checkSize("params", len(s.Params), flow.MaxPayloadBytes)
	case len(s.Params) > 0 && s.Params[0] != '{':
		return flow.Invalid("params", "must be a JSON object")
	case s.IdempotencyKey != nil && (*s.IdempotencyKey == "" || len(*s.IdempotencyKey) > flow.MaxIdempotencyKeyBytes):
		return flow.Invalid("idempotency_key", fmt.Sprintf("must be 1 to %d bytes", flow.MaxIdempotencyKeyBytes))
	case s.Trigger != "" && !slices.Contains(triggers, s.Trigger):
		return flow.Invalid("trigger", "must be client, case, replay or eval")
	case present(s.Budget):
		return notServed("budget")
	}
	if err := checkSize("request_id", len(s.RequestID), flow.MaxRequestIDBytes); err != nil {
		return err
	}
	if s.Stamp == nil {
		return nil
	}
	return within("stamp.", s.Stamp.Check())
}

// Check refuses a stamp with a bad version or a key that is too long (P20).
func (s *Stamp) Check() error {
	if err := checkVersion("version", s.Version); err != nil || s.Keys == nil {
		return err
	}
	if s.Keys.Limit != nil {
		if err := flow.CheckKey("keys.limit", *s.Keys.Limit); err != nil {
			return err
		}
	}
	if s.Keys.Rate != nil {
		return flow.CheckKey("keys.rate", *s.Keys.Rate)
	}
	return nil
}

// Check refuses the whole batch for the first bad entry, so that a typing error
// in one never leaves the others half sent.
func (b *Batch) Check() error {
	if err := checkCount("runs", len(b.Runs), MaxBatch); err != nil {
		return err
	}
	for i := range b.Runs {
		if err := checkWorkflow("workflow", b.Runs[i].Workflow); err != nil {
			return within(entry("runs", i), err)
		}
		if err := b.Runs[i].Check(); err != nil {
			return within(entry("runs", i), err)
		}
	}
	return nil
}

// Check refuses a claim out of bounds. A credit of 0 is legal: it says that the
// worker is alive and takes nothing.
func (c *Claim) Check() error {
	if err := checkWorker(c.Worker); err != nil {
		return err
	}
	if err := checkCount("workflows", len(c.Workflows), MaxWorkflows); err != nil {
		return err
	}
	for i := range c.Workflows {
		if err := c.Workflows[i].check(); err != nil {
			return within(entry("workflows", i), err)
		}
		name := c.Workflows[i].Name
		if slices.ContainsFunc(c.Workflows[:i], func(w ClaimWorkflow) bool { return w.Name == name }) {
			return flow.Invalid(entry("workflows", i)+"name", "must not stand twice: one claim serves one version of a workflow")
		}
	}
	if c.Credit < 0 || c.Credit > MaxBatch {
		return flow.Invalid("credit", fmt.Sprintf("must be an integer from 0 to %d", MaxBatch))
	}
	return CheckWait("wait_ms", c.WaitMS)
}

func (w *ClaimWorkflow) check() error {
	if err := checkWorkflow("name", w.Name); err != nil {
		return err
	}
	if err := checkVersion("version", w.Version); err != nil {
		return err
	}
	return checkSize("gates_hash", len(w.GatesHash), flow.MaxNameBytes)
}

// Check refuses a heartbeat without a worker, and a run without id or fence.
func (h *Heartbeat) Check() error {
	if err := checkWorker(h.Worker); err != nil {
		return err
	}
	if err := checkCount("runs", len(h.Runs), MaxBatch); err != nil {
		return err
	}
	for i := range h.Runs {
		if err := errors.Join(checkRunID(h.Runs[i].RunID), checkFence(h.Runs[i].Fence)); err != nil {
			return within(entry("runs", i), err)
		}
	}
	return nil
}

func checkClaim(c *Claim) error {
	if c == nil {
		return nil
	}
	return within("claim.", c.Check())
}

// Check refuses a completion without a fence, a result that is too long, and a
// bad claim.
func (c *Complete) Check() error {
	if err := checkFence(c.Fence); err != nil {
		return err
	}
	if err := checkSize("result", len(c.Result), flow.MaxPayloadBytes); err != nil {
		return err
	}
	return checkClaim(c.Claim)
}

// Check refuses a batch of completions for the first bad entry, before any counts.
func (b *CompleteBatch) Check() error {
	if err := checkCount("runs", len(b.Runs), MaxBatch); err != nil {
		return err
	}
	for i := range b.Runs {
		c := &b.Runs[i]
		err := errors.Join(checkRunID(c.RunID), checkFence(c.Fence), checkSize("result", len(c.Result), flow.MaxPayloadBytes))
		if err != nil {
			return within(entry("runs", i), err)
		}
	}
	return checkClaim(b.Claim)
}

// Check refuses a failure without a fence or without a type of error.
func (f *Fail) Check() error {
	if err := checkFence(f.Fence); err != nil {
		return err
	}
	if n := len(f.Error.Type); n < 1 || n > flow.MaxErrorTypeBytes {
		return flow.Invalid("error.type", fmt.Sprintf("must be 1 to %d bytes", flow.MaxErrorTypeBytes))
	}
	if err := checkSize("error.message", len(f.Error.Message), flow.MaxErrorMessageBytes); err != nil {
		return err
	}
	return checkClaim(f.Claim)
}

// Check refuses a suspension that waits for nothing, for two things, or out of bounds.
func (s *Suspend) Check() error {
	if err := checkFence(s.Fence); err != nil {
		return err
	}
	if s.Step != "" {
		if err := checkName("step", s.Step); err != nil {
			return err
		}
	}
	if err := checkVisit(s.Visit); err != nil {
		return err
	}
	if err := within("until.", s.Until.check()); err != nil {
		return err
	}
	return checkClaim(s.Claim)
}

func (u *Until) check() error {
	kinds := 0
	for _, given := range [...]bool{u.AtMS != nil, u.Signal != "", u.Runs != nil} {
		if given {
			kinds++
		}
	}
	switch {
	case kinds == 0:
		return flow.Invalid("at_ms", "is required, unless signal or runs is given")
	case kinds > 1:
		return flow.Invalid("at_ms", "must stand alone: a run waits for a moment, a signal or runs")
	case u.TimeoutSeconds != nil && u.Signal == "":
		return flow.Invalid("timeout_seconds", "belongs to a signal")
	case u.Signal != "" && !flow.ValidName(u.Signal):
		return checkName("signal", u.Signal)
	case u.TimeoutSeconds != nil && !(*u.TimeoutSeconds >= 0 && *u.TimeoutSeconds <= Seconds(flow.MaxTimeout)):
		return flow.Invalid("timeout_seconds", fmt.Sprintf("must be a number of seconds from 0 to %g", Seconds(flow.MaxTimeout)))
	case u.AtMS != nil && *u.AtMS < 0:
		return flow.Invalid("at_ms", "must be Unix milliseconds, an integer of at least 0")
	case u.Runs == nil:
		return nil
	}
	if err := checkCount("runs", len(u.Runs), MaxAwaited); err != nil {
		return err
	}
	seen := make(map[flow.RunID]bool, len(u.Runs))
	for i, text := range u.Runs {
		id, err := flow.ParseRunID(text)
		known := seen[id]
		if seen[id] = true; err != nil || known {
			return flow.Invalid("runs["+strconv.Itoa(i)+"]", `must be a run id, "run_" and 26 characters, that stands once`)
		}
	}
	return nil
}

// Check refuses a reason that is too long.
func (s *Stop) Check() error { return checkSize("reason", len(s.Reason), flow.MaxReasonBytes) }

// Check refuses filters that name nothing, and a page that is too long.
func (q *ListQuery) Check() error {
	if q.Workflow != "" {
		if err := checkWorkflow("workflow", q.Workflow); err != nil {
			return err
		}
	}
	if q.Key != nil {
		if err := flow.CheckKey("key", *q.Key); err != nil {
			return err
		}
	}
	if _, known := flow.ParseStatus(q.Status); q.Status != "" && !known {
		return flow.Invalid("status", "must be one of queued, executing, suspended, completed, failed, cancelled, terminated, continued")
	}
	if q.Limit < 0 || q.Limit > MaxListLimit {
		return flow.Invalid("limit", fmt.Sprintf("must be an integer from 1 to %d", MaxListLimit))
	}
	return checkSize("cursor", len(q.Cursor), MaxCursorBytes)
}
