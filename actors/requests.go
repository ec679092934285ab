package actors

import "github.com/pyrula/pyrula-node/flow"

// requestWindow is how long a request id names its run (R10).
const requestWindow = 10 * flow.Minute

// maxRequests bounds the request ids that one shard remembers; beyond it a submit
// that carries one is refused with flow.ErrOverloaded.
const maxRequests = 1 << 20

// requestMemory answers the repeat of a submit with the run that the first one
// made. The record of the submit is all it needs; a snapshot lists it by itself,
// since a run may leave memory before its request is forgotten. Zero value: empty.
type requestMemory struct {
	runs map[string]flow.RunID
	fifo queue[request] // oldest first
}

type request struct {
	id  string
	run flow.RunID
	at  flow.Instant
}

// remember takes a submit that carried a request id, and forgets those that are
// older than the window before it.
func (m *requestMemory) remember(id string, run flow.RunID, at flow.Instant) {
	m.forget(at)
	if id == "" {
		return
	}
	if m.runs == nil {
		m.runs = make(map[string]flow.RunID)
	}
	m.runs[id] = run
	m.fifo.push(request{id, run, at})
}

func (m *requestMemory) forget(now flow.Instant) {
	for r, ok := m.fifo.front(); ok && now.Sub(r.at) > requestWindow; r, ok = m.fifo.front() {
		delete(m.runs, r.id)
		m.fifo.pop()
	}
}

// run is the run of a request id, if it is still remembered.
func (m *requestMemory) run(id string) (flow.RunID, bool) {
	r, ok := m.runs[id]
	return r, ok
}

// full says that no further request id can be remembered.
func (m *requestMemory) full() bool { return len(m.runs) >= maxRequests }
