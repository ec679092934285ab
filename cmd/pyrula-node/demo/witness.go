package demo

import (
	"context"
	"encoding/json"
	"hash/crc32"
	"slices"
	"sync"
	"time"

	"github.com/pyrula/pyrula-node/pyrula"
)

// witness is what the bodies write down. It knows nothing of the node.
type witness struct {
	mu    sync.Mutex     // guards everything below
	now   map[string]int // bodies of each key that execute
	all   []sighting
	ended int
}

// sighting is what one body saw when it began.
type sighting struct {
	runID  string
	key    string // as the node resolved it from the parameters
	atOnce int    // bodies of the key that were executing, itself included
	began  time.Time
}

func newWitness() *witness { return &witness{now: map[string]int{}} }

// account is what the body and the gates need of the parameters.
type account struct {
	Tenant  json.RawMessage `json:"tenant_id"` // any JSON; the body is told the key
	Account json.RawMessage `json:"account"`
}

// synced is a body's result.
type synced struct {
	TookMS int64 `json:"took_ms"`
}

// workflow is the workflow whose bodies this witness sees.
func (w *witness) workflow() *pyrula.Workflow[account, synced] {
	return pyrula.Define(workflow, w.body,
		pyrula.Limit{Key: keyName, Max: maxAtOnce},
		pyrula.Rate{Key: keyName, PerSecond: perSecond, Burst: burst},
	)
}

// body stands for a call to a service of the tenant's: it takes 50 to 150 ms.
func (w *witness) body(r *pyrula.Run, a account) (synced, error) {
	w.enter(r.ID, r.Key, time.Now())
	defer w.leave(r.Key)
	took := durationOf(a.Account)
	done := time.NewTimer(took)
	defer done.Stop()
	select {
	case <-done.C:
		return synced{took.Milliseconds()}, nil
	case <-r.Done():
		return synced{}, context.Cause(r)
	}
}

// durationOf is 50 to 150 ms, the same for an account each time.
func durationOf(account []byte) time.Duration {
	return time.Duration(50+crc32.ChecksumIEEE(account)%101) * time.Millisecond
}

func (w *witness) enter(runID, key string, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now[key]++
	w.all = append(w.all, sighting{runID, key, w.now[key], at})
}

func (w *witness) leave(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now[key]--
	w.ended++
}

// seen are all sightings until now, in the order in which the bodies began.
func (w *witness) seen() []sighting {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}

// counts are the bodies that execute, and those that have ended.
func (w *witness) counts() (executing, ended int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.all) - w.ended, w.ended
}
