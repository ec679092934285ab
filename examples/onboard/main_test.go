package main

import (
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/pyrula/pyrulatest"
)

// TestP54OnboardWaitsForDays fails when the program of the README doesn't live through its
// waits: three days and more pass in a moment.
func TestP54OnboardWaitsForDays(t *testing.T) {
	pyrulatest.Test(t, func(t *testing.T, env *pyrulatest.Env) {
		answered := pyrulatest.Start(env, onboard, user{Mail: "anna@example.com"})
		ignored := pyrulatest.Start(env, onboard, user{Mail: "ben@example.com"})
		env.Expect(answered.ID, "suspended")
		env.Advance(48 * time.Hour)
		if _, err := answered.Signal(t.Context(), "approved", "yes"); err != nil {
			t.Fatal(err)
		}
		env.Advance(23 * time.Hour)
		env.Expect(answered.ID, "suspended") // it sleeps
		if got := pyrulatest.Result(env, answered); got != "yes" {
			t.Errorf("answered: %q", got)
		}
		if got := pyrulatest.Result(env, ignored); got != "nobody answered" {
			t.Errorf("ignored: %q", got)
		}
	}, onboard, welcome)
}
