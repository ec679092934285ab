package actors

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/schedule"
)

// Bounds of the registry.
const (
	maxWorkflows   = 10_000
	maxDefinitions = 256 // of one workflow, in all of its versions
)

// definitions are the declarations of all workflows, oldest first for each. They
// live in shard 0 (R17). A definition and a list are never changed once they are
// in, so a copy of the map may be read by anybody.
type definitions struct {
	byWorkflow map[string][]*flow.Definition
	slots      map[string]*definedSlot
	slab       slab[*definedSlot] // workflows are never forgotten
}

// definedSlot is a workflow as a snapshot walks it.
type definedSlot struct {
	workflow string
	saved    uint64 // the capture that has its declarations
}

// slot is where a workflow sits; one that is new gets the mark of a newborn.
func (d *definitions) slot(workflow string, newborn uint64) *definedSlot {
	s := d.slots[workflow]
	if s == nil {
		if d.slots == nil {
			d.slots = make(map[string]*definedSlot)
		}
		s = &definedSlot{workflow, newborn}
		d.slots[workflow] = s
		d.slab.add(s)
	}
	return s
}

// declare takes a RecDeclared: the definition becomes its workflow's newest.
func (d *definitions) declare(rec *flow.Record) {
	def, err := definitionIn(rec)
	if err != nil {
		panic(err.Error())
	}
	if d.byWorkflow == nil {
		d.byWorkflow = make(map[string][]*flow.Definition)
	}
	old := d.byWorkflow[def.Workflow]
	list := make([]*flow.Definition, 0, len(old)+1)
	for _, o := range old {
		if o.Version != def.Version || o.GatesHash != def.GatesHash {
			list = append(list, o)
		}
	}
	d.byWorkflow[def.Workflow] = trim(append(list, def))
}

// definitionIn is the definition that a RecDeclared holds. Error: flow.ErrCodec.
func definitionIn(rec *flow.Record) (*flow.Definition, error) {
	r := flow.NewReader()
	err := r.Reset(rec.Payload)
	var def *flow.Definition
	if err == nil {
		def, err = r.Definition()
	}
	if err != nil {
		return nil, fmt.Errorf("a declaration of %s: %w", rec.Workflow, err)
	}
	return def, nil
}

// legible says why this build can't read what a record holds, or nil: a newer one may have
// written it. Whoever reads records that it hasn't written asks before they are applied.
func legible(rec *flow.Record) (err error) {
	switch rec.Kind {
	case flow.RecDeclared:
		_, err = definitionIn(rec)
	case flow.RecScheduled:
		_, err = schedule.Decode(rec.Payload)
	default:
	}
	return err
}

// trim forgets the oldest declaration beyond maxDefinitions that isn't current. Its
// runs keep their stamps, and a worker that still serves it declares it again when
// it starts.
func trim(list []*flow.Definition) []*flow.Definition {
	if len(list) <= maxDefinitions {
		return list
	}
	current := currentOf(list)
	oldest := slices.IndexFunc(list, func(d *flow.Definition) bool { return d != current })
	return slices.Delete(list, oldest, oldest+1)
}

// decide prepares the declaration of def: what stands afterwards, and whether
// that changes anything. Error: flow.ErrConfiguration for one workflow too many.
func (d *definitions) decide(def *flow.Definition, now flow.Instant) (stands *flow.Definition, changed bool, err error) {
	list := d.byWorkflow[def.Workflow]
	if old := lastOf(list, def.Version); old != nil && old.Same(def) {
		return old, false, nil
	}
	if len(list) == 0 && len(d.byWorkflow) >= maxWorkflows {
		return nil, false, &flow.FieldError{
			Kind: flow.ErrConfiguration, Field: "name",
			Want: fmt.Sprintf("must be one that is declared already: there are %d workflows, the most there may be", maxWorkflows),
		}
	}
	stamped := *def
	stamped.At = now
	if old := lastOf(list, def.Version); old != nil {
		stamped.Seen = old.Seen
	} else {
		stamped.Seen = 1
		for _, d := range list {
			stamped.Seen = max(stamped.Seen, d.Seen+1)
		}
	}
	return &stamped, true, nil
}

// lastOf is the version's last declaration, or nil.
func lastOf(list []*flow.Definition, version string) *flow.Definition {
	for _, d := range slices.Backward(list) {
		if d.Version == version {
			return d
		}
	}
	return nil
}

// currentOf is what a submit by name is stamped with: the newest version's last
// declaration, or nil. Versions are compared in the order in which they were first
// seen, since numbers and names together have no order of their own: each newcomer
// either replaces the best so far or doesn't (P83).
func currentOf(list []*flow.Definition) *flow.Definition {
	bySeen := slices.Clone(list)
	slices.SortStableFunc(bySeen, func(a, b *flow.Definition) int { return cmp.Compare(a.Seen, b.Seen) })
	var best *flow.Definition
	for _, d := range bySeen {
		if best == nil || flow.CompareVersions(d, best) >= 0 {
			best = d
		}
	}
	return best
}

func (d *definitions) clone() map[string][]*flow.Definition { return maps.Clone(d.byWorkflow) }

// registry is a node's cache of the declarations: an immutable map that is
// replaced whole. Safe for any goroutine.
type registry struct {
	byWorkflow atomic.Pointer[map[string][]*flow.Definition]
}

// publish replaces the cache; d is never changed afterwards.
func (r *registry) publish(d *definitions) {
	r.byWorkflow.Store(&d.byWorkflow)
}

func (r *registry) list(workflow string) []*flow.Definition {
	m := r.byWorkflow.Load()
	if m == nil {
		return nil
	}
	return (*m)[workflow]
}

func (r *registry) names() []string {
	m := r.byWorkflow.Load()
	if m == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(*m))
}

// find is the declaration that a worker or a caller means: by gates hash when one
// is given, else the version's last. Errors: flow.ErrUnknownWorkflow,
// flow.ErrNotDeclared.
func (r *registry) find(workflow, version, gatesHash string) (*flow.Definition, error) {
	list := r.list(workflow)
	if gatesHash == "" {
		if def := lastOf(list, version); def != nil {
			return def, nil
		}
	}
	for _, def := range list {
		if gatesHash != "" && def.Version == version && def.GatesHash == gatesHash {
			return def, nil
		}
	}
	return nil, fmt.Errorf("workflow %q version %q: %w", workflow, version, flow.ErrNotDeclared)
}
