package main

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/cmd/pyrula-node/node"
)

// TestP33P36P71S80WebhooksOverAKill fails when an event of the recorded stream is lost, in two
// digests or out of its order, though the node is killed in the middle of it.
func TestP33P36P71S80WebhooksOverAKill(t *testing.T) {
	says(t, "", `\nevents in 1200 = events in runs 1200, \d+ runs, one kill -9\n$`)
}

// TestP33P36WebhooksOnANodeThatRuns fails when the program doesn't end well on a node of others,
// also when it plays there twice within the time for which ids are known.
func TestP33P36WebhooksOnANodeThatRuns(t *testing.T) {
	n, err := node.Start(t.Context(), node.Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		says(t, n.Addr(), `\nevents in 1200 = events in runs 1200, \d+ runs, nothing was killed\n$`)
	}
	if err := n.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

func says(t *testing.T, addr, want string) {
	t.Helper()
	var out strings.Builder
	if err := run(t.Context(), addr, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !regexp.MustCompile(want).MatchString(out.String()) {
		t.Errorf("it says:\n%swant %q", out.String(), want)
	}
}

// TestP36S80CountCatches fails when the program would call a bad stream good.
func TestP36S80CountCatches(t *testing.T) {
	sent := []webhook{{Delivery: "1", Repository: "a"}, {Delivery: "2", Repository: "b"}, {Delivery: "3", Repository: "a"}, {Delivery: "4", Repository: "a"}}
	of := func(repository string, ids ...string) digest {
		return digest{Repository: repository, Count: len(ids), Deliveries: ids}
	}
	wrongCount := of("a", "1", "3", "4")
	wrongCount.Count = 2
	for want, digests := range map[string][]digest{
		"":             {of("a", "1", "3"), of("b", "2"), of("a", "4")},
		"missing":      {of("a", "1", "3"), of("b", "2")},
		"twice":        {of("a", "1", "3"), of("b", "2"), of("a", "3", "4")},
		"out of order": {of("a", "4"), of("b", "2"), of("a", "1", "3")},
		"nobody sent":  {of("a", "1", "2", "3", "4")},
		"says 2":       {wrongCount, of("b", "2")},
	} {
		in, err := count(sent, digests)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || err == nil && in != len(sent) {
			t.Errorf("%v gives %d and the error %v, want %q", digests, in, err, want)
		}
	}
}

// TestEachRepositoryHasOneSender fails when events of a repository could pass each other.
func TestEachRepositoryHasOneSender(t *testing.T) {
	all, err := recorded()
	if err != nil {
		t.Fatal(err)
	}
	of, sum := map[string]int{}, 0
	for i, part := range share(all) {
		sum += len(part)
		for _, e := range part {
			if first, known := of[e.Repository]; known && first != i {
				t.Errorf("%s has the senders %d and %d", e.Repository, first, i)
			}
			of[e.Repository] = i
		}
		if !slices.IsSortedFunc(part, func(a, b webhook) int { return slices.Index(all, a) - slices.Index(all, b) }) {
			t.Errorf("sender %d has the stream out of order", i)
		}
	}
	if sum != len(all) || len(of) != 25 {
		t.Errorf("%d events of %d repositories are sent, want %d of 25", sum, len(of), len(all))
	}
}
