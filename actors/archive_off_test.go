//go:build !torture

package actors_test

import "time"

// Sizes of the archive's tests in a usual run; -tags torture has the large ones.
const (
	crashShare  = 4                      // one of so many cases of a crash is played
	archiveRace = 400 * time.Millisecond // of real goroutines on a node that archives
	bulkRuns    = 300                    // that are due at once
	walkWorlds  = 1                      // of those whose snapshots are walked
)
