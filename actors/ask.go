package actors

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/pyrula/pyrula-node/flow"
)

// askID numbers a question for its answer to find the way back. Zero asks for
// no answer.
type askID uint64

// answer is what comes back: item says which part of the question it answers.
type answer struct {
	ask   askID
	item  int
	err   error
	run   flow.RunID
	flags flow.Flags
	value any

	next   flow.RunID // the run was handed on to this one, which is to be asked instead
	old    bool       // it has left memory: nothing of its chain is on its way any more
	number uint64     // of a signal
	extra  []byte     // ids of children

	entries []entry // of the signals that were taken
}

// asks pairs questions with their answers. It replaces hollywood's Request: ids
// don't collide, an answer never blocks who gives it, and the second answer to
// one part is dropped.
type asks struct {
	last   atomic.Uint64
	shards [64]askShard
}

type askShard struct {
	mu   sync.Mutex // guards open
	open map[askID]*question
}

// question waits for one answer to each of its parts.
type question struct {
	id      askID
	asks    *asks
	mu      sync.Mutex // guards the fields below
	missing int
	have    []bool
	answers []answer
	done    chan struct{} // closed when nothing is missing
}

func (a *asks) shard(id askID) *askShard { return &a.shards[id%askID(len(a.shards))] }

// open starts a question of the given number of parts.
func (a *asks) open(parts int) *question {
	q := &question{
		id: askID(a.last.Add(1)), asks: a, missing: parts,
		have: make([]bool, parts), answers: make([]answer, parts), done: make(chan struct{}),
	}
	if parts == 0 {
		close(q.done)
	}
	s := a.shard(q.id)
	s.mu.Lock()
	if s.open == nil {
		s.open = make(map[askID]*question)
	}
	s.open[q.id] = q
	s.mu.Unlock()
	return q
}

// answer delivers one part. An answer to a question that is closed is dropped.
func (a *asks) answer(ans answer) {
	if ans.ask == 0 {
		return
	}
	s := a.shard(ans.ask)
	s.mu.Lock()
	q := s.open[ans.ask]
	s.mu.Unlock()
	if q != nil {
		q.put(ans)
	}
}

func (q *question) put(ans answer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if ans.item < 0 || ans.item >= len(q.have) || q.have[ans.item] {
		return
	}
	q.have[ans.item], q.answers[ans.item] = true, ans
	if q.missing--; q.missing == 0 {
		close(q.done)
	}
}

// close forgets the question; it is called exactly once by who opened it.
func (q *question) close() {
	s := q.asks.shard(q.id)
	s.mu.Lock()
	delete(s.open, q.id)
	s.mu.Unlock()
}

// wait returns the answers when all are there. When ctx ends first the missing
// ones carry ErrOutcomeUnknown: what was asked may still happen.
func (q *question) wait(ctx context.Context) []answer {
	defer q.close()
	select {
	case <-q.done:
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.have {
		if !q.have[i] {
			q.have[i] = true
			q.answers[i] = answer{item: i, err: flow.ErrOutcomeUnknown}
		}
	}
	return q.answers
}
