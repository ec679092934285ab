//go:build torture

package persistence

// Sizes of the loops of a long run.
const (
	crashRuns  = 60
	crashEvery = 1
	faultStep  = 1
	deathStep  = 1  // operations from one death of a disk to the next
	killLines  = 60 // the kill comes after at most so many acknowledgements
	killRounds = 1000
)
