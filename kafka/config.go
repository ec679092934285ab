package kafka

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pyrula/pyrula-node/pyrula"
)

// Bounds of a consumer.
const (
	// MaxConcurrency is the most that Config.MaxConcurrency may be: each run in flight
	// is a request that waits at the node.
	MaxConcurrency = 1024
	// MaxGroupBytes bounds the name of a consumer group.
	MaxGroupBytes = 249
)

const (
	// batchBytesMax bounds the values in one submit, well under the bound of a body.
	batchBytesMax = 512 << 10
	// fetchBytesMax bounds what is fetched of one broker ahead of need.
	fetchBytesMax = 8 << 20
	// commitTimeout bounds one commit, and so how long one keeps a rebalance waiting.
	commitTimeout = 10 * time.Second
	// leaveTimeout bounds the farewell to the group when a consumer stops.
	leaveTimeout = 5 * time.Second
)

// Config is how a consumer works. Brokers and Group must be set; the zero value of
// the rest is the default.
type Config struct {
	// Brokers are addresses, host:port, of some brokers of the cluster; at least one.
	Brokers []string
	// Group is the consumer group, of 1 to 249 bytes. All consumers of a workflow have
	// the same.
	Group string
	// MaxConcurrency is how many bodies of this consumer run at once, and how many of
	// the runs that it made may be unfinished; 1 to 1,024. With 1 the records of a
	// partition run one after the other. Defaults to pyrula.DefaultConcurrency, 16.
	MaxConcurrency int
	// DeadLetter takes the records that can't be runs, see [ErrUnfit], say into a topic
	// of their own. One that returns an error is called again, for ever, and nothing
	// behind the record is committed meanwhile. The call for a record may be repeated
	// after a crash. nil means that such a record is logged, counted and passed over.
	DeadLetter func(ctx context.Context, record *kgo.Record, reason error) error
	// Name and DrainTimeout are those of pyrula.WorkerConfig.
	Name         string
	DrainTimeout time.Duration
	// Logger takes warnings, those of the Kafka client too, and is what the Log of each
	// run is made of. Defaults to slog.Default().
	Logger *slog.Logger
	// Options are more settings of the Kafka client: TLS, SASL, a static member, where a
	// new group begins (by default at the beginning of the topic). They can't change
	// brokers, group, topic, when offsets are committed, and what happens in a
	// rebalance.
	Options []kgo.Opt
}

func (cfg Config) withDefaults() Config {
	cfg.MaxConcurrency = cmp.Or(cfg.MaxConcurrency, pyrula.DefaultConcurrency)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	return cfg
}

func (cfg Config) validate() error {
	switch {
	case len(cfg.Brokers) == 0:
		return wrong("brokers", "must name at least one")
	case cfg.Group == "" || len(cfg.Group) > MaxGroupBytes:
		return wrong("group", fmt.Sprintf("must have 1 to %d bytes, not %d", MaxGroupBytes, len(cfg.Group)))
	case cfg.MaxConcurrency < 1 || cfg.MaxConcurrency > MaxConcurrency:
		return wrong("max_concurrency", fmt.Sprintf("must be from 1 to %d, not %d", MaxConcurrency, cfg.MaxConcurrency))
	}
	return nil
}

func wrong(field, want string) error {
	return fmt.Errorf("kafka consumer: %w: %s %s", pyrula.ErrConfiguration, field, want)
}

// options are the settings of the Kafka client: defaults first, then the user's, then
// what the laws of this package rest on.
func (c *Consumer) options(callbacks ...kgo.Opt) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.ClientID("pyrula"),
		kgo.WithLogger(clientLog{c.cfg.Logger}),
		// A record of a transaction that was aborted was never there.
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxBytes(fetchBytesMax),
	}
	opts = append(opts, c.cfg.Options...)
	opts = append(opts,
		kgo.SeedBrokers(c.cfg.Brokers...), kgo.ConsumerGroup(c.cfg.Group), kgo.ConsumeTopics(c.topic), kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(), // a poll and the look at whose records they are is one step; see shift.poll
	)
	return append(opts, callbacks...)
}

// clientLog gives the warnings of the Kafka client to a logger.
type clientLog struct{ log *slog.Logger }

// Level implements kgo.Logger: what is below a warning isn't even made.
func (clientLog) Level() kgo.LogLevel { return kgo.LogLevelWarn }

// Log implements kgo.Logger.
func (l clientLog) Log(level kgo.LogLevel, event string, keyvals ...any) {
	at := slog.LevelWarn
	if level == kgo.LogLevelError {
		at = slog.LevelError
	}
	l.log.Log(context.Background(), at, "kafka client: "+event, keyvals...)
}
