// Package volatile is an engine that keeps nothing: an entry is committed at once
// and forgotten. It is for shards whose state may end with the process, as those of
// the inline runner do.
//
// The laws of package engine hold as far as they speak of one life. There is no second
// one, so there is one epoch, nothing to replay, and nothing that a snapshot could
// shorten.
package volatile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

// Window is the number of entries that a shard may have in flight.
const Window = 16

// epoch is that of every shard.
const epoch engine.Epoch = 1

// Engine commits what it is given and keeps none of it. Use: New, Open each shard,
// Start, and Close at the end, which ends its one goroutine. All methods are safe for
// any goroutine.
type Engine struct {
	node     engine.NodeID
	shards   []*shard
	appended chan struct{}      // has room for one: something is to be committed
	barriers chan chan struct{} // closed by the goroutine when all before them is told
	quit     chan struct{}      // closed by Close
	done     chan struct{}      // closed by the goroutine when it leaves

	mu       sync.Mutex // guards what follows and the shards' fields; no Machine is called with it held
	started  bool
	closing  bool // no more appends
	watchers []func(engine.ShardID, engine.NodeID, engine.Epoch)
}

// shard is one shard and its log, of which only the length is known.
type shard struct {
	*Engine
	id        engine.ShardID
	machine   engine.Machine // called by the engine's goroutine only, so never twice at once
	owned     bool
	entries   engine.Seq
	committed engine.Seq
}

var (
	_ engine.Engine = (*Engine)(nil)
	_ engine.Log    = (*shard)(nil)
)

// New makes an engine of so many shards for a node of that name.
func New(node engine.NodeID, shards int) *Engine {
	e := &Engine{
		node: node, shards: make([]*shard, shards), appended: make(chan struct{}, 1),
		barriers: make(chan chan struct{}), quit: make(chan struct{}), done: make(chan struct{}),
	}
	for i := range e.shards {
		e.shards[i] = &shard{Engine: e, id: engine.ShardID(i)}
	}
	return e
}

// Open registers the machine of a shard, before Start. Each shard is opened once.
func (e *Engine) Open(s engine.ShardID, m engine.Machine) (engine.Log, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if int(s) >= len(e.shards) || e.shards[s].machine != nil || e.started || e.closing {
		return nil, fmt.Errorf("open shard %d of %d: no such shard, opened before, or after Start", s, len(e.shards))
	}
	e.shards[s].machine = m
	return e.shards[s], nil
}

// Start promotes the opened shards in their order, the first of them first (R17). It is
// called once.
func (e *Engine) Start(context.Context) error {
	e.mu.Lock()
	again := e.started || e.closing
	e.started = true
	e.mu.Unlock()
	if again {
		return errors.New("start: started or closed before")
	}
	promoted := make(chan struct{})
	go e.run(promoted)
	<-promoted
	return nil
}

func (e *Engine) run(promoted chan struct{}) {
	defer close(e.done)
	for _, s := range e.shards {
		if s.machine != nil {
			s.promote()
		}
	}
	close(promoted)
	for {
		select {
		case <-e.appended:
			e.commit()
		case told := <-e.barriers:
			e.commit()
			close(told)
		case <-e.quit:
			e.commit() // what was appended before Close
			return
		}
	}
}

func (s *shard) promote() {
	s.mu.Lock()
	s.owned = true
	watchers := slices.Clone(s.watchers)
	s.mu.Unlock()
	s.machine.Promote(epoch, 0, 0)
	for _, f := range watchers {
		f(s.id, s.node, epoch)
	}
}

// commit tells every machine of what is appended. The room grows before it hears of it.
func (e *Engine) commit() {
	for _, s := range e.shards {
		e.mu.Lock()
		news := s.entries != s.committed
		s.committed = s.entries
		upto := s.committed
		e.mu.Unlock()
		if news {
			s.machine.Committed(epoch, upto)
		}
	}
}

// Shards is the number of shards.
func (e *Engine) Shards() int { return len(e.shards) }

// Watch calls f for every shard that is promoted by now, and at each promotion.
func (e *Engine) Watch(f func(s engine.ShardID, owner engine.NodeID, ep engine.Epoch)) {
	e.mu.Lock()
	e.watchers = append(e.watchers, f)
	e.mu.Unlock()
	for _, s := range e.shards {
		if owner, ep, ok := s.Owner(); ok {
			f(s.id, owner, ep)
		}
	}
}

// Transfer answers ErrSingleNode.
func (e *Engine) Transfer(context.Context, engine.ShardID, engine.NodeID) error {
	return engine.ErrSingleNode
}

// Members is this node alone.
func (e *Engine) Members() []engine.Member { return []engine.Member{{ID: e.node, Voter: true}} }

// Add answers ErrSingleNode.
func (e *Engine) Add(context.Context, engine.Member) error { return engine.ErrSingleNode }

// Remove answers ErrSingleNode.
func (e *Engine) Remove(context.Context, engine.NodeID) error { return engine.ErrSingleNode }

// Close takes no more appends, tells the machines of the last ones and ends the
// engine's goroutine. A second call does nothing.
func (e *Engine) Close(context.Context) error {
	e.mu.Lock()
	started, again := e.started, e.closing
	e.closing = true
	e.mu.Unlock()
	if started && !again {
		close(e.quit)
		<-e.done
	}
	return nil
}

// Room is the number of entries that Append takes now.
func (s *shard) Room() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.room()
}

func (s *shard) room() int {
	if !s.owned {
		return 0
	}
	return Window - int(s.entries-s.committed)
}

// Append counts one entry and drops it.
func (s *shard) Append(ep engine.Epoch, _ int64, body []byte) (engine.Seq, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(body) > engine.MaxEntryBytes:
		return 0, fmt.Errorf("append %d bytes to shard %d: %w", len(body), s.id, engine.ErrTooLarge)
	case s.closing:
		return 0, fmt.Errorf("%w: closed", engine.ErrStopped)
	case !s.owned || ep != epoch:
		return 0, engine.ErrNotOwner
	case s.room() <= 0:
		return 0, engine.ErrBusy
	}
	s.entries++
	select {
	case s.appended <- struct{}{}:
	default:
	}
	return s.entries, nil
}

// ReadBarrier waits until the machine has heard of all that is appended now.
func (s *shard) ReadBarrier(ctx context.Context, ep engine.Epoch, _ bool) error {
	if _, owner, ok := s.Owner(); !ok || ep != owner {
		return engine.ErrNotOwner
	}
	told := make(chan struct{})
	select {
	case s.barriers <- told: // the goroutine takes it and closes it at once
		<-told
		return nil
	case <-s.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("shard %d: wait for a commit: %w", s.id, ctx.Err())
	}
}

// Snapshot does nothing: there is no log to shorten.
func (s *shard) Snapshot(context.Context) error { return nil }

// Owner is this node once the shard is promoted.
func (s *shard) Owner() (engine.NodeID, engine.Epoch, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.owned {
		return "", 0, false
	}
	return s.node, epoch, true
}
