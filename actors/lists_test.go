package actors_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// page is one page of a list.
func (w *world) page(q wire.ListQuery) wire.RunList {
	w.Helper()
	return await(w, begin(func() (wire.RunList, error) { return w.List(w.life, q) }))
}

// pages are the ids of all pages of a list, in their order.
func (w *world) pages(q wire.ListQuery) []string {
	w.Helper()
	var ids []string
	for {
		p := w.page(q)
		if q.Limit > 0 && len(p.Runs) > q.Limit {
			w.Fatalf("%d runs on a page of %d", len(p.Runs), q.Limit)
		}
		for _, r := range p.Runs {
			ids = append(ids, r.RunID)
		}
		if p.NextCursor == nil {
			return ids
		}
		if *p.NextCursor == q.Cursor {
			w.Fatalf("the cursor stands still at %s", q.Cursor)
		}
		q.Cursor = *p.NextCursor
	}
}

// TestListPagesHoldEveryRunOnce fails when a run is missing from the pages of a
// list, stands on two, or stands out of order, for any filter and page size.
func TestListPagesHoldEveryRunOnce(t *testing.T) {
	play(t, func(w *world) {
		w.declare("a", leased)
		w.declare("b", `{"version":"1"}`)
		var all []wire.Run
		for i := range 60 {
			id := w.submit([]string{"a", "b"}[i%2], fmt.Sprintf(`{"k":"%d"}`, i%5))
			all = append(all, wire.Run{RunID: id.String()})
			if i%7 == 3 {
				w.cancel(id)
			}
		}
		w.claim("a", "1", 5)
		for i := range all {
			all[i] = w.status(w.id(all[i].RunID))
		}
		slices.SortFunc(all, func(x, y wire.Run) int { return w.id(y.RunID).Compare(w.id(x.RunID)) })
		key, empty := "3", ""
		for _, q := range []wire.ListQuery{
			{}, {Workflow: "a"}, {Status: "cancelled"}, {Workflow: "b", Status: "queued"},
			{Key: &key}, {Key: &empty}, {Workflow: "a", Key: &key}, {Workflow: "a", Status: "executing"}, {Workflow: "nobody"}, {Status: "failed"},
		} {
			var want []string
			for _, r := range all {
				if matches(q, r) {
					want = append(want, r.RunID)
				}
			}
			for _, q.Limit = range []int{0, 1, 7, 60, 500} {
				if got := w.pages(q); !slices.Equal(got, want) {
					w.Errorf("%+v: %d runs, want %d\n got %v\nwant %v", q, len(got), len(want), got, want)
				}
			}
		}
	})
}

// matches says whether a query names a run.
func matches(q wire.ListQuery, r wire.Run) bool {
	key := ""
	if len(r.Gates) > 0 {
		key = r.Gates[0].Key
	}
	return (q.Workflow == "" || r.Workflow == q.Workflow) && (q.Status == "" || r.Status == q.Status) &&
		(q.Key == nil || key == *q.Key && len(r.Gates) > 0)
}

// TestListOfARareKeyReachesEveryRun fails when a run is skipped because a page ended
// just before it: a shard looks at 10,000 runs for one page, and goes on there.
func TestListOfARareKeyReachesEveryRun(t *testing.T) {
	setup{shards: 1}.play(t, func(w *world) {
		w.declare("sync", leased)
		rare := "rare"
		var want []string
		for i := range 4 {
			want = append(want, w.submit("sync", `{"k":"rare"}`).String())
			w.pass(time.Millisecond) // ids of one millisecond are in no order
			if i < 3 {
				w.submitAll(9999, "sync", `{"k":"often"}`)
				w.pass(time.Millisecond)
			}
		}
		slices.Reverse(want)
		got := w.pages(wire.ListQuery{Workflow: "sync", Key: &rare})
		if !slices.Equal(got, want) {
			w.Errorf("the pages hold %v, want %v", got, want)
		}
	})
}

// TestListRefusesNonsense fails when a bad filter is taken for no filter.
func TestListRefusesNonsense(t *testing.T) {
	play(t, func(w *world) {
		for _, q := range []wire.ListQuery{{Limit: -1}, {Limit: 501}, {Status: "done"}, {Cursor: "x"}, {Cursor: "run_1"}} {
			if _, err := w.List(w.Context(), q); err == nil {
				w.Errorf("%+v was taken", q)
			}
		}
	})
}
