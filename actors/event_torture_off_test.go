//go:build !torture

package actors_test

// Sizes of the loops over events in a usual run; -tags torture has the large ones.
const (
	eventTrials = 6 // of the model over crashes and changing owners
	eventSteps  = 220
)
