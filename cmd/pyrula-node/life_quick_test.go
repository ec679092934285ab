//go:build !torture

package main

import "time"

// How much the tests of the life of a run do.
const (
	deployRuns    = 60 // runs in each phase of a deploy
	handOns       = 120
	signalPause   = 20 * time.Millisecond
	journeysEach  = 30
	workerKills   = 8
	scheduleKills = 6
)
