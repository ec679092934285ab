// Package kafka makes runs of the records of a Kafka topic, and works on them.
//
//	var Charge = pyrula.Define("charge", func(r *pyrula.Run, o Order) (Receipt, error) {
//		return charge(r, o)
//	}, pyrula.KafkaTopic("orders"))
//
//	c, err := pyrula.Dial(ctx)
//	consumer, err := kafka.NewConsumer(c, Charge, kafka.Config{
//		Brokers: []string{"kafka-1:9092"}, Group: "charge", MaxConcurrency: 8,
//	})
//	err = consumer.Run(ctx)
//
// A consumer is a member of a consumer group and a worker in one. Programs that only
// submit or work don't import this package, and so link no Kafka client.
//
// # From a record to a run
//
// Each record of the topic makes one run of the workflow. The record's value, which
// must be a JSON object in UTF-8, is the run's parameters. Key, headers and timestamp
// aren't passed on: what a body needs stands in the value. Where a record stood can be
// read from the run's idempotency key, which is
//
//	kafka/workflow/topic/topic-id/partition/offset
//
// or, where that is longer than a key may be, kafka/sha256:.../partition/offset. The
// workflow's name is in it, so that two workflows that consume one topic in two groups
// have runs of their own. The group isn't: consuming again under another group, or from
// offsets that were set back, finds the runs that are there and makes none. The id
// tells a topic that was deleted and made again from the one before; brokers older than
// Kafka 3.1 don't tell it, and then the place is empty.
//
// # What is committed when
//
//  1. An offset is committed only after every record before it in its partition is
//     settled: its run is durable at the node, which is what the answer to a submit
//     says, or it was passed over as one that can't be a run.
//  2. So a consumer, a node or a broker that dies loses no record. What was submitted
//     and not yet committed is consumed once more and finds its run by the key: one run
//     for each record. The body of a run runs at least once, as everywhere.
//  3. When a partition is taken away, what is settled of it is committed before its
//     next owner begins. What isn't settled is left to that owner, and never committed
//     here. Runs that were made stay made, and the worker of any consumer runs them; one
//     that was granted to a worker as it stopped waits for its lease to run out.
//  4. While the node doesn't take submits, nothing is committed, and the same records
//     are tried again with back-off for as long as the consumer lives. Commits that
//     fail are repeated likewise; meanwhile records go on to be runs.
//
// A run can't be told apart from the one of an older record that had the same offset in
// the same topic. Kafka reuses offsets only after an unclean election of a leader, which
// has lost records by itself.
//
// # How much at once
//
// A workflow that is bound to a topic has no Limit, Rate or trigger (P40): it would be
// throttled twice, and its backlog would lie at the node instead of the brokers. Two
// numbers throttle it:
//
//   - Config.MaxConcurrency. No more bodies of a consumer run at once, and no more of
//     the runs that it made are unfinished: it reads on when one of them has ended. So a
//     backlog is lag at the brokers, and the node keeps MaxConcurrency runs for each
//     consumer. A run that is suspended is unfinished too.
//   - the number of partitions. Each has one consumer, and a consumer without a
//     partition claims no runs, so at most as many consumers are at work as there are
//     partitions, beside those that let bodies finish after theirs were taken away.
//
// A consumer that died leaves the runs that it made, and its successor doesn't count
// them. Runs that somebody submits by hand are allowed: consumers work on them, and
// they count among the bodies but not among the unfinished runs of a consumer. A worker
// that isn't a consumer can serve the workflow too, and has its own concurrency.
//
// # Order
//
// With MaxConcurrency 1 a record is submitted when the run of the one before it, in any
// partition of this consumer, has ended: the records of a partition run in their order,
// for as long as the partition stays where it is. When it moves, or the consumer dies,
// the run of its last record may still be under way when the next one begins. With more
// than 1 there is no order.
//
// # Records that can't be runs
//
// A record without a value, or whose value isn't a JSON object in UTF-8 or is larger than
// parameters may be, would fail again for ever, and hold up its partition. It goes to
// Config.DeadLetter, or without one into the log as an error; [Stats] counts it, and
// its offset is committed like that of a run. Only the node's own refusal of that very
// record counts, not what a proxy on the way says. What refuses every record, say a
// declaration that was changed meanwhile, ends [Consumer.Run] with an error, and
// nothing is committed.
//
// # What this package must not know
//
// It is a program of the public SDK: no actor, no journal, no state machine, and none
// of the node's packages but the words of flow and the bounds of flow/wire.
package kafka
