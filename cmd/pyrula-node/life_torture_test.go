//go:build torture

package main

import "time"

// How much the tests of the life of a run do.
const (
	deployRuns    = 600 // runs in each phase of a deploy
	handOns       = 1000
	signalPause   = 20 * time.Millisecond
	journeysEach  = 300
	workerKills   = 120
	scheduleKills = 100
)
