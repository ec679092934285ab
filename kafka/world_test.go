package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/pyrula/pyrula-node/cmd/pyrula-node/node"
	"github.com/pyrula/pyrula-node/kafka"
	"github.com/pyrula/pyrula-node/pyrula"
)

const (
	topic = "orders"
	group = "charge"
	// patience is how long a test waits for what must come. It decides nothing but when a
	// test that hangs gives up.
	patience = 20 * time.Second
	// lease is short: a worker that stops may leave a run granted that it never heard of,
	// and one that is killed leaves several. They come back when their leases are over.
	lease = 3 * time.Second
)

// TestMain fails when a consumer that was stopped leaves a goroutine behind.
func TestMain(m *testing.M) {
	if os.Getenv(childVar) != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m)
}

// order is the value of a record and the parameters of its run.
type order struct {
	N int `json:"n"`
}

// world is a cluster of one broker, a node, and who fills the topic.
type world struct {
	*testing.T
	cluster  *kfake.Cluster
	producer *kgo.Client
	node     *node.Node
	dir      string // of the node
	client   *pyrula.Client
}

func newWorld(t *testing.T, partitions int32, opts ...kfake.Opt) *world {
	t.Helper()
	w := &world{T: t, dir: t.TempDir()}
	var err error
	opts = append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(partitions, topic), kfake.GroupMinSessionTimeout(100 * time.Millisecond)}, opts...)
	if w.cluster, err = kfake.NewCluster(opts...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.cluster.Close)
	w.producer, err = kgo.NewClient(kgo.SeedBrokers(w.brokers()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.producer.Close)
	w.startNode("127.0.0.1:0")
	t.Cleanup(func() { w.closeNode() })
	// A request that isn't repeated shows what the consumer itself does about a node that
	// is away.
	w.client, err = pyrula.Dial(t.Context(), pyrula.WithAddr(w.node.Addr()), pyrula.WithRetryFor(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.client.Close() })
	return w
}

func (w *world) brokers() []string { return w.cluster.ListenAddrs() }

func (w *world) startNode(addr string) {
	w.Helper()
	var err error
	w.node, err = node.Start(w.Context(), node.Config{
		DataDir: w.dir, Addr: addr, Fatal: func(err error) { panic(fmt.Sprintf("the node stops itself: %v", err)) },
	})
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) closeNode() {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := w.node.Close(ctx); err != nil {
		w.Errorf("close the node: %v", err)
	}
}

// reopenNode closes the node and starts it again where it was.
func (w *world) reopenNode() {
	w.Helper()
	addr := w.node.Addr()
	w.closeNode()
	w.startNode(addr)
}

// produce appends values to a partition.
func (w *world) produce(partition int32, values ...string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	for _, v := range values {
		r := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(v)}
		if err := w.producer.ProduceSync(ctx, r).FirstErr(); err != nil {
			w.Fatalf("produce: %v", err)
		}
	}
}

// spread appends n orders, from first on, round the partitions.
func (w *world) spread(first, n int, partitions int32) {
	w.Helper()
	for i := first; i < first+n; i++ {
		w.produce(int32(i)%partitions, fmt.Sprintf(`{"n":%d}`, i))
	}
}

// committed is the sum of the group's committed offsets.
func (w *world) committed() (sum int64) {
	if g := w.cluster.GroupInfo(group); g != nil {
		for _, c := range g.Commits[topic] {
			sum += c.Offset
		}
	}
	return sum
}

// until waits for something that nobody tells of.
func (w *world) until(what string, ready func() bool) {
	w.Helper()
	end := time.After(patience)
	for !ready() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-end:
			if w.cluster != nil {
				w.Logf("the group is %+v", w.cluster.GroupInfo(group))
			}
			w.Fatalf("waited %v until %s", patience, what)
		}
	}
}

// runs are the runs that the node has of a workflow: how many of each idempotency key.
func (w *world) runs(workflow string) map[string]int {
	w.Helper()
	all := map[string]int{}
	q := pyrula.ListQuery{Workflow: workflow, Limit: 500}
	for {
		page, err := w.client.List(w.Context(), q)
		if err != nil {
			w.Fatal(err)
		}
		for _, r := range page.Runs {
			key := "by hand"
			if r.IdempotencyKey != nil {
				key = *r.IdempotencyKey
			}
			all[key]++
		}
		if page.NextCursor == nil {
			return all
		}
		q.Cursor = *page.NextCursor
	}
}

// oneRunEach fails unless a workflow has n runs, each of a record of its own.
func (w *world) oneRunEach(workflow string, n int) {
	w.Helper()
	got := w.runs(workflow)
	if len(got) != n || slices.Max(append(slices.Collect(maps.Values(got)), 0)) > 1 {
		w.Errorf("%s has runs of %d records, want %d with one each: %v", workflow, len(got), n, got)
	}
}

