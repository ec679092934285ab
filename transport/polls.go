package transport

import (
	"context"
	"sync"
)

// polls are the requests that wait for something to happen. They end together when
// the server drains. The zero value is ready.
type polls struct {
	mu      sync.Mutex // guards everything below
	ended   bool
	last    uint64
	waiting map[uint64]context.CancelFunc // by a number of their own
}

// begin is a context for one wait, which also ends when the server drains. The
// caller calls done after it.
func (p *polls) begin(ctx context.Context) (waiting context.Context, done func()) {
	waiting, cancel := context.WithCancel(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		cancel()
	}
	if p.waiting == nil {
		p.waiting = map[uint64]context.CancelFunc{}
	}
	p.last++
	n := p.last
	p.waiting[n] = cancel
	return waiting, func() {
		cancel()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.waiting, n)
	}
}

// end ends all waits, now and from now on.
func (p *polls) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	for _, cancel := range p.waiting {
		cancel()
	}
}

func (p *polls) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}
