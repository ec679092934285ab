package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pyrula/pyrula-node/pyrula"
)

var (
	// ErrRunning says that the consumer runs already.
	ErrRunning = errors.New("consumer runs already")
	// ErrTopicReplaced says that the topic was deleted, and perhaps made again, while it
	// was consumed. A consumer that is started again consumes the new one.
	ErrTopicReplaced = errors.New("topic was deleted while it was consumed")
)

// Consumer makes runs of the records of a topic and works on them. It is made by
// [NewConsumer] and started by [Consumer.Run].
type Consumer struct {
	client   *pyrula.Client
	workflow pyrula.Definition
	name     string // of the workflow
	topic    string
	cfg      Config
	count    counters
	running  atomic.Bool

	// Seams of tests. mayCommit is asked before each commit; assigned is told after each
	// change of what is owned.
	mayCommit func() error
	assigned  func()
}

// NewConsumer checks the settings of a consumer of a workflow that is bound to a topic
// by [pyrula.KafkaTopic]. It speaks to nobody yet. Error: [pyrula.ErrConfiguration],
// also for a workflow whose declaration is wrong (P40, P57) and for settings that the
// Kafka client refuses.
func NewConsumer(client *pyrula.Client, workflow pyrula.Definition, cfg Config) (*Consumer, error) {
	name, topic, err := pyrula.TopicOf(workflow)
	if err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Consumer{client: client, workflow: workflow, name: name, topic: topic, cfg: cfg}
	if err := kgo.ValidateOpts(c.options()...); err != nil {
		return nil, fmt.Errorf("kafka consumer: %w: %w", pyrula.ErrConfiguration, err)
	}
	if _, err := c.worker(); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Consumer) worker() (*pyrula.Worker, error) {
	return c.client.NewWorker(pyrula.WorkerConfig{
		Name: c.cfg.Name, Concurrency: c.cfg.MaxConcurrency, DrainTimeout: c.cfg.DrainTimeout, Logger: c.cfg.Logger,
	}, c.workflow)
}

// Run declares the workflow, joins the group, and consumes and works until ctx ends.
// Brokers and a node that can't be reached are asked again for as long as ctx lives.
//
// When ctx ends the consumer commits what is settled, leaves the group, and lets bodies
// finish as a worker does that drains; Run then returns nil. It may be called again
// afterwards. Errors: [ErrRunning], [ErrTopicReplaced], those of a worker's Run, and
// [pyrula.ErrConfiguration] and the like when the node refuses submits for good. After
// an error nothing that wasn't settled is committed.
func (c *Consumer) Run(ctx context.Context) error {
	if c.running.Swap(true) {
		return ErrRunning
	}
	defer c.running.Store(false)
	log := c.cfg.Logger.With("workflow", c.name, "group", c.cfg.Group)
	if err := c.declare(ctx, log); err != nil {
		return fmt.Errorf("kafka consumer of %s: %w", c.topic, err)
	}
	if ctx.Err() != nil {
		return nil // stopped before it could begin
	}
	s, err := newShift(c, log)
	if err != nil {
		return fmt.Errorf("kafka consumer of %s: %w: %w", c.topic, pyrula.ErrConfiguration, err)
	}
	if err := s.run(ctx); err != nil {
		return fmt.Errorf("kafka consumer of %s: %w", c.topic, err)
	}
	return nil
}

// declare makes sure that the node knows the workflow before its first run. It asks
// for as long as ctx lives.
func (c *Consumer) declare(ctx context.Context, log *slog.Logger) error {
	for n := 0; ctx.Err() == nil; n++ {
		_, err := c.client.Declare(ctx, c.workflow)
		if err == nil || ctx.Err() != nil {
			return nil //nolint:nilerr // the caller looks at ctx
		}
		if judge(err) != tryAgain {
			return err
		}
		log.Warn("declare the workflow again", "err", err)
		_ = pause(ctx, backoff(n)) // the end of ctx shows in the loop
	}
	return nil
}

// shift is one call of [Consumer.Run].
//
//	         ┌──────────── room ◄── a run has ended ◄── followers
//	         ▼                                             ▲
//	brokers ──► poll ──► submit ──► settled ──► commits    │
//	                        └──────────────────────────────┘
//	rebalances ──► ledger ──► serve (a worker while partitions are owned)
type shift struct {
	c         *Consumer
	log       *slog.Logger
	kafka     *kgo.Client
	ledger    *ledger
	flight    *flight
	followers sync.WaitGroup
	commitMu  sync.Mutex // from the look at what is settled to the end of its commit
}

func newShift(c *Consumer, log *slog.Logger) (*shift, error) {
	s := &shift{c: c, log: log, ledger: newLedger(&c.count), flight: newFlight(c.cfg.MaxConcurrency, &c.count)}
	ready := make(chan struct{})
	defer close(ready)
	var err error
	s.kafka, err = kgo.NewClient(c.options(
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) {
			s.ledger.assign(got[c.topic])
			s.tell()
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, _ *kgo.Client, gone map[string][]int32) {
			<-ready // the client calls before it is ours
			s.revoke(ctx, gone[c.topic])
			s.tell()
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
			s.ledger.drop(gone[c.topic])
			s.tell()
		}),
	)...)
	return s, err
}

func (s *shift) tell() {
	if s.c.assigned != nil {
		s.c.assigned()
	}
}

// run is the shift from its begin to its end. What fails for good stops the rest.
func (s *shift) run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var failed error
	var once sync.Once
	end := func(err error) {
		if err != nil {
			once.Do(func() { failed = err })
			stop(err)
		}
	}
	var taking, serving sync.WaitGroup
	taking.Go(func() { end(s.intake(ctx)) })
	taking.Go(func() { s.commits(ctx) })
	serving.Go(func() { end(s.serve(ctx)) })
	taking.Wait()
	s.leave(ctx) // beside the drain: others take over meanwhile
	serving.Wait()
	s.followers.Wait()
	return failed
}

// serve runs a worker while this consumer has partitions; without any it claims
// nothing. There is never a second worker while one drains, so no more bodies run at
// once than may.
func (s *shift) serve(ctx context.Context) error {
	for ctx.Err() == nil {
		if !s.ledger.ownsAny() {
			select {
			case <-s.ledger.changed:
			case <-ctx.Done():
			}
			continue
		}
		if err := s.work(ctx); err != nil {
			return err
		}
	}
	return nil
}

// work runs a worker until no partition is left or ctx ends, and it has drained.
func (s *shift) work(ctx context.Context) error {
	worker, err := s.c.worker()
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	s.c.count.working.Store(true)
	defer s.c.count.working.Store(false)
	drained := make(chan error, 1)
	go func() { drained <- worker.Run(working) }()
	for {
		select {
		case <-s.ledger.changed:
			if !s.ledger.ownsAny() {
				stop()
			}
		case err := <-drained:
			return err
		}
	}
}
