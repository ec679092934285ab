package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

// commits commits what is settled, until ctx ends. What gathers while one commit is
// under way goes with the next.
func (s *shift) commits(ctx context.Context) {
	for n := 0; ; {
		select {
		case <-s.ledger.settled:
		case <-ctx.Done():
			return
		}
		err := s.commit(ctx)
		switch {
		case err == nil:
			n = 0
			continue
		case ctx.Err() != nil:
			return
		}
		s.log.Warn("commit again", "topic", s.c.topic, "err", err)
		offer(s.ledger.settled)
		if pause(ctx, backoff(n)) != nil {
			return
		}
		n++
	}
}

// commit commits what is settled.
func (s *shift) commit(ctx context.Context) error {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	open := s.ledger.open()
	if err := s.send(ctx, open); err != nil {
		return err
	}
	s.ledger.committed(open)
	return nil
}

// revoke gives partitions up: what of them is settled is committed before their next
// owner reads where to begin, and a commit that is under way comes before that. When
// it fails the next owner submits some records again, and finds their runs.
func (s *shift) revoke(ctx context.Context, partitions []int32) {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	open := s.ledger.drop(partitions)
	if err := s.send(ctx, open); err != nil {
		s.log.Warn("partitions were given up without a last commit", "topic", s.c.topic, "partitions", partitions, "err", err)
	}
}

func (s *shift) send(ctx context.Context, open []*kgo.Record) error {
	if len(open) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	var err error
	if s.c.mayCommit != nil {
		err = s.c.mayCommit()
	}
	if err == nil {
		err = s.kafka.CommitRecords(ctx, open...)
	}
	if err != nil {
		s.c.count.commitFails.Add(1)
	}
	return err
}

// leave commits what is left, by way of revoke, and leaves the group, so that others
// needn't wait for this member to be missed.
func (s *shift) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := s.kafka.LeaveGroupContext(ctx); err != nil {
		s.log.Warn("leave the group", "err", err)
	}
	s.kafka.Close()
}
