package main

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// Requests are built by hand and answers are looked through for the two things a
// worker needs: encoding/json would cost more than the rest of the client.

// payloadBytes is what each run carries beside its key.
const payloadBytes = 100

var payload = bytes.Repeat([]byte("x"), payloadBytes)

// appendParams is {"tenant":"k12","payload":"xxx..."}.
func appendParams(b []byte, key int) []byte {
	b = append(b, `{"tenant":"k`...)
	b = strconv.AppendInt(b, int64(key), 10)
	b = append(b, `","payload":"`...)
	b = append(b, payload...)
	return append(b, `"}`...)
}

// appendSubmit is the body of one submit.
func appendSubmit(b []byte, key int) []byte {
	b = append(b, `{"params":`...)
	b = appendParams(b, key)
	return append(b, '}')
}

// appendBatch is the body of a batch of submits, one for each key.
func appendBatch(b []byte, workflow string, keys []int) []byte {
	b = append(b, `{"runs":[`...)
	for i, key := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"workflow":"`...)
		b = append(b, workflow...)
		b = append(b, `","params":`...)
		b = appendParams(b, key)
		b = append(b, '}')
	}
	return append(b, `]}`...)
}

// claimBody is the body of a claim; it stays the same for a worker's life.
func claimBody(worker, workflow string, credit int, waitMS int) []byte {
	return fmt.Appendf(nil, `{"worker":%q,"workflows":[{"name":%q,"version":"1"}],"credit":%d,"wait_ms":%d}`,
		worker, workflow, credit, waitMS)
}

// held is a run that a worker holds: id and fence, and its key when it is asked for.
type held struct {
	id    string
	fence uint64
	key   string
}

// appendComplete is the body of one completion, with a claim in it unless that is
// nil.
func appendComplete(b []byte, fence uint64, claim []byte) []byte {
	b = append(b, `{"fence":`...)
	b = strconv.AppendUint(b, fence, 10)
	return appendClaim(b, claim)
}

// appendCompletions is the body of a batch of completions.
func appendCompletions(b []byte, runs []held, claim []byte) []byte {
	b = append(b, `{"runs":[`...)
	for i := range runs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"run_id":"`...)
		b = append(b, runs[i].id...)
		b = append(b, `","fence":`...)
		b = strconv.AppendUint(b, runs[i].fence, 10)
		b = append(b, '}')
	}
	return appendClaim(append(b, ']'), claim)
}

func appendClaim(b, claim []byte) []byte {
	if claim != nil {
		b = append(b, `,"claim":`...)
		b = append(b, claim...)
	}
	return append(b, '}')
}

var (
	fieldRunID   = []byte(`"run_id":"`)
	fieldFence   = []byte(`"fence":`)
	fieldKey     = []byte(`"key":"`)
	fieldProblem = []byte(`problem":{`) // of an entry, or claim_problem
	fieldClaimed = []byte(`"runs":[`)
)

// errShape is an answer that isn't what the API promises.
var errShape = errors.New("an answer isn't what was asked for")

// grants reads the runs of an answer to a claim, alone or behind a completion. It
// relies on the fields' order: run_id, key, fence.
func grants(to []held, body []byte) ([]held, error) {
	at := bytes.LastIndex(body, fieldClaimed)
	if at < 0 {
		return to, fmt.Errorf("%w: no runs in %s", errShape, shown(body))
	}
	for rest := body[at:]; ; {
		id, after, ok := text(rest, fieldRunID)
		if !ok {
			return to, nil
		}
		key, after, ok := text(after, fieldKey)
		if !ok {
			return to, fmt.Errorf("%w: run %s without a key", errShape, id)
		}
		at := bytes.Index(after, fieldFence)
		if at < 0 {
			return to, fmt.Errorf("%w: run %s without a fence", errShape, id)
		}
		fence, used := digits(after[at+len(fieldFence):])
		to = append(to, held{id: string(id), fence: fence, key: string(key)})
		rest = after[at+len(fieldFence)+used:]
	}
}

// text is the value behind a field's name, and what follows it. Ids and keys of this
// program have no escapes.
func text(b, field []byte) (value, rest []byte, ok bool) {
	at := bytes.Index(b, field)
	if at < 0 {
		return nil, b, false
	}
	b = b[at+len(field):]
	end := bytes.IndexByte(b, '"')
	if end < 0 {
		return nil, b, false
	}
	return b[:end], b[end:], true
}

func digits(b []byte) (n uint64, used int) {
	for used < len(b) && b[used] >= '0' && b[used] <= '9' {
		n = n*10 + uint64(b[used]-'0')
		used++
	}
	return n, used
}

// refused says whether any entry of a batch was.
func refused(body []byte) error {
	if bytes.Contains(body, fieldProblem) {
		return fmt.Errorf("%w: an entry is refused in %s", errShape, shown(body))
	}
	return nil
}

// shown is the beginning of a body, for an error.
func shown(body []byte) []byte { return body[:min(len(body), 300)] }
