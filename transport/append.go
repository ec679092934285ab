package transport

import (
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// The responses of the hot path are appended by hand. They read as encoding/json
// writes them, save that a list is never null and that raw JSON stays as it was
// sent, white space included.

func appendSubmitted(b []byte, s *wire.Submitted) []byte {
	b = append(b, '{')
	if s.RunID != "" {
		b = append(appendText(append(b, `"run_id":`...), s.RunID), ',')
	}
	if s.Status != "" {
		b = append(appendText(append(b, `"status":`...), s.Status), ',')
	}
	b = strconv.AppendBool(append(b, `"created":`...), s.Created)
	if s.Problem != nil {
		b = appendProblem(append(b, `,"problem":`...), s.Problem)
	}
	return append(b, '}')
}

func appendShort(b []byte, runID string) []byte {
	return append(appendText(append(b, `{"run_id":`...), runID), '}')
}

func appendBatchResult(b []byte, runs []wire.Submitted) []byte {
	return append(appendList(append(b, `{"runs":`...), runs, appendSubmitted), '}')
}

func appendClaimed(b []byte, c *wire.Claimed) []byte {
	b = appendList(append(b, `{"runs":`...), c.Runs, appendGrant)
	if len(c.Resolve) > 0 {
		b = appendList(append(b, `,"resolve":`...), c.Resolve, appendCandidate)
	}
	return append(b, '}')
}

func appendTriggered(b []byte, t *wire.Triggered) []byte {
	b = append(b, `{"run_id":`...)
	if t.RunID == nil {
		b = append(b, "null"...) // as nearly always
	} else {
		b = appendText(b, *t.RunID)
	}
	if t.Problem != nil {
		b = appendProblem(append(b, `,"problem":`...), t.Problem)
	}
	return append(b, '}')
}

func appendEventsResult(b []byte, events []wire.Triggered) []byte {
	return append(appendList(append(b, `{"events":`...), events, appendTriggered), '}')
}

// appendLines writes each result on a line of its own.
func appendLines(b []byte, events []wire.Triggered) []byte {
	for i := range events {
		b = append(appendTriggered(b, &events[i]), '\n')
	}
	return b
}

// appendList writes an array, each of its entries by one.
func appendList[T any](b []byte, list []T, one func([]byte, *T) []byte) []byte {
	b = append(b, '[')
	for i := range list {
		b = one(comma(b, i), &list[i])
	}
	return append(b, ']')
}

func appendGrant(b []byte, g *wire.Grant) []byte {
	b = appendText(append(b, `{"run_id":`...), g.RunID)
	b = appendText(append(b, `,"workflow":`...), g.Workflow)
	b = appendText(append(b, `,"version":`...), g.Version)
	b = appendText(append(b, `,"key":`...), g.Key)
	b = appendRaw(append(b, `,"params":`...), g.Params)
	b = strconv.AppendInt(append(b, `,"attempt":`...), g.Attempt, 10)
	b = strconv.AppendUint(append(b, `,"fence":`...), g.Fence, 10)
	b = appendNumber(append(b, `,"lease_seconds":`...), g.LeaseSeconds)
	if len(g.Steps)+len(g.Signals)+len(g.Waits)+len(g.Children) == 0 && g.HistoryNext == nil {
		b = append(b, noHistory...) // as nearly always
	} else {
		b = appendGrantHistory(b, g)
	}
	b = appendRaw(append(b, `,"state":`...), g.State)
	b = strconv.AppendBool(append(b, `,"cancel_requested":`...), g.CancelRequested)
	return append(b, '}')
}

func appendHeartbeatResult(b []byte, runs []wire.BeatResult) []byte {
	return append(appendList(append(b, `{"runs":`...), runs, appendBeatResult), '}')
}

func appendBeatResult(b []byte, r *wire.BeatResult) []byte {
	b = appendText(append(b, `{"run_id":`...), r.RunID)
	b = strconv.AppendBool(append(b, `,"ok":`...), r.OK)
	return append(strconv.AppendBool(append(b, `,"cancel_requested":`...), r.CancelRequested), '}')
}

func appendEnded(b []byte, e *wire.Ended) []byte {
	b = appendText(append(b, `{"run_id":`...), e.RunID)
	b = appendText(append(b, `,"status":`...), e.Status)
	return append(appendClaimAfter(b, e.Runs, e.ClaimProblem), '}')
}

func appendClaimAfter(b []byte, runs *[]wire.Grant, p *wire.Problem) []byte {
	if runs != nil {
		b = appendList(append(b, `,"runs":`...), *runs, appendGrant)
	}
	if p != nil {
		b = appendProblem(append(b, `,"claim_problem":`...), p)
	}
	return b
}

func appendCompleteBatchResult(b []byte, r *wire.CompleteBatchResult) []byte {
	b = appendList(append(b, `{"results":`...), r.Results, appendCompleteResult)
	return append(appendClaimAfter(b, r.Runs, r.ClaimProblem), '}')
}

func appendCompleteResult(b []byte, r *wire.CompleteResult) []byte {
	b = appendText(append(b, `{"run_id":`...), r.RunID)
	if r.Status != "" {
		b = appendText(append(b, `,"status":`...), r.Status)
	}
	if r.Problem != nil {
		b = appendProblem(append(b, `,"problem":`...), r.Problem)
	}
	return append(b, '}')
}

func appendProblem(b []byte, p *wire.Problem) []byte {
	b = appendText(append(b, `{"type":`...), p.Type)
	b = appendText(append(b, `,"title":`...), p.Title)
	b = strconv.AppendInt(append(b, `,"status":`...), int64(p.Status), 10)
	b = appendText(append(b, `,"detail":`...), p.Detail)
	b = appendText(append(b, `,"code":`...), p.Code)
	b = strconv.AppendBool(append(b, `,"retryable":`...), p.Retryable)
	b = appendOptional(append(b, `,"field":`...), p.Field, len(`,"field":`))
	b = appendOptional(append(b, `,"run_id":`...), p.RunID, len(`,"run_id":`))
	b = appendOptional(append(b, `,"key":`...), p.Key, len(`,"key":`))
	b = appendOptional(append(b, `,"gate":`...), p.Gate, len(`,"gate":`))
	if p.RetryAfterMS != 0 {
		b = strconv.AppendInt(append(b, `,"retry_after_ms":`...), p.RetryAfterMS, 10)
	}
	return append(b, '}')
}

// appendOptional takes the name of a text back, of n bytes, when the text is empty.
func appendOptional(b []byte, text string, n int) []byte {
	if text == "" {
		return b[:len(b)-n]
	}
	return appendText(b, text)
}

// comma goes before every element but the first.
func comma(b []byte, i int) []byte {
	if i > 0 {
		return append(b, ',')
	}
	return b
}

func appendRaw(b []byte, raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return append(b, "null"...)
	}
	return append(b, raw...)
}

