//go:build !torture

package persistence

// Sizes of the loops in a usual run; -tags torture has the large ones.
const (
	crashRuns  = 2
	crashEvery = 3
	faultStep  = 1
	killRounds = 10
)
