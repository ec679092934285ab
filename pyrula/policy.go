package pyrula

import (
	"math"
	"time"

	"github.com/pyrula/pyrula-node/flow"
)

// Policy is something that is declared beside a workflow's body: [Limit], [Rate],
// [Collect], [Debounce], or one of the options [Version], [MaxAttempts], [RetryBackoff],
// [Lease] and [KafkaTopic]. Only this package makes policies.
type Policy interface {
	declare(d *definition) error
}

// Limit lets at most Max runs with one key execute at once (P3). A run over the
// limit stays queued and keeps its place.
//
// Key is the name of a parameter ("tenant", as it stands in the JSON of In), "cel:" and an
// expression ("cel:params.tenant + ':' + params.region", see below), or a function of In:
// func(In) string or func(In) (string, error). Go can't say "a string or a function of the
// In of Define" in a field's type, so Key is checked by [Define] and a wrong one is an
// [ErrConfiguration] where the workflow is used first.
// A parameter that is missing gives the key "" (P13), which is a key like any other.
// A name that no field of a struct In encodes as is refused by [Define]; a map or a
// type with its own MarshalJSON may have any.
//
// A function runs where the run is submitted, so only programs that have the
// workflow's code can submit it (P20). It must give the same text for the same
// parameters, of at most 1,024 bytes of UTF-8. When it panics or returns an error the
// submit fails with [ErrConfiguration] and no run is made (P60).
//
// An expression of 1 to 512 bytes is computed by the node, so programs without the code
// may submit too. The node compiles it when the workflow is declared: a wrong one is an
// [ErrConfiguration] that says at which place, from [Client.Declare], [Client.Work] and
// the first [Workflow.Start].
//
// Beside a [Collect] or a [Debounce] the key must be "key", the batch's (P74).
type Limit struct {
	Key   any
	Max   int    // slots for each key; 1 to 1,000,000,000
	Label string // names a function key; two functions with one label count as the same (P82). Defaults to "limit"
}

// Rate lets at most PerSecond runs with one key start in a second, in bursts of at
// most Burst: a token bucket for each key (P4). See [Limit] for Key.
type Rate struct {
	Key       any
	PerSecond float64 // above 0; 0.5 is one start in two seconds; at least one in 366 days
	Burst     int     // tokens of a full bucket; 0 means PerSecond rounded up
	Label     string  // names a function key. Defaults to "rate"
}

func (l Limit) declare(d *definition) error {
	if d.limit != nil {
		return d.wrong("limit", "must be declared once")
	}
	source, err := d.gateKey(flow.GateLimit, l.Key, l.Label)
	if err != nil {
		return err
	}
	valid := flow.Limit{Key: source, Max: int64(l.Max)}
	if err := valid.Validate("limit"); err != nil {
		return misconfigured(d.name, err)
	}
	d.limit, d.limitKey = &valid, l.Key
	return nil
}

func (r Rate) declare(d *definition) error {
	if d.rate != nil {
		return d.wrong("rate", "must be declared once")
	}
	source, err := d.gateKey(flow.GateRate, r.Key, r.Label)
	if err != nil {
		return err
	}
	valid := flow.Rate{Key: source, PerSecond: r.PerSecond, Burst: int64(r.Burst)}
	if err := valid.Validate("rate"); err != nil {
		return misconfigured(d.name, err)
	}
	d.rate, d.rateKey = &valid, r.Key
	return nil
}

// option is a policy that is one setting.
type option func(d *definition) error

func (o option) declare(d *definition) error { return o(d) }

// Version names this build of the workflow; versions are ordered as integers or
// dotted numbers where both parse, else by when they were first declared (P83). The
// default is the empty version. At most 128 bytes.
func Version(version string) Policy {
	return option(func(d *definition) error {
		if version != "" && !flow.ValidName(version) {
			return d.wrong("version", "must be "+flow.NameRule)
		}
		d.version = version
		return nil
	})
}

// KafkaTopic binds the workflow to a topic: a consumer of package kafka makes a run of
// each of its records, with the record's value as parameters. A bound workflow has no
// Limit, Rate or trigger (P40): it is throttled by the concurrency of its consumers and
// the number of partitions of the topic. It takes runs that are submitted by hand too.
// The name is 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-'.
func KafkaTopic(topic string) Policy {
	return option(func(d *definition) error {
		if d.topic != "" {
			return d.wrong("kafka", "must be declared once")
		}
		if err := flow.CheckTopic("kafka.topic", topic); err != nil {
			return misconfigured(d.name, err)
		}
		d.topic = topic
		return nil
	})
}

// MaxAttempts bounds how often a body may fail before its run fails for good; 1 to
// 1,000,000, default 1. A lost worker or a drain uses no attempt.
func MaxAttempts(n int) Policy {
	return option(func(d *definition) error {
		if n < 1 || n > flow.MaxAttempts {
			return d.wrong("max_attempts", "must be an integer from 1 to 1000000")
		}
		d.attempts = new(int64(n))
		return nil
	})
}

// RetryBackoff is how long a failed run waits before its next attempt; 0 to 30 days,
// default 1 s. Meanwhile it holds no slot.
func RetryBackoff(wait time.Duration) Policy {
	return option(func(d *definition) error {
		if wait < 0 || wait > time.Duration(flow.MaxBackoff) {
			return d.wrong("retry_backoff_seconds", "must be from 0 to 30 days")
		}
		d.backoff = new(wait.Seconds())
		return nil
	})
}

// Lease is how long a worker may work on a run without a confirmed heartbeat; 1 s to
// 1 day, default 30 s. A worker sends one each third of it. Longer means that the
// runs of a lost worker wait longer, shorter that a pause of the network costs runs.
func Lease(lease time.Duration) Policy {
	return option(func(d *definition) error {
		if lease < time.Duration(flow.MinLease) || lease > time.Duration(flow.MaxLease) {
			return d.wrong("lease_seconds", "must be from 1 s to 1 day")
		}
		d.lease = lease
		d.leaseSet = true
		return nil
	})
}

// seconds is a number of seconds from the wire as a duration; it stays at the ends
// instead of wrapping.
func seconds(s float64) time.Duration {
	switch ns := s * float64(time.Second); {
	case !(ns > 0):
		return 0
	case ns >= math.MaxInt64:
		return math.MaxInt64
	default:
		return time.Duration(ns)
	}
}
