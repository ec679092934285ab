package kafka_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pyrula/pyrula-node/kafka"
	"github.com/pyrula/pyrula-node/pyrula"
)

// Fails when two records, workflows or topics share an idempotency key, or one is
// longer than a key may be.
func TestQ6OnceKeys(t *testing.T) {
	record := func(topic string, partition int32, offset int64) *kgo.Record {
		return &kgo.Record{Topic: topic, Partition: partition, Offset: offset}
	}
	id, other := [16]byte{1}, [16]byte{2}
	long := strings.Repeat("t", 249)
	seen := map[string]string{}
	for what, key := range map[string]string{
		"plain":                   kafka.OnceKey("w", record("t", 1, 2), id),
		"another workflow":        kafka.OnceKey("w2", record("t", 1, 2), id),
		"another topic":           kafka.OnceKey("w", record("t2", 1, 2), id),
		"a topic made anew":       kafka.OnceKey("w", record("t", 1, 2), other),
		"no id":                   kafka.OnceKey("w", record("t", 1, 2), [16]byte{}),
		"another partition":       kafka.OnceKey("w", record("t", 2, 2), id),
		"another offset":          kafka.OnceKey("w", record("t", 1, 3), id),
		"digits apart":            kafka.OnceKey("w", record("t", 11, 2), id),
		"a workflow with a slash": kafka.OnceKey("w/t", record("t", 1, 2), id),
		"long":                    kafka.OnceKey(strings.Repeat("w", 128), record(long, 1, 2), id),
		"long, workflow":          kafka.OnceKey(strings.Repeat("v", 128), record(long, 1, 2), id),
		"long, topic":             kafka.OnceKey(strings.Repeat("w", 128), record(long[1:]+"x", 1, 2), id),
		"long, made anew":         kafka.OnceKey(strings.Repeat("w", 128), record(long, 1, 2), other),
		"long, offset":            kafka.OnceKey(strings.Repeat("w", 128), record(long, 1, 3), id),
		"long, partition":         kafka.OnceKey(strings.Repeat("w", 128), record(long, 3, 2), id),
	} {
		if twin, ok := seen[key]; ok {
			t.Errorf("%s and %s share %q", what, twin, key)
		}
		if seen[key] = what; len(key) > 256 {
			t.Errorf("%s: the key has %d bytes", what, len(key))
		}
	}
	if got, want := kafka.OnceKey("w", record("t", 1, 2), id), "kafka/w/t/AQAAAAAAAAAAAAAAAAAAAA/1/2"; got != want {
		t.Errorf("the key is %q, want %q: a changed one makes second runs of what was submitted before", got, want)
	}
}

// Fails when a consumer that dies between submit and commit makes a second run of a
// record, or loses one.
func TestQ6DeathBetweenSubmitAndCommit(t *testing.T) {
	const partitions, records = 3, 30
	w := newWorld(t, partitions)
	b := newBodies()
	w.spread(0, records, partitions)
	dying := w.prepare(b.workflow("dying", nil), kafka.Config{MaxConcurrency: 4})
	dying.SetMayCommit(func() error { return errors.New("dead") })
	dying.start()
	w.until("all is submitted", func() bool { return dying.Stats().Submitted == records })
	dying.end()
	if got := w.committed(); got != 0 {
		t.Fatalf("%d offsets are committed by the dead", got)
	}
	next := w.consume(b.workflow("next", nil), kafka.Config{MaxConcurrency: 4})
	w.until("all is committed", func() bool { return w.committed() == records })
	if got := next.Stats(); got.Submitted != 0 || got.Repeated != records {
		t.Errorf("%d records made runs once more, %d found theirs, want 0 and %d", got.Submitted, got.Repeated, records)
	}
	w.spread(records, partitions, partitions)
	w.until("what came later has ended", func() bool { return next.Stats().Submitted == partitions && next.Stats().InFlight == 0 })
	w.oneRunEach("charge", records+partitions)
	b.onceEach(w, records+partitions)
}

// Fails when an offset is committed before the record's run is durable, or when a node
// that is away costs a record.
func TestNodeAway(t *testing.T) {
	const records = 10
	w := newWorld(t, 1)
	b := newBodies()
	c := w.consume(b.workflow("one", nil), kafka.Config{MaxConcurrency: 3})
	c.has(1)
	w.spread(0, records, 1)
	w.until("the first are committed", func() bool { return w.committed() == records })
	addr := w.node.Addr()
	w.closeNode()
	w.spread(records, records, 1)
	w.until("submits are tried again", func() bool { return c.Stats().Retries >= 2 })
	if got := w.committed(); got != records {
		t.Errorf("%d offsets are committed, %d of them without a node", got, got-records)
	}
	w.startNode(addr)
	w.until("all is committed", func() bool { return w.committed() == 2*records })
	w.until("all has ended", func() bool { return c.Stats().InFlight == 0 })
	w.oneRunEach("charge", 2*records)
}

