//go:build torture

package main

// kills is how often the kill loop kills the node, and closely how many runs are
// looked at closely at its end.
const (
	kills   = 200
	closely = 3000
)
