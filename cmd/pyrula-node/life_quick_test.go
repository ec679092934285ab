//go:build !torture

package main

// How much the tests of the life of a run do.
const (
	deployRuns = 60 // runs in each phase of a deploy
	handOns    = 120
)