// Fails when commits that are refused are given up, or hold records up.
func TestCommitsAreRepeated(t *testing.T) {
	const records = 10
	w := newWorld(t, 2)
	b := newBodies()
	fault := w.refuse(kmsg.OffsetCommit, 3)
	c := w.consume(b.workflow("one", nil), kafka.Config{MaxConcurrency: 2})
	w.spread(0, records, 2)
	b.await(w, records)
	w.until("all is committed", func() bool { return w.committed() == records })
	if got := c.Stats().CommitFails; got != 3 || fault.Hits() != 3 {
		t.Errorf("%d commits failed of %d that were refused, want 3", got, fault.Hits())
	}
	w.oneRunEach("charge", records)
}

// Fails when a consumer that stops leaves something settled uncommitted.
func TestStopCommitsWhatIsSettled(t *testing.T) {
	const records = 8
	w := newWorld(t, 2)
	b := newBodies()
	w.spread(0, records, 2)
	var mayCommit atomic.Bool
	c := w.prepare(b.workflow("one", nil), kafka.Config{})
	c.SetMayCommit(func() error {
		if !mayCommit.Load() {
			return errors.New("not yet")
		}
		return nil
	})
	c.start()
	// After some refusals the next attempt is far away.
	w.until("commits were refused", func() bool { return c.Stats().Submitted == records && c.Stats().CommitFails >= 3 })
	mayCommit.Store(true)
	c.end()
	if got := w.committed(); got != records {
		t.Errorf("%d offsets are committed after the end, want %d", got, records)
	}
	if got := len(w.cluster.GroupInfo(group).Members); got != 0 {
		t.Errorf("%d members are in the group after the end", got)
	}
}

// Fails when brokers that go away and come back cost a record or a second run, or when
// the consumer doesn't come back by itself.
func TestBrokersAway(t *testing.T) {
	const records = 10
	data := t.TempDir()
	w := newWorld(t, 2, kfake.DataDir(data))
	b := newBodies()
	c := w.consume(b.workflow("one", nil), kafka.Config{MaxConcurrency: 3})
	w.spread(0, records, 2)
	b.await(w, records)
	addr := w.brokers()[0]
	w.cluster.Close()
	port, err := strconv.Atoi(addr[strings.LastIndex(addr, ":")+1:])
	if err != nil {
		t.Fatal(err)
	}
	w.cluster, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.DataDir(data), kfake.GroupMinSessionTimeout(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.cluster.Close)
	w.spread(records, records, 2)
	w.until("all is committed", func() bool { return w.committed() == 2*records })
	w.until("all has ended", func() bool { return c.Stats().InFlight == 0 })
	w.oneRunEach("charge", 2*records)
}

// Fails when a consumer whose brokers were never there can't be stopped, or ends by
// itself.
func TestBrokersNeverThere(t *testing.T) {
	w := newWorld(t, 1)
	gone := w.brokers()
	w.cluster.Close()
	w.cluster = nil // one that is closed answers no question
	b := newBodies()
	c := w.consume(b.workflow("one", nil), kafka.Config{Brokers: gone})
	w.until("the workflow is declared", func() bool {
		_, err := w.client.Workflow(t.Context(), "charge")
		return err == nil
	})
	select {
	case <-c.done:
		t.Errorf("the consumer ended by itself: %v", c.err)
	default:
	}
	c.end()
}

// Fails when partitions that go from one consumer to another lose a record, make a
// second run of one, or leave a commit behind.
func TestRebalance(t *testing.T) {
	const partitions, records = 4, 40
	w := newWorld(t, partitions)
	b := newBodies()
	open := make(chan struct{})
	hold := func(*pyrula.Run, order) <-chan struct{} { return open }
	first := w.consume(b.workflow("first", hold), kafka.Config{MaxConcurrency: 4})
	first.has(partitions)
	w.spread(0, records, partitions)
	b.await(w, 4) // with runs under way, and records read ahead
	second := w.consume(b.workflow("second", hold), kafka.Config{MaxConcurrency: 4})
	w.until("both have partitions", func() bool { return first.Stats().Partitions == 2 && second.Stats().Partitions == 2 })
	close(open)
	b.await(w, records-4)
	w.spread(records, records, partitions)
	first.end()
	w.until("the second has all", func() bool { return second.Stats().Partitions == partitions })
	third := w.consume(b.workflow("third", nil), kafka.Config{MaxConcurrency: 4})
	w.spread(2*records, records, partitions)
	w.until("all is committed", func() bool { return w.committed() == 3*records })
	w.until("all has ended", func() bool { return second.Stats().InFlight+third.Stats().InFlight == 0 })
	w.oneRunEach("charge", 3*records)
	b.onceEach(w, 3*records)
}

