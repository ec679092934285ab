package kafka_test

import (
	"context"
	"fmt"
	"log"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pyrula/pyrula-node/cmd/pyrula-node/node"
	"github.com/pyrula/pyrula-node/kafka"
	"github.com/pyrula/pyrula-node/pyrula"
)

// Order is the value of a record, and what its run takes.
type Order struct {
	ID string `json:"id"`
}

// A workflow that is bound to a topic, a record of it, and a consumer that makes the
// record a run and works on it. A real program has its node and brokers elsewhere.
func Example() {
	ctx := context.Background()
	n, err := node.Start(ctx, node.Config{Addr: "127.0.0.1:0"}) // a trial node over a temporary directory
	if err != nil {
		log.Fatal(err)
	}
	defer n.Close(ctx)
	brokers, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "orders")) // in this process
	if err != nil {
		log.Fatal(err)
	}
	defer brokers.Close()

	c, err := pyrula.Dial(ctx, pyrula.WithAddr(n.Addr()))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	charged := make(chan string)
	charge := pyrula.Define("charge", func(r *pyrula.Run, o Order) (string, error) {
		charged <- o.ID
		return "ch_" + o.ID, nil
	}, pyrula.KafkaTopic("orders"))

	consumer, err := kafka.NewConsumer(c, charge, kafka.Config{
		Brokers: brokers.ListenAddrs(), Group: "charge", MaxConcurrency: 8,
	})
	if err != nil {
		log.Fatal(err)
	}
	working, stop := context.WithCancel(ctx) // signal.NotifyContext in a real program
	stopped := make(chan error)
	go func() { stopped <- consumer.Run(working) }()

	producer, err := kgo.NewClient(kgo.SeedBrokers(brokers.ListenAddrs()...), kgo.DefaultProduceTopic("orders"))
	if err != nil {
		log.Fatal(err)
	}
	defer producer.Close()
	if err := producer.ProduceSync(ctx, kgo.StringRecord(`{"id":"o-1"}`)).FirstErr(); err != nil {
		log.Fatal(err)
	}

	fmt.Println("charged", <-charged)
	stop()
	fmt.Println("stopped:", <-stopped)
	// Output:
	// charged o-1
	// stopped: <nil>
}
