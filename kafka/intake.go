package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

// intake reads as many records as there is room for runs, and makes them runs, until
// ctx ends. Error: what no repeat can mend.
func (s *shift) intake(ctx context.Context) error {
	for n := 0; ; {
		room, err := s.flight.room(ctx)
		if err != nil {
			return nil //nolint:nilerr // the consumer stops
		}
		batch, err := s.poll(ctx, min(room, wire.MaxBatch))
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the same
		case errors.Is(err, ErrTopicReplaced):
			return err
		case err != nil:
			s.log.Warn("fetch again", "topic", s.c.topic, "err", err)
			if len(batch) == 0 && pause(ctx, backoff(n)) != nil {
				return nil //nolint:nilerr // the same
			}
			n++
		default:
			n = 0
		}
		if err := s.settleAll(ctx, batch); err != nil {
			return err
		}
	}
}

// poll waits for records, at most most of them. No rebalance happens between taking
// them from the client and noting with which assignment they came: otherwise what is
// left of an assignment that is over could be taken for the beginning of the next, and
// be committed over a gap.
func (s *shift) poll(ctx context.Context, most int) (batch []*record, err error) {
	fetches := s.kafka.PollRecords(ctx, most)
	defer s.kafka.AllowRebalance()
	for _, fetch := range fetches {
		for _, topic := range fetch.Topics {
			for _, part := range topic.Partitions {
				switch {
				case errors.Is(part.Err, kerr.UnknownTopicID):
					return nil, fmt.Errorf("%w: %s", ErrTopicReplaced, topic.Topic)
				case part.Err != nil && err == nil:
					err = part.Err
				}
				at := s.ledger.at(part.Partition)
				for _, r := range part.Records {
					batch = append(batch, &record{Record: r, topicID: topic.TopicID, at: at, reason: check(r.Value)})
				}
			}
		}
	}
	return batch, err
}

// settleAll makes each record of a batch a durable run or a dead letter. It tries for
// as long as ctx lives and the record's partition is this consumer's.
func (s *shift) settleAll(ctx context.Context, batch []*record) error {
	for n := 0; ; n++ {
		batch = s.stillOurs(batch)
		err := s.settleOnce(ctx, batch)
		s.note(batch)
		if err == nil || ctx.Err() != nil {
			return nil //nolint:nilerr // a consumer that stops leaves the rest to the next owner
		}
		if judge(err) == hopeless {
			return err
		}
		s.c.count.retries.Add(1)
		s.log.Warn("take records in again; nothing behind them is committed", append(batch[0].place(), "records", len(batch), "err", err)...)
		if pause(ctx, backoff(n)) != nil {
			return nil //nolint:nilerr // the same
		}
	}
}

// stillOurs is what of a batch is this consumer's to settle: a partition that was taken
// away is left to its next owner, whole.
func (s *shift) stillOurs(batch []*record) []*record {
	return slices.DeleteFunc(batch, func(r *record) bool { return !s.ledger.ours(r) })
}

// note tells the ledger how far each partition is settled without a gap.
func (s *shift) note(batch []*record) {
	gap := map[int32]bool{}
	for _, r := range batch {
		if gap[r.Partition] = gap[r.Partition] || !r.settled; !gap[r.Partition] {
			s.ledger.settle(r)
		}
	}
}

// settleOnce tries once for all records. It returns the first error after which some
// are left.
func (s *shift) settleOnce(ctx context.Context, batch []*record) error {
	var first error
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	for rest := batch; len(rest) > 0; {
		some, size := 0, 0
		for some < min(len(rest), wire.MaxBatch) {
			if size += len(rest[some].Value); some > 0 && size > batchBytesMax {
				break
			}
			some++
		}
		keep(s.submit(ctx, rest[:some]))
		rest = rest[some:]
	}
	for _, r := range batch {
		if r.reason == nil || r.settled {
			continue
		}
		if err := s.bury(ctx, r); err != nil {
			keep(err)
			break // dead letters go in their order
		}
	}
	return first
}

// submit makes runs of those records that can be runs. A record that refuses the whole
// request is found by sending each alone.
func (s *shift) submit(ctx context.Context, batch []*record) error {
	var sent []*record
	var runs []pyrula.Submission
	for _, r := range batch {
		if r.reason == nil && !r.settled {
			sent = append(sent, r)
			runs = append(runs, pyrula.Submission{
				Workflow: s.c.name, Params: json.RawMessage(r.Value), Options: []pyrula.StartOption{pyrula.OnceKey(r.onceKey(s.c.name))},
			})
		}
	}
	if len(sent) == 0 {
		return nil
	}
	done, err := s.c.client.SubmitBatch(ctx, runs)
	switch {
	case err == nil:
		return s.take(ctx, sent, done)
	case judge(err) != unfit:
		return err
	case len(sent) == 1:
		sent[0].reason = fmt.Errorf("%w: %w", ErrUnfit, err)
		return nil
	}
	var first error
	for _, r := range sent {
		if err := s.submit(ctx, []*record{r}); first == nil {
			first = err
		}
	}
	return first
}

// take notes what became of each submitted record. It returns the first error after
// which some are left; one that no repeat can mend goes before the others.
func (s *shift) take(ctx context.Context, sent []*record, done []pyrula.BatchResult) (first error) {
	for i, r := range sent {
		got := done[i]
		switch {
		case got.Err == nil:
			s.made(ctx, r, got.Submitted)
		case judge(got.Err) == unfit:
			r.reason = fmt.Errorf("%w: %w", ErrUnfit, got.Err)
		case first == nil || judge(got.Err) == hopeless:
			first = got.Err
		}
	}
	return first
}

// made notes a durable run. One that has ended, or is so old that nobody remembers how
// it ended, is over.
func (s *shift) made(ctx context.Context, r *record, run pyrula.Submitted) {
	r.settled = true
	if run.Created {
		s.c.count.submitted.Add(1)
	} else {
		s.c.count.repeated.Add(1)
		if status, known := flow.ParseStatus(run.Status); run.Status == "" || known && status.Ended() {
			return
		}
	}
	s.follow(ctx, run.RunID)
}

// errDeadLetter says that a record that can't be a run wasn't taken as a dead letter.
var errDeadLetter = errors.New("dead letter is not taken")

// bury passes a record over that can't be a run. Without a dead letter to take it, the
// log and a counter tell of it.
func (s *shift) bury(ctx context.Context, r *record) error {
	level, event := slog.LevelError, "a record can't be a run and is passed over"
	if take := s.c.cfg.DeadLetter; take != nil {
		if err := take(ctx, r.Record, r.reason); err != nil {
			return fmt.Errorf("%w: %s", errDeadLetter, err.Error()) // whatever it is, it is tried again
		}
		level, event = slog.LevelWarn, "a record can't be a run and is a dead letter"
	}
	r.settled = true
	s.c.count.unfit.Add(1)
	s.log.Log(ctx, level, event, append(r.place(), "err", r.reason)...)
	return nil
}