// Fails when a partition is lost to a group that has forgotten the consumer, and
// anything of it is lost with it.
func TestLostPartitions(t *testing.T) {
	const records = 20
	w := newWorld(t, 2)
	b := newBodies()
	c := w.consume(b.workflow("one", nil), kafka.Config{MaxConcurrency: 2})
	c.has(2)
	w.spread(0, records, 2)
	lost := w.refuse(kmsg.Heartbeat, 1)
	w.until("a heartbeat was refused", func() bool { return lost.Hits() == 1 })
	w.spread(records, records, 2)
	w.until("all is committed", func() bool { return w.committed() == 2*records })
	w.until("all has ended", func() bool { return c.Stats().InFlight == 0 })
	w.oneRunEach("charge", 2*records)
	b.onceEach(w, 2*records)
}

// Fails when two workflows that consume one topic share runs.
func TestTwoWorkflowsOfOneTopic(t *testing.T) {
	const records = 10
	w := newWorld(t, 2)
	var billed, mailed atomic.Int64
	count := func(name string, n *atomic.Int64) pyrula.Definition {
		return pyrula.Define(name, func(*pyrula.Run, order) (int, error) { n.Add(1); return 0, nil }, pyrula.KafkaTopic(topic))
	}
	bill := w.consume(count("bill", &billed), kafka.Config{Group: "bill"})
	mail := w.consume(count("mail", &mailed), kafka.Config{Group: "mail"})
	w.spread(0, records, 2)
	w.until("all have ended", func() bool { return bill.Stats().Ended == records && mail.Stats().Ended == records })
	if billed.Load() != records || mailed.Load() != records {
		t.Errorf("%d and %d bodies ran, want %d each", billed.Load(), mailed.Load(), records)
	}
	w.oneRunEach("bill", records)
	w.oneRunEach("mail", records)
}

// Fails when records of a topic that was deleted and made again are taken for those
// that had their offsets, or when the consumer doesn't notice.
func TestTopicMadeAgain(t *testing.T) {
	const records = 5
	w := newWorld(t, 1)
	b := newBodies()
	c := w.consume(b.workflow("one", nil), kafka.Config{})
	w.spread(0, records, 1)
	b.await(w, records)
	w.until("all is committed", func() bool { return w.committed() == records })
	w.makeAgain(1)
	w.spread(records, records, 1)
	if err := c.fails(); !errors.Is(err, kafka.ErrTopicReplaced) {
		t.Fatalf("the consumer ended with %v", err)
	}
	w.consume(b.workflow("one", nil), kafka.Config{})
	b.await(w, records)
	b.onceEach(w, 2*records)
	w.oneRunEach("charge", 2*records)
}

// makeAgain deletes the topic and makes it anew.
func (w *world) makeAgain(partitions int32) {
	w.Helper()
	gone := kmsg.NewPtrDeleteTopicsRequest()
	name := topic
	gone.TopicNames = []string{topic}
	gone.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: &name}}
	if resp, err := gone.RequestWith(w.Context(), w.producer); err != nil || resp.Topics[0].ErrorCode != 0 {
		w.Fatalf("delete the topic: %+v, error %v", resp, err)
	}
	made := kmsg.NewPtrCreateTopicsRequest()
	one := kmsg.NewCreateTopicsRequestTopic()
	one.Topic, one.NumPartitions, one.ReplicationFactor = topic, partitions, 1
	made.Topics = append(made.Topics, one)
	if resp, err := made.RequestWith(w.Context(), w.producer); err != nil || resp.Topics[0].ErrorCode != 0 {
		w.Fatalf("make the topic: %+v, error %v", resp, err)
	}
	w.producer.PurgeTopicsFromClient(topic) // or it produces to the id of the old one
}

// Fails when a consumer runs twice at once, or not again after its end.
func TestRunAgain(t *testing.T) {
	w := newWorld(t, 1)
	b := newBodies()
	c := w.consume(b.workflow("one", nil), kafka.Config{})
	c.has(1)
	if err := c.Run(t.Context()); !errors.Is(err, kafka.ErrRunning) {
		t.Errorf("a second Run: %v", err)
	}
	w.produce(0, `{"n":0}`)
	b.await(w, 1)
	c.end()
	c.done = make(chan struct{})
	c.start()
	w.produce(0, fmt.Sprintf(`{"n":%d}`, 1))
	b.await(w, 1)
	b.onceEach(w, 2)
}
