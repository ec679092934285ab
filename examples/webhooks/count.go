package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pyrula/pyrula-node/pyrula"
)

// settled waits until no event of a repository is in an open batch, and no run of it waits or
// executes.
func settled(ctx context.Context, c *pyrula.Client, w workflow, all []webhook) error {
	ctx, stop := context.WithTimeoutCause(ctx, patient, errors.New("a batch doesn't fire, or a run doesn't end"))
	defer stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	seen := map[string]bool{}
	for _, e := range all {
		for !seen[e.Repository] {
			key, err := c.Key(ctx, w.Name(), e.Repository)
			if err != nil {
				return errors.Join(context.Cause(ctx), err)
			}
			seen[e.Repository] = key.Batch == nil && key.Queued == 0 && key.Used == 0
			if seen[e.Repository] {
				break
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// folded are the results of all runs, oldest first. A run has one result, also when a crash
// made it execute twice.
func folded(ctx context.Context, c *pyrula.Client, w workflow) (all []digest, err error) {
	for query := (pyrula.ListQuery{Workflow: w.Name()}); ; {
		page, err := c.List(ctx, query)
		if err != nil {
			return nil, err
		}
		for _, r := range page.Runs {
			var d digest
			if r.Status != "completed" {
				return nil, fmt.Errorf("run %s is %s", r.RunID, r.Status)
			}
			if err := json.Unmarshal(r.Result, &d); err != nil {
				return nil, fmt.Errorf("run %s: %w", r.RunID, err)
			}
			all = append(all, d)
		}
		if page.NextCursor == nil {
			slices.Reverse(all)
			return all, nil
		}
		query.Cursor = *page.NextCursor
	}
}

// count holds the digests against what was sent: each event must be in one, once, and those of
// a repository in their order. It returns how many events the digests have.
func count(sent []webhook, digests []digest) (in int, err error) {
	place, last, found := map[string]int{}, map[string]int{}, map[string]bool{}
	for i, e := range sent {
		place[e.Delivery] = i + 1
	}
	for _, d := range digests {
		if d.Count != len(d.Deliveries) {
			return 0, fmt.Errorf("a digest of %s says %d events and has %d", d.Repository, d.Count, len(d.Deliveries))
		}
		for _, id := range d.Deliveries {
			at := place[id]
			switch {
			case at == 0 || sent[at-1].Repository != d.Repository:
				return 0, fmt.Errorf("a digest of %s has the event %s, which nobody sent", d.Repository, id)
			case found[id]:
				return 0, fmt.Errorf("event %s of %s is in the digests twice", id, d.Repository)
			case at < last[d.Repository]:
				return 0, fmt.Errorf("event %s of %s is out of order", id, d.Repository)
			}
			found[id], last[d.Repository] = true, at
			in++
		}
	}
	for _, e := range sent {
		if !found[e.Delivery] {
			return 0, fmt.Errorf("event %s of %s is missing", e.Delivery, e.Repository)
		}
	}
	return in, nil
}
