//go:build torture

package actors_test

const (
	eventTrials = 150
	eventSteps  = 400
)
