package pyrulatest_test

import (
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/pyrula"
	"github.com/pyrula/pyrula-node/pyrula/pyrulatest"
)

// Edit is an event.
type Edit struct {
	Page string `json:"page"`
	Line int    `json:"line"`
}

// Reindex runs once a page has been left alone for two days, and counts its edits.
var Reindex = pyrula.Define("reindex", func(r *pyrula.Run, b pyrula.Batch[Edit]) (int, error) {
	return b.Count, nil
}, pyrula.Debounce{Key: "page", Window: 48 * time.Hour})

// Two days of quiet pass in a moment; each edit of a page begins them again.
func TestReindexWhenThePageIsQuiet(t *testing.T) {
	pyrulatest.Test(t, func(t *testing.T, env *pyrulatest.Env) {
		edit := func(page string, line int) {
			if _, err := pyrula.Trigger(t.Context(), env.Client, Reindex, Edit{Page: page, Line: line}); err != nil {
				t.Fatal(err)
			}
		}
		edit("home", 1)
		edit("home", 2)
		env.Advance(time.Hour)
		edit("about", 1)
		env.Advance(time.Hour)
		edit("home", 3)
		env.Advance(47 * time.Hour)
		if got := pyrulatest.Runs(env, Reindex); len(got) != 1 {
			t.Fatalf("%d runs while one page isn't quiet", len(got))
		}
		env.Advance(time.Hour)
		runs := pyrulatest.Runs(env, Reindex)
		if len(runs) != 2 {
			t.Fatalf("%d runs, want one for each page", len(runs))
		}
		for i, want := range []int{3, 1} {
			if got := pyrulatest.Result(env, runs[i]); got != want {
				t.Errorf("run %d has %d edits, want %d", i, got, want)
			}
		}
		if env.Elapsed() != 50*time.Hour {
			t.Errorf("it took %v", env.Elapsed())
		}
	}, Reindex)
}