// consumer is one consumer at work.
type consumer struct {
	*kafka.Consumer
	w       *world
	stop    context.CancelFunc
	done    chan struct{} // closed when Run has returned
	err     error         // of Run, after done
	changes chan struct{}
	failed  bool // its error was looked at
}

// prepare makes a consumer that doesn't run yet.
func (w *world) prepare(workflow pyrula.Definition, cfg kafka.Config) *consumer {
	w.Helper()
	if cfg.Brokers == nil {
		cfg.Brokers = w.brokers()
	}
	if cfg.Group == "" {
		cfg.Group = group
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Options = append([]kgo.Opt{
		kgo.HeartbeatInterval(50 * time.Millisecond), // a rebalance is heard of with the next heartbeat
		kgo.SessionTimeout(10 * time.Second), kgo.FetchMaxWait(50 * time.Millisecond),
		kgo.MetadataMinAge(50 * time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
	}, cfg.Options...)
	c, err := kafka.NewConsumer(w.client, workflow, cfg)
	if err != nil {
		w.Fatal(err)
	}
	one := &consumer{Consumer: c, w: w, done: make(chan struct{}), changes: make(chan struct{}, 1024)}
	c.SetAssigned(func() { one.changes <- struct{}{} })
	return one
}

func (c *consumer) start() *consumer {
	ctx, stop := context.WithCancel(c.w.Context())
	c.stop = stop
	go func() {
		defer close(c.done)
		c.err = c.Run(ctx)
	}()
	c.w.Cleanup(func() {
		if !c.failed {
			c.end()
		}
	})
	return c
}

// consume makes a consumer and starts it.
func (w *world) consume(workflow pyrula.Definition, cfg kafka.Config) *consumer {
	w.Helper()
	return w.prepare(workflow, cfg).start()
}

// end stops the consumer and waits for it; it may be called twice.
func (c *consumer) end() {
	c.w.Helper()
	c.stop()
	if err := c.wait(); err != nil {
		c.w.Errorf("the consumer ended with: %v", err)
	}
}

// fails waits for the end of a consumer that isn't stopped, and gives its error.
func (c *consumer) fails() error {
	c.w.Helper()
	c.failed = true
	return c.wait()
}

// wait waits for the consumer's end.
func (c *consumer) wait() error {
	c.w.Helper()
	select {
	case <-c.done:
		return c.err
	case <-time.After(patience + pyrula.DefaultDrainTimeout):
		c.w.Fatal("the consumer doesn't end")
		return nil
	}
}

// has waits until the consumer has n partitions, and has been told so.
func (c *consumer) has(n int64) {
	c.w.Helper()
	for end := time.After(patience); ; {
		select {
		case <-c.changes:
			if c.Stats().Partitions == n {
				return
			}
		case <-end:
			c.w.Fatalf("the consumer has %d partitions, want %d", c.Stats().Partitions, n)
		}
	}
}

// bodies are what the bodies of a workflow saw.
type bodies struct {
	mu     sync.Mutex
	ran    map[int]int // how often by order
	inside map[string]int
	most   map[string]int // at once, by name; "" is all
	sum    map[string]int
	log    []int // orders as they began
	began  chan int
}

func newBodies() *bodies {
	return &bodies{ran: map[int]int{}, inside: map[string]int{}, most: map[string]int{}, sum: map[string]int{}, began: make(chan int, 10_000)}
}

var errGone = errors.New("the body is told to stop")

// workflow is one whose bodies count under a name. until holds them.
func (b *bodies) workflow(name string, until func(r *pyrula.Run, o order) <-chan struct{}) *pyrula.Workflow[order, int] {
	return pyrula.Define("charge", func(r *pyrula.Run, o order) (int, error) {
		b.enter(name, o.N)
		defer b.leave(name)
		if until != nil {
			select {
			case <-until(r, o):
			case <-r.Done():
				return 0, errGone
			}
		}
		return o.N, nil
	}, pyrula.KafkaTopic(topic), pyrula.Lease(lease))
}

func (b *bodies) enter(name string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ran[n]++
	b.log = append(b.log, n)
	for _, who := range []string{name, ""} {
		b.inside[who]++
		b.sum[who]++
		b.most[who] = max(b.most[who], b.inside[who])
	}
	b.began <- n
}

func (b *bodies) leave(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inside[name]--
	b.inside[""]--
}

// await waits until n bodies more have begun.
func (b *bodies) await(w *world, n int) {
	w.Helper()
	end := time.After(patience)
	for i := range n {
		select {
		case <-b.began:
		case <-end:
			w.Fatalf("%d bodies began, want %d", i, n)
		}
	}
}

// onceEach fails unless each of n orders, from 0 on, ran in one body.
func (b *bodies) onceEach(w *world, n int) {
	w.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range n {
		if b.ran[i] != 1 {
			w.Errorf("order %d ran in %d bodies, want 1", i, b.ran[i])
		}
	}
	if len(b.ran) != n {
		w.Errorf("%d orders ran, want %d", len(b.ran), n)
	}
}
