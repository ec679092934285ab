package kafka_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pyrula/pyrula-node/kafka"
	"github.com/pyrula/pyrula-node/pyrula"
)

// unfits are values that can't be parameters. The last two are found by the client
// and the node: they are beyond the bound once encoded, or hold what no text may.
var unfits = []string{
	"", "order 1", "[]", "7", `"{}"`, "null", `{"n":1`, `{"n":1} {}`, "{\"n\":\"\xff\"}", " ",
	`{"n":1,"x":"` + strings.Repeat("<", 300_000) + `"}`,
}

// Fails when a record that can't be a run holds its partition up, is passed over
// without a count, or takes a good record with it.
func TestUnfitRecordsDontBlock(t *testing.T) {
	w := newWorld(t, 1)
	b := newBodies()
	for i, v := range unfits {
		w.produce(0, v)
		w.spread(i, 1, 1)
	}
	c := w.consume(b.workflow("one", nil), kafka.Config{MaxConcurrency: 64})
	w.until("all is committed", func() bool { return w.committed() == int64(2*len(unfits)) })
	w.until("all has ended", func() bool { return c.Stats().InFlight == 0 })
	if got := c.Stats(); got.Unfit != int64(len(unfits)) || got.Submitted != int64(len(unfits)) {
		t.Errorf("%d unfit and %d runs, want %d of each", got.Unfit, got.Submitted, len(unfits))
	}
	b.onceEach(w, len(unfits))
}

// Fails when a dead letter is lost, comes without its reason, or is committed before
// it is taken.
func TestDeadLetters(t *testing.T) {
	w := newWorld(t, 1)
	b := newBodies()
	var mu sync.Mutex
	var letters []string
	refusals := 2
	var early int64
	c := w.prepare(b.workflow("one", nil), kafka.Config{DeadLetter: func(_ context.Context, r *kgo.Record, reason error) error {
		mu.Lock()
		defer mu.Unlock()
		if !errors.Is(reason, kafka.ErrUnfit) || r.Topic != topic {
			t.Errorf("the record at offset %d of %s comes with %v", r.Offset, r.Topic, reason)
		}
		if early = max(early, w.committed()-r.Offset); refusals > 0 {
			refusals--
			return pyrula.ErrConfiguration // whatever it is, it is tried again
		}
		letters = append(letters, string(r.Value))
		return nil
	}})
	w.produce(0, unfits...)
	w.spread(0, 3, 1)
	c.start()
	b.await(w, 3)
	w.until("all is committed", func() bool { return w.committed() == int64(len(unfits)+3) })
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(letters, unfits) {
		t.Errorf("dead letters are %.50q", letters)
	}
	if early > 0 {
		t.Errorf("a dead letter was committed before it was taken")
	}
	if got := c.Stats().Retries; got != 2 {
		t.Errorf("%d retries, want 2", got)
	}
}

// Fails when a submit that is refused for all records is taken for a fault of the
// record, and the records are passed over.
func TestHopelessSubmitsLoseNothing(t *testing.T) {
	w := newWorld(t, 1)
	b := newBodies()
	c := w.consume(b.workflow("one", nil), kafka.Config{})
	c.has(1)
	byFunction := func(o order) string { return "k" }
	_, err := w.client.Declare(t.Context(), pyrula.Define("charge", nothing, pyrula.Version("2"), pyrula.Limit{Key: byFunction, Max: 1}))
	if err != nil {
		t.Fatal(err)
	}
	w.spread(0, 3, 1)
	if err := c.fails(); !errors.Is(err, pyrula.ErrConfiguration) {
		t.Fatalf("the consumer ended with %v", err)
	}
	if got := c.Stats(); w.committed() != 0 || got.Unfit != 0 || got.Submitted != 0 {
		t.Errorf("committed up to %d, counters %+v", w.committed(), got)
	}
}
