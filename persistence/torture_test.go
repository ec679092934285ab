//go:build torture

package persistence

// Sizes of the loops of a long run.
const (
	crashRuns  = 60
	crashEvery = 1
	faultStep  = 1
	killRounds = 1000
)