// appendNumber writes a finite number as encoding/json does: as short as it can
// be, with an exponent only for the very large and the very small.
func appendNumber(b []byte, f float64) []byte {
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 && !(f == 0 && math.Signbit(f)) {
		return strconv.AppendInt(b, int64(f), 10)
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	b = strconv.AppendFloat(b, f, format, -1, 64)
	if n := len(b); format == 'e' && n >= 4 && b[n-4] == 'e' && b[n-3] == '-' && b[n-2] == '0' {
		b = append(b[:n-2], b[n-1]) // e-09 is e-9
	}
	return b
}

const hexDigits = "0123456789abcdef"

// appendText writes a string. Text that isn't UTF-8 becomes U+FFFD.
func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		n, escape := 1, ""
		if c >= utf8.RuneSelf {
			n, escape = wideEscape(s[i:])
			if escape == "" {
				i += n
				continue
			}
		}
		b = append(b, s[from:i]...)
		if escape != "" {
			b = append(b, escape...)
		} else {
			b = appendEscape(b, c)
		}
		i += n
		from = i
	}
	return append(append(b, s[from:]...), '"')
}

// wideEscape is the escape of the character that s begins with, if it has one:
// U+2028 and U+2029 end lines in JavaScript.
func wideEscape(s string) (n int, escape string) {
	c, n := utf8.DecodeRuneInString(s)
	switch {
	case c == utf8.RuneError && n == 1:
		return n, `\ufffd`
	case c == '\u2028':
		return n, `\u2028`
	case c == '\u2029':
		return n, `\u2029`
	}
	return n, ""
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\b':
		return append(b, `\b`...)
	case '\f':
		return append(b, `\f`...)
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	}
	return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}
