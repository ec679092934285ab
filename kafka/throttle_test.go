package kafka_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pyrula/pyrula-node/kafka"
	"github.com/pyrula/pyrula-node/pyrula"
)

// Fails when a consumer has more bodies at once than its max_concurrency, or more
// unfinished runs, or when more consumers are at work than the topic has partitions.
// The bodies count, and the first of them wait for each other, so that the bounds are
// known to be reached.
func TestP40ConcurrencyAndPartitionsThrottle(t *testing.T) {
	const partitions, most, records = 3, 2, 36
	w := newWorld(t, partitions)
	b := newBodies()
	var all []*consumer
	var full sync.WaitGroup
	full.Add(partitions * most)
	open := make(chan struct{})
	go func() {
		full.Wait()
		close(open)
	}()
	var tooMany []string
	var mu sync.Mutex
	begun := 0
	hold := func(r *pyrula.Run, o order) <-chan struct{} {
		mu.Lock()
		defer mu.Unlock()
		if begun++; begun <= partitions*most {
			full.Done()
		}
		for i, c := range all {
			if n := c.Stats().InFlight; n > most {
				tooMany = append(tooMany, fmt.Sprintf("consumer %d has %d runs in flight", i, n))
			}
		}
		return open
	}
	for i := range partitions + 1 {
		c := w.prepare(b.workflow(fmt.Sprint("consumer ", i), hold), kafka.Config{MaxConcurrency: most})
		mu.Lock()
		all = append(all, c)
		mu.Unlock()
		c.start()
		w.until("partitions are spread over the consumers", func() bool {
			spread := []int64{}
			for _, c := range all {
				spread = append(spread, c.Stats().Partitions)
			}
			slices.Sort(spread)
			return slices.Equal(spread, [][]int64{{3}, {1, 2}, {1, 1, 1}, {0, 1, 1, 1}}[i]) && len(w.cluster.GroupInfo(group).Members) == i+1
		})
	}
	w.spread(0, records, partitions)
	b.await(w, records)
	w.until("all is committed", func() bool { return w.committed() == records })
	ends := int64(0)
	w.until("all runs have ended", func() bool {
		ends = 0
		for _, c := range all {
			ends += c.Stats().Ended
		}
		return ends == records
	})
	b.onceEach(w, records)
	w.oneRunEach("charge", records)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.most[""] != partitions*most {
		t.Errorf("%d bodies ran at once in all, want %d", b.most[""], partitions*most)
	}
	idle := 0
	for i := range all {
		name := fmt.Sprint("consumer ", i)
		if b.most[name] > most {
			t.Errorf("%s had %d bodies at once, more than %d", name, b.most[name], most)
		}
		if b.sum[name] == 0 {
			idle++
		}
	}
	if idle != 1 {
		t.Errorf("%d consumers had no body, want the one without a partition: %v", idle, b.sum)
	}
	for _, text := range tooMany {
		t.Errorf("more than %d: %s", most, text)
	}
}

// Fails when a consumer reads on although as many of its runs are unfinished as may
// be: the node is asked at the begin of each body.
func TestBacklogStaysAtTheBrokers(t *testing.T) {
	const most, records = 2, 20
	w := newWorld(t, 2)
	b := newBodies()
	next := make(chan struct{})
	w.spread(0, records, 2)
	unfinished := func() (n int) {
		for _, status := range []string{"queued", "executing"} {
			page, err := w.client.List(t.Context(), pyrula.ListQuery{Workflow: "charge", Status: status, Limit: 500})
			if err != nil {
				t.Errorf("list: %v", err)
				return 0
			}
			n += len(page.Runs)
		}
		return n
	}
	c := w.consume(b.workflow("one", func(*pyrula.Run, order) <-chan struct{} { return next }), kafka.Config{MaxConcurrency: most})
	b.await(w, most)
	for i := most; i < records; i++ {
		next <- struct{}{} // one of them ends
		b.await(w, 1)
		if n := unfinished(); n > most {
			t.Fatalf("%d runs are unfinished with %d records read, want at most %d", n, i, most)
		}
		if got := c.Stats().Submitted; got > int64(i+1) {
			t.Fatalf("%d records were submitted while %d bodies had begun", got, i+1)
		}
	}
	for range most {
		next <- struct{}{}
	}
	w.until("all is committed", func() bool { return w.committed() == records })
	b.onceEach(w, records)
}

// Fails when records of a partition run in another order than they have there,
// although only one may run at once.
func TestOrderOfOneAtATime(t *testing.T) {
	const records = 16
	w := newWorld(t, 2)
	b := newBodies()
	w.spread(0, records, 2)
	w.consume(b.workflow("one", nil), kafka.Config{MaxConcurrency: 1})
	b.await(w, records)
	b.mu.Lock()
	defer b.mu.Unlock()
	for partition := range 2 {
		of := slices.DeleteFunc(slices.Clone(b.log), func(n int) bool { return n%2 != partition })
		if len(of) != records/2 || !slices.IsSorted(of) {
			t.Errorf("partition %d ran as %v", partition, of)
		}
	}
	if b.most[""] != 1 {
		t.Errorf("%d bodies ran at once", b.most[""])
	}
}

// Fails when a run that somebody submits by hand isn't worked on, or when a consumer
// claims one while it has no partition.
func TestRunsByHand(t *testing.T) {
	w := newWorld(t, 1)
	b := newBodies()
	first := w.consume(b.workflow("first", nil), kafka.Config{})
	first.has(1)
	second := w.consume(b.workflow("second", nil), kafka.Config{})
	w.until("the second is a member", func() bool { return len(w.cluster.GroupInfo(group).Members) == 2 })
	const runs = 20
	for i := range runs {
		if _, err := w.client.Submit(t.Context(), "charge", order{i}); err != nil {
			t.Fatal(err)
		}
	}
	b.await(w, runs)
	b.mu.Lock()
	owner := map[int64]string{0: "second", 1: "first"}[first.Stats().Partitions]
	if b.sum[owner] != runs {
		t.Errorf("bodies ran as %v, want all in %q", b.sum, owner)
	}
	b.mu.Unlock()
	first.end()
	second.has(1)
	if _, err := w.client.Submit(t.Context(), "charge", order{runs}); err != nil {
		t.Fatal(err)
	}
	b.await(w, 1)
}

// Fails when a consumer whose partitions were taken away goes on to claim runs, or
// doesn't begin again when it has some.
func TestWithoutPartitionsNothingIsClaimed(t *testing.T) {
	w := newWorld(t, 1)
	b := newBodies()
	c := w.consume(b.workflow("consumer", nil), kafka.Config{})
	w.until("it works", func() bool { return c.Stats().Working })
	outside := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Count: -1})
	w.refuse(kmsg.Heartbeat, 1)
	w.until("it has stopped", func() bool { return c.Stats().Partitions == 0 && !c.Stats().Working })

	working, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.client.Work(working, b.workflow("worker", nil)) }()
	const runs = 20
	for i := range runs {
		if _, err := w.client.Submit(t.Context(), "charge", order{i}); err != nil {
			t.Fatal(err)
		}
	}
	b.await(w, runs)
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	b.mu.Lock()
	if b.sum["consumer"] != 0 {
		t.Errorf("bodies ran as %v", b.sum)
	}
	b.mu.Unlock()
	outside.Remove()
	w.until("it works again", func() bool { return c.Stats().Working })
	w.spread(runs, 1, 1)
	b.await(w, 1)
}

// refuse makes the brokers refuse the next n requests of a kind.
func (w *world) refuse(key kmsg.Key, n int) *kfake.FaultHandle {
	return w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Count: n})
}
