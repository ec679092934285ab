package pyrulatest

import "testing"

// Told is the same Env for another test, which is told of its failures.
func Told(e *Env, tb testing.TB) *Env {
	other := *e
	other.t = tb
	return &other
}
