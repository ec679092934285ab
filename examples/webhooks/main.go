// Command webhooks folds a recorded stream of webhooks into digests, one for up to 40 events
// of a repository or for those of half a second, and kills the node with SIGKILL in the middle. At
// the end it counts: every event that was sent is in exactly one run, in its order.
//
//	go run ./examples/webhooks                       # builds a node, and plays on it
//	go run ./examples/webhooks -addr 127.0.0.1:7477  # on a node that runs; nothing is killed
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pyrula/pyrula-node/examples"
	"github.com/pyrula/pyrula-node/pyrula"
)

// webhook is an event: what the digest needs of a delivery.
type webhook struct {
	Delivery   string `json:"delivery"`
	Event      string `json:"event"`
	Repository string `json:"repository"`
	Sender     string `json:"sender"`
}

// digest is what becomes of a batch of them.
type digest struct {
	Repository string         `json:"repository"`
	Count      int            `json:"count"`
	Events     map[string]int `json:"events"`
	LastSender string         `json:"last_sender"`
	Deliveries []string       `json:"deliveries"`
}

type workflow = *pyrula.Workflow[pyrula.Batch[webhook], digest]

func declare(name string) workflow {
	return pyrula.Define(name, func(_ *pyrula.Run, b pyrula.Batch[webhook]) (digest, error) {
		d := digest{Repository: b.Key, Count: b.Count, Events: map[string]int{}}
		for _, e := range b.Events {
			d.Events[e.Event]++
			d.LastSender = e.Sender
			d.Deliveries = append(d.Deliveries, e.Delivery)
		}
		return d, nil
	},
		pyrula.Collect{Key: "repository", MaxEvents: 40, Window: 500 * time.Millisecond},
		pyrula.Limit{Key: "key", Max: 1}, // one digest of a repository at a time
	)
}

const (
	senders = 8
	// patient is how long a request goes on being sent: the node comes back meanwhile.
	patient = time.Minute
)

func main() {
	addr := flag.String("addr", "", "the address of a node that runs; it is not killed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *addr, os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, addr string, out io.Writer) (err error) {
	if addr != "" {
		// The node knows the deliveries of an earlier play, and would count none of them again.
		return play(ctx, &stage{addr: addr, out: out, name: fmt.Sprintf("digest-%d", time.Now().UnixMilli())})
	}
	p, err := newProcess(ctx)
	if err != nil {
		return err
	}
	err = play(ctx, &stage{addr: p.addr, out: out, name: "digest", node: p})
	return errors.Join(err, p.close(err != nil && ctx.Err() == nil))
}

// stage is where the stream is played. node is nil where nothing is to be killed.
type stage struct {
	addr, name string
	node       *process
	out        io.Writer
}

func play(ctx context.Context, s *stage) error {
	c, err := pyrula.Dial(ctx, pyrula.WithAddr(s.addr), pyrula.WithRetryFor(patient), pyrula.WithDialTimeout(patient))
	if err != nil {
		return err
	}
	defer c.Close()
	w := declare(s.name)
	// A worker says when it loses its node. That is what is played here, so nobody listens.
	worker, err := c.NewWorker(pyrula.WorkerConfig{Logger: slog.New(slog.DiscardHandler)}, w)
	if err != nil {
		return err
	}
	working, drain := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- worker.Run(working) }()
	err = s.sendAndCount(ctx, c, w)
	drain()
	return errors.Join(err, <-worked)
}

func (s *stage) sendAndCount(ctx context.Context, c *pyrula.Client, w workflow) error {
	all, err := recorded()
	if err != nil {
		return err
	}
	if err := s.send(ctx, c, w, all); err != nil {
		return err
	}
	if err := settled(ctx, c, w, all); err != nil {
		return err
	}
	digests, err := folded(ctx, c, w)
	if err != nil {
		return err
	}
	for _, d := range digests[:min(len(digests), 5)] {
		fmt.Fprintf(s.out, "%-18s %2d events: %v, the last by %s\n", d.Repository, d.Count, d.Events, d.LastSender)
	}
	in, err := count(all, digests)
	if err != nil {
		return err
	}
	killed := "nothing was killed"
	if s.node != nil {
		killed = "one kill -9"
	}
	fmt.Fprintf(s.out, "events in %d = events in runs %d, %d runs, %s\n", len(all), in, len(digests), killed)
	return nil
}

func recorded() (all []webhook, err error) {
	for line := range strings.Lines(examples.Webhooks()) {
		var e webhook
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// send sends all events, each repository's in their order, and kills the node in the middle.
// An event is acknowledged once it is on disk. One that isn't, since the node is gone, is sent
// again by the SDK. It has the delivery's id, so it counts once even if the node had it.
func (s *stage) send(ctx context.Context, c *pyrula.Client, w workflow, all []webhook) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var taken, underWay atomic.Int64
	half := make(chan struct{})
	var sending sync.WaitGroup
	for _, part := range share(all) {
		sending.Go(func() {
			for _, e := range part {
				underWay.Add(1)
				_, err := pyrula.Trigger(ctx, c, w, e, pyrula.EventID(e.Delivery))
				underWay.Add(-1)
				if err != nil {
					stop(err)
					return
				}
				if taken.Add(1) == int64(len(all)/2) {
					close(half)
				}
			}
		})
	}
	if s.node != nil {
		select {
		case <-half:
			s.node.kill()
			fmt.Fprintf(s.out, "kill -9 after %d events, with %d under way\n", taken.Load(), underWay.Load())
			if err := s.node.start(ctx); err != nil {
				stop(err)
			}
		case <-ctx.Done():
		}
	}
	sending.Wait()
	return context.Cause(ctx)
}

// share gives each sender some repositories: one sends all of a repository, so its events keep
// their order.
func share(all []webhook) [senders][]webhook {
	var parts [senders][]webhook
	of := map[string]int{}
	for _, e := range all {
		if _, known := of[e.Repository]; !known {
			of[e.Repository] = len(of) % senders
		}
		parts[of[e.Repository]] = append(parts[of[e.Repository]], e)
	}
	return parts
}
