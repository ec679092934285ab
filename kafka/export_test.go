package kafka

import "github.com/twmb/franz-go/pkg/kgo"

// SetMayCommit makes a consumer ask before each commit; an error is one of the commit.
func (c *Consumer) SetMayCommit(ask func() error) { c.mayCommit = ask }

// SetAssigned makes a consumer tell after each change of the partitions that it has.
func (c *Consumer) SetAssigned(tell func()) { c.assigned = tell }

// OnceKey is the idempotency key of a record's run.
func OnceKey(workflow string, r *kgo.Record, topicID [16]byte) string {
	return (&record{Record: r, topicID: topicID}).onceKey(workflow)
}
