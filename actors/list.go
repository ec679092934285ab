package actors

import (
	"cmp"
	"context"
	"slices"

	"github.com/tidwall/btree"
	"github.com/tidwall/gjson"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/runactor"
)

// Bounds of lists.
const (
	defaultList = 100
	// maxListScan bounds what one shard looks at for one page when runs are sifted by
	// key; a page may then be short, or even empty, and still have a cursor.
	maxListScan = 10_000
)

// listQuery is a checked ListQuery.
type listQuery struct {
	workflow string // empty for all
	key      *string
	status   flow.Status // zero for all
	limit    int
	before   flow.RunID // exclusive; zero for the newest
}

// listPart is one shard's share of a page, newest first. reached is the id down to
// which the shard has looked; zero when it has looked at everything.
type listPart struct {
	looks   []look
	reached flow.RunID
}

// List is one page of runs, newest first, merged over the shards by id. There is
// no view that is consistent over all shards.
func (n *Node) List(ctx context.Context, q wire.ListQuery) (wire.RunList, error) {
	out := wire.RunList{Runs: []wire.Run{}}
	c, err := checkList(&q)
	if err != nil {
		return out, err
	}
	if err := n.serving(); err != nil {
		return out, err
	}
	ask := n.asks.open(len(n.shards))
	for i, s := range n.shards {
		s.box.tell(queryMsg{ask: ask.id, item: i, read: func(s *shard) (any, error) { return s.list(&c), nil }})
	}
	var all []look
	var reached flow.RunID // below it some shard hasn't looked
	take := func(part listPart) {
		all = append(all, part.looks...)
		if part.reached.Compare(reached) > 0 {
			reached = part.reached
		}
	}
	for _, a := range n.await(ctx, ask) {
		if a.err != nil {
			return out, a.err
		}
		take(a.value.(listPart))
	}
	old, err := n.listArchived(&c) // behind the shards: what moves meanwhile is in both
	if err != nil {
		return out, err
	}
	take(old)
	slices.SortStableFunc(all, func(a, b look) int { return b.ID.Compare(a.ID) })
	all = slices.CompactFunc(all, func(a, b look) bool { return a.ID == b.ID })
	if !reached.IsZero() {
		all = slices.DeleteFunc(all, func(l look) bool { return l.ID.Compare(reached) < 0 })
	}
	if len(all) > c.limit {
		all = all[:c.limit]
		reached = all[c.limit-1].ID
	}
	for i := range all {
		if err := n.knowWorkers(ctx, &all[i]); err != nil {
			return out, err
		}
		out.Runs = append(out.Runs, n.runOf(&all[i]))
	}
	if !reached.IsZero() {
		out.NextCursor = new(reached.String())
	}
	return out, nil
}

func checkList(q *wire.ListQuery) (listQuery, error) {
	c := listQuery{workflow: q.Workflow, key: q.Key, limit: cmp.Or(q.Limit, defaultList)}
	if err := q.Check(); err != nil {
		return c, err
	}
	c.status, _ = flow.ParseStatus(q.Status) // checked; none means all
	if q.Cursor != "" {
		before, err := flow.ParseRunID(q.Cursor)
		if err != nil {
			return c, flow.Invalid("cursor", "must be the next_cursor of an earlier page")
		}
		c.before = before
	}
	return c, nil
}

// sieve says whether a run has the key that is asked for.
func (q *listQuery) sieve(run *runactor.Run) bool {
	if q.key == nil {
		return true
	}
	key, ok := keyOf(run)
	return ok && key == *q.key
}

// keyOf is the key that a run is counted by: that of its gates, else of the batch that it
// was made of; ok is false for a run that has none.
func keyOf(run *runactor.Run) (key string, ok bool) {
	if home := run.Stamp().Home(run.Workflow()); home.Kind == flow.KeyOfValue {
		return home.Value, true
	}
	if run.Trigger() != runactor.TriggerEvents {
		return "", false
	}
	return gjson.GetBytes(run.Params(), flow.BatchKey).String(), true
}

// list is this shard's share of a page.
func (s *shard) list(q *listQuery) listPart {
	var part listPart
	looked, last := 0, flow.RunID{}
	s.st.index.descend(q, func(id flow.RunID) bool {
		if len(part.looks) > q.limit || looked >= maxListScan {
			part.reached = last
			return false
		}
		last = id
		looked++
		if slot := s.st.runs[id]; q.sieve(slot.run) {
			part.looks = append(part.looks, s.look(slot))
		}
		return true
	})
	return part
}

// descend calls f with the ids that a query names, newest first, until f says no.
func (x *runIndex) descend(q *listQuery, f func(flow.RunID) bool) {
	var heads []*btree.IterG[flow.RunID]
	for k, l := range x.lists { //tidy:ordered the lists are merged by id below
		if (q.workflow != "" && k.workflow != q.workflow) || (q.status != 0 && k.status != q.status) {
			continue
		}
		it := l.Iter()
		if seekBefore(&it, q.before) {
			heads = append(heads, &it)
		} else {
			it.Release()
		}
	}
	defer func() {
		for _, it := range heads {
			it.Release()
		}
	}()
	for len(heads) > 0 {
		newest := 0
		for i := range heads {
			if heads[i].Item().Compare(heads[newest].Item()) > 0 {
				newest = i
			}
		}
		if !f(heads[newest].Item()) {
			return
		}
		if !heads[newest].Prev() {
			heads[newest].Release()
			heads = slices.Delete(heads, newest, newest+1)
		}
	}
}

// seekBefore stands an iterator at the newest id before the given one.
func seekBefore(it *btree.IterG[flow.RunID], before flow.RunID) bool {
	if before.IsZero() {
		return it.Last()
	}
	if it.Seek(before) {
		return it.Prev()
	}
	return it.Last()
}
