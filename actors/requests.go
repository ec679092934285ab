package actors

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/pyrula/pyrula-node/flow"
)

// requestWindow is how long a request id names its run (R10), and the id of an event what
// became of it after its batch was cut.
const requestWindow = 10 * flow.Minute

// maxRequests bounds the request ids that one shard remembers; beyond it a submit
// that carries one is refused with flow.ErrOverloaded.
const maxRequests = 1 << 20

// maxCutEvents bounds the ids of events that one shard remembers behind their batches;
// beyond it the oldest is forgotten, and a repeat of that event is a new one.
const maxCutEvents = 1 << 16

// memory answers the repeat of a request with the run that the first one made. The
// record of the first is all it needs; a snapshot lists it by itself, since a run may
// leave memory before its request is forgotten. Zero value: empty.
type memory[K comparable] struct {
	runs map[K]flow.RunID
	fifo queue[remembered[K]] // oldest first
}

type remembered[K comparable] struct {
	id  K
	run flow.RunID
	at  flow.Instant
}

// requestMemory remembers submits by their request ids.
type requestMemory = memory[string]

// eventMemory remembers events whose batch was cut. The run is zero for all but those that
// filled their batch.
type eventMemory = memory[eventID]

// eventID is a digest of an event's key and id: a million of them are remembered, and
// either may be long.
type eventID [16]byte

func eventIDOf(key flow.KeyID, id string) (d eventID) {
	var buf [256]byte
	b := buf[:0]
	for _, text := range [...]string{key.Workflow, key.Value, id} {
		// The length keeps two texts from meeting in one.
		b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
		b = append(b, text...)
	}
	sum := sha256.Sum256(b)
	copy(d[:], sum[:])
	return d
}

// remember takes a request that carried an id, and forgets those that are older than the
// window before it.
func (m *memory[K]) remember(id K, run flow.RunID, at flow.Instant) {
	m.forget(at)
	var none K
	if id == none {
		return
	}
	if m.runs == nil {
		m.runs = make(map[K]flow.RunID)
	}
	m.runs[id] = run
	m.fifo.push(remembered[K]{id, run, at})
}

func (m *memory[K]) forget(now flow.Instant) {
	for r, ok := m.fifo.front(); ok && now.Sub(r.at) > requestWindow; r, ok = m.fifo.front() {
		m.drop()
	}
}

// drop forgets the oldest.
func (m *memory[K]) drop() {
	delete(m.runs, m.fifo.pop().id)
}

// run is the run of an id, if it is still remembered.
func (m *memory[K]) run(id K) (flow.RunID, bool) {
	r, ok := m.runs[id]
	return r, ok
}

// full says that no further request id can be remembered.
func (m *memory[K]) full() bool { return len(m.runs) >= maxRequests }
