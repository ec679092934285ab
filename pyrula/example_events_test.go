package pyrula_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/pyrula/pyrula-node/pyrula"
)

// Comment is an event of the examples.
type Comment struct {
	UserID string `json:"user_id"`
	Text   string `json:"text"`
}

// Three comments of a user become one digest, and so do fewer of them a minute after the
// first. The event that fills the batch is answered with its run.
func ExampleCollect() {
	ctx := context.Background()
	digest := pyrula.Define("digest", func(r *pyrula.Run, b pyrula.Batch[Comment]) (string, error) {
		return fmt.Sprintf("%s has %d comments, the last is %q", b.Key, b.Count, b.Events[b.Count-1].Text), nil
	},
		pyrula.Collect{Key: "user_id", MaxEvents: 3, Window: time.Minute},
		pyrula.Limit{Key: "key", Max: 1}, // one digest of a user at a time
	)
	c, stop := onTrialNode(ctx, digest)
	defer stop()

	for _, text := range []string{"first", "second", "third"} {
		run, err := pyrula.Trigger(ctx, c, digest, Comment{UserID: "ada", Text: text})
		switch {
		case err != nil:
			log.Fatal(err)
		case run == nil:
			fmt.Println(text, "is gathered")
		default:
			fmt.Println(run.Result(ctx))
		}
	}
	// Output:
	// first is gathered
	// second is gathered
	// ada has 3 comments, the last is "third" <nil>
}

// A page is indexed once its edits have paused, however many they were.
func ExampleDebounce() {
	ctx := context.Background()
	type Edit struct {
		Page string `json:"page"`
	}
	indexed := make(chan string)
	index := pyrula.Define("index", func(r *pyrula.Run, b pyrula.Batch[Edit]) (int, error) {
		indexed <- fmt.Sprintf("%s: %d edits, one run", b.Key, b.Count)
		return b.Count, nil
	}, pyrula.Debounce{Key: "page", Window: time.Second, MaxWait: time.Hour})
	c, stop := onTrialNode(ctx, index)
	defer stop()

	for range 3 {
		if _, err := pyrula.Trigger(ctx, c, index, Edit{Page: "home"}); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(<-indexed)
	// Output:
	// home: 3 edits, one run
}

// Many events go in one request, by name; an id makes the whole batch safe to send again,
// also by another program.
func ExampleClient_TriggerBatch() {
	ctx := context.Background()
	digest := pyrula.Define("digest", func(r *pyrula.Run, b pyrula.Batch[Comment]) (int, error) {
		return b.Count, nil
	}, pyrula.Collect{Key: "user_id", MaxEvents: 2, Window: time.Minute})
	c, stop := onTrialNode(ctx, digest)
	defer stop()
	if _, err := c.Declare(ctx, digest); err != nil { // a worker does it too
		log.Fatal(err)
	}

	events := []any{Comment{UserID: "ada"}, Comment{UserID: "bob"}, Comment{UserID: "ada"}}
	for range 2 {
		done, err := c.TriggerBatch(ctx, "digest", events, pyrula.EventID("export-17"))
		if err != nil {
			log.Fatal(err)
		}
		for i, one := range done {
			fmt.Println(i, one.RunID != "", one.Err)
		}
	}
	view, err := c.Key(ctx, "digest", "bob")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("bob's batch has", view.Batch.Events, "event")
	// Output:
	// 0 false <nil>
	// 1 false <nil>
	// 2 true <nil>
	// 0 false <nil>
	// 1 false <nil>
	// 2 true <nil>
	// bob's batch has 1 event
}
