//go:build !torture

package archive

// Sizes of the loops in a usual run; -tags torture has the large ones.
const (
	modelRuns  = 3
	damageRuns = 25 // places in a file, about
	putEvery   = 4  // a file is also written to after so many kinds of damage
	killRounds = 3
)
