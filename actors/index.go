package actors

import (
	"slices"

	"github.com/tidwall/btree"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/runactor"
)

// runIndex lists runs by workflow and status in the order of their ids, so that a
// page of a list costs what it shows and not what there is.
type runIndex struct {
	lists map[indexKey]*btree.BTreeG[flow.RunID]
}

type indexKey struct {
	workflow string
	status   flow.Status
}

func newRunIndex() runIndex {
	return runIndex{lists: make(map[indexKey]*btree.BTreeG[flow.RunID])}
}

func (x *runIndex) list(workflow string, s flow.Status) *btree.BTreeG[flow.RunID] {
	k := indexKey{workflow, s}
	l := x.lists[k]
	if l == nil {
		l = btree.NewBTreeGOptions(
			func(a, b flow.RunID) bool { return a.Compare(b) < 0 },
			btree.Options{NoLocks: true})
		x.lists[k] = l
	}
	return l
}

// move follows a run from one status to the next; a new run comes from status
// zero.
func (x *runIndex) move(run *runactor.Run, was, now flow.Status) {
	if was != 0 {
		x.list(run.Workflow(), was).Delete(run.ID())
	}
	x.list(run.Workflow(), now).Set(run.ID())
}

// load fills an empty index.
func (x *runIndex) load(ids map[indexKey][]flow.RunID) {
	for k, list := range ids { //tidy:ordered a list is filled by itself
		slices.SortFunc(list, flow.RunID.Compare)
		tree := x.list(k.workflow, k.status)
		for _, id := range list {
			tree.Load(id)
		}
	}
}

// remove takes a run out that leaves memory.
func (x *runIndex) remove(run *runactor.Run) { x.list(run.Workflow(), run.Status()).Delete(run.ID()) }

// counts calls f with the number of runs of every workflow in every status.
func (x *runIndex) counts(f func(workflow string, s flow.Status, n int)) {
	for k, l := range x.lists {
		if l.Len() > 0 {
			f(k.workflow, k.status, l.Len())
		}
	}
}
