//go:build torture

package actors_test

const (
	modelTrials   = 100
	raceTrials    = 25_000
	trafficTrials = 100
	letterTrials  = 100
	deployTrials  = 200
)
