//go:build !torture

package actors_test

// Sizes of the loops in a usual run; -tags torture has the large ones.
const (
	modelTrials   = 4   // of the model over changing owners
	raceTrials    = 300 // of S06 for each number
	trafficTrials = 6   // of random traffic
	letterTrials  = 6   // of letters over demotions
	deployTrials  = 4   // of deploys over changing owners
)
