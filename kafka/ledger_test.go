package kafka

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

// come gives records of partition 0 as a poll does, with the assignment of now.
func come(l *ledger, offsets ...int64) (batch []*record) {
	for _, o := range offsets {
		batch = append(batch, &record{Record: &kgo.Record{Offset: o}, at: l.at(0)})
	}
	return batch
}

// opens are the offsets that a commit would carry.
func opens(l *ledger) (offsets []int64) {
	for _, r := range l.open() {
		offsets = append(offsets, r.Offset)
	}
	return offsets
}

// Fails when a record is committed over one before it that isn't settled.
func TestLedgerHasNoGaps(t *testing.T) {
	s := &shift{ledger: newLedger(&counters{})}
	s.ledger.assign([]int32{0})
	batch := come(s.ledger, 4, 5, 7, 8)
	for _, c := range []struct {
		settle int
		want   []int64
	}{{1, nil}, {2, nil}, {0, []int64{7}}, {3, []int64{8}}} {
		batch[c.settle].settled = true
		if s.note(batch); !slices.Equal(opens(s.ledger), c.want) {
			t.Errorf("with record %d settled too, %v would be committed, want %v", c.settle, opens(s.ledger), c.want)
		}
	}
}

// Fails when what is left of an assignment that is over is submitted or committed, also
// when the partition has come back.
func TestLedgerForgetsAssignments(t *testing.T) {
	s := &shift{ledger: newLedger(&counters{})}
	s.ledger.assign([]int32{0})
	left := come(s.ledger, 4, 5)
	if last := s.ledger.drop([]int32{0}); len(last) != 0 {
		t.Errorf("%v is settled, and nothing was", last)
	}
	for range 2 {
		left[1].settled = true
		s.note(left[1:])
		if got := s.stillOurs(slices.Clone(left)); len(got) != 0 || len(opens(s.ledger)) != 0 {
			t.Errorf("%d records are still ours, %v would be committed", len(got), opens(s.ledger))
		}
		s.ledger.assign([]int32{0}) // the next owner is this consumer again
	}
	if again := come(s.ledger, 4); len(s.stillOurs(again)) != 1 {
		t.Error("a record of the new assignment isn't ours")
	}
	if none := (&record{Record: &kgo.Record{Partition: 7}, at: s.ledger.at(7)}); s.ledger.ours(none) {
		t.Error("a record that came without an assignment is ours")
	}
}

// Fails when a commit that has ended hides what was settled meanwhile, or when what is
// given up isn't told.
func TestLedgerCommits(t *testing.T) {
	l := newLedger(&counters{})
	l.assign([]int32{0})
	batch := come(l, 1, 2)
	l.settle(batch[0])
	under := l.open()
	l.settle(batch[1])
	if l.committed(under); !slices.Equal(opens(l), []int64{2}) {
		t.Errorf("%v is open, want 2", opens(l))
	}
	if given := l.drop([]int32{0, 3}); len(given) != 1 || given[0].Offset != 2 {
		t.Errorf("given up with %v, want 2", given)
	}
	l.assign([]int32{0})
	batch = come(l, 3)
	l.settle(batch[0])
	l.committed(l.open())
	if given := l.drop([]int32{0}); len(given) != 0 || l.ownsAny() {
		t.Errorf("given up with %v that is committed", given)
	}
}

// Fails when an error of the moment, or a proxy's, makes a record unfit or ends the
// consumer, or when what no repeat mends is repeated for ever.
func TestJudge(t *testing.T) {
	of := func(code string) error {
		return fmt.Errorf("submit: %w", &pyrula.APIError{Problem: wire.Problem{Code: code, Status: 400}})
	}
	for _, c := range []struct {
		err  error
		want verdict
	}{
		{of(wire.CodeInvalid), unfit}, {of(wire.CodeMalformed), unfit}, {of(wire.CodeTooLarge), unfit}, {pyrula.ErrTooLarge, unfit},
		{of(wire.CodeConfiguration), hopeless}, {of(wire.CodeNotSupported), hopeless}, {of(wire.CodeHost), hopeless}, {pyrula.ErrClosed, hopeless},
		{of(wire.CodeOverloaded), tryAgain}, {of(wire.CodeNotReady), tryAgain}, {of(wire.CodeArchiveBehind), tryAgain}, {of(wire.CodeInternal), tryAgain},
		{of(wire.CodeOutcomeUnknown), tryAgain}, {of("a code of a later version"), tryAgain}, {pyrula.ErrUnreachable, tryAgain},
		{pyrula.ErrBadAnswer, tryAgain}, {errors.New("anything"), tryAgain},
		{&pyrula.APIError{Problem: wire.Problem{Status: 413}}, tryAgain}, {&pyrula.APIError{Problem: wire.Problem{Status: 404}}, tryAgain},
	} {
		if got := judge(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}

// Fails when a value that can be parameters is refused; those that can't are tested
// against the node.
func TestFitValues(t *testing.T) {
	for _, v := range []string{"{}", " {\n} ", "\t{\"a\":[{}]}\r\n", `{"ключ":"é"}`} {
		if err := check([]byte(v)); err != nil {
			t.Errorf("%q: %v", v, err)
		}
	}
}
