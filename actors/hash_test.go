package actors_test

import "testing"

// TestP16RunShowsItsDefinition fails when a run doesn't show the hash of the version
// that stamped it, or shows one though nobody had declared its workflow.
func TestP16RunShowsItsDefinition(t *testing.T) {
	play(t, func(w *world) {
		early := w.submit("sync", `{}`)
		one := w.declare("sync", `{"version":"1","max_attempts":3}`)
		stamped := w.submit("sync", `{}`)
		w.declare("sync", `{"version":"2"}`)
		if h := w.status(stamped).DefinitionHash; h == nil || *h != one.DefinitionHash {
			w.Errorf("hash %v, want that of version 1", h)
		}
		if h := w.status(early).DefinitionHash; h != nil {
			w.Errorf("a run without a declaration has hash %s", *h)
		}
	})
}
