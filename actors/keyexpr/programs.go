package keyexpr

import "sync"

// maxPrograms bounds the compiled expressions that are kept. A usual one takes a few KiB.
const maxPrograms = 1024

// programs are compiled expressions in two generations: when the young one has half of all
// that may be kept, it becomes the old one, and what was old and unused goes.
type programs struct {
	mu         sync.RWMutex
	young, old map[string]*program // guarded by mu
}

func (c *programs) find(expression string) *program {
	c.mu.RLock()
	p := c.young[expression]
	was := c.old[expression]
	c.mu.RUnlock()
	if p == nil && was != nil {
		p = was
		c.keep(expression, p)
	}
	return p
}

func (c *programs) keep(expression string, p *program) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.young == nil || len(c.young) >= maxPrograms/2 {
		c.young, c.old = make(map[string]*program), c.young
	}
	c.young[expression] = p
}
