package inline

import (
	"context"
	"net/http"
)

// HTTP reaches the API inside a runner, for requests that no client of the SDK sends.
func HTTP(r *Runner) *http.Client { return r.wire.Client() }

// Mark begins what leave does: grants of the run wait for the decision, after which the
// run is forgotten here.
func Mark(r *Runner, run string) (decide func(left bool), forget func()) {
	x, _ := r.door.mark(run)
	return x.decide, func() { r.door.unmark(run) }
}

// Marked is the number of runs whose grants wait.
func Marked(r *Runner) int {
	r.door.mu.Lock()
	defer r.door.mu.Unlock()
	return len(r.door.leaving)
}

// Leave is what a call does when its run is gated for too long.
func Leave(ctx context.Context, r *Runner, run string) (bool, error) {
	c := &call{Runner: r}
	return c.leave(ctx, run)
}
