//go:build torture

package actors_test

import "time"

const (
	crashShare  = 1
	archiveRace = 10 * time.Second
	bulkRuns    = 5_500
	walkWorlds  = 2
)
