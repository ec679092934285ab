//go:build !torture

package persistence

// Sizes of the loops in a usual run; -tags torture has the large ones.
const (
	crashRuns  = 2
	crashEvery = 3
	faultStep  = 1
	deathStep  = 11 // operations from one death of a disk to the next
	killLines  = 25 // the kill comes after at most so many acknowledgements
	killRounds = 10
)
