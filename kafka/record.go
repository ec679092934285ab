package kafka

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pyrula/pyrula-node/flow"
)

// ErrUnfit says that a record can't be a run: its value isn't a JSON object in UTF-8,
// or is over the bound of a run's parameters. A retry fails again.
var ErrUnfit = errors.New("record can't be a run")

// record is one record on its way to be a run.
type record struct {
	*kgo.Record
	topicID [16]byte  // zero where brokers don't tell
	at      *progress // of the assignment that it came with
	reason  error     // why it can't be a run; wraps ErrUnfit
	settled bool      // it is a durable run, or was taken as a dead letter
}

// check finds what no node would take, before others are sent along with it.
func check(value []byte) error {
	switch {
	case len(value) == 0:
		return fmt.Errorf("%w: it has no value", ErrUnfit)
	case !utf8.Valid(value):
		return fmt.Errorf("%w: its value isn't UTF-8", ErrUnfit)
	case !json.Valid(value):
		return fmt.Errorf("%w: its value isn't JSON", ErrUnfit)
	case bytes.TrimLeft(value, " \t\r\n")[0] != '{':
		return fmt.Errorf("%w: its value is JSON and no object", ErrUnfit)
	}
	return nil
}

// onceKey is the idempotency key of a record's run: one run for each record and
// workflow, whoever consumes it, in whatever group. The id of the topic tells a topic
// from another of its name, whose offsets begin anew.
func (r *record) onceKey(workflow string) string {
	id := ""
	if r.topicID != [16]byte{} {
		id = base64.RawURLEncoding.EncodeToString(r.topicID[:])
	}
	key := fmt.Sprintf("kafka/%s/%s/%s/%d/%d", workflow, r.Topic, id, r.Partition, r.Offset)
	if len(key) > flow.MaxIdempotencyKeyBytes {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%s", workflow, r.Topic, id))
		key = fmt.Sprintf("kafka/sha256:%x/%d/%d", sum, r.Partition, r.Offset)
	}
	return key
}

// place is the log's words for where a record stands.
func (r *record) place() []any {
	return []any{"topic", r.Topic, "partition", r.Partition, "offset", r.Offset}
}
