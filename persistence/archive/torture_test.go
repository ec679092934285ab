//go:build torture

package archive

// Sizes of the loops of a long run.
const (
	modelRuns  = 300
	damageRuns = 1 << 30 // every place
	putEvery   = 10
	killRounds = 300
)
