package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// lot draws a fixed number of ids out of all that it is given, each with the same
// chance. Its methods are safe for any goroutine.
type lot struct {
	mu    sync.Mutex // guards what follows
	rng   *rand.Rand
	size  int
	given int64
	drawn []string
}

func newLot(size int) *lot { return &lot{size: size, rng: rand.New(rand.NewPCG(1, 1973))} }

// add gives it more ids.
func (l *lot) add(runs []held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range runs {
		l.given++
		if len(l.drawn) < l.size {
			l.drawn = append(l.drawn, runs[i].id)
		} else if at := l.rng.Int64N(l.given); at < int64(l.size) {
			l.drawn[at] = runs[i].id
		}
	}
}

// readBack asks a node for runs that were acknowledged as completed and counts those
// that it has lost, or has otherwise.
func readBack(host string, ids []string) (lost int, err error) {
	c, err := dial(host)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for _, id := range ids {
		body, err := c.do("GET", wire.PathRuns+"/"+id, nil)
		if refusal, ok := errors.AsType[*statusError](err); ok && refusal.status == http.StatusNotFound {
			lost++
			continue
		}
		if err != nil {
			return lost, fmt.Errorf("read run %s back: %w", id, err)
		}
		var run wire.Run
		if err := json.Unmarshal(body, &run); err != nil {
			return lost, fmt.Errorf("read run %s back: %w", id, err)
		}
		if run.RunID != id || run.Status != flow.StatusCompleted.String() {
			lost++
		}
	}
	return lost, nil
}
