//go:build torture

package persistence

// Sizes of the proofs of a long run.
const (
	// proofStep is the number of bits from one damaged bit to the next.
	proofStep = 7
	// frameStep is the same inside the last two frames.
	frameStep = 1
	// powerStep is the number of operations from one power cut to the next.
	powerStep = 1
	// nestStep is the number of power cuts from one with a second one in it to the next.
	nestStep = 3
	// largestStep is the number of bytes from one damaged byte of the largest entry to the next.
	largestStep = 16_411
	// largestCuts is the number of operations from one power cut around it to the next.
	largestCuts = 3
	// injectHits is the least number of faults that must meet a call.
	injectHits = 100
	// vandalRuns is the number of directories that are spoilt at random.
	vandalRuns = 20_000
	// closedStep is the number of bytes from one damaged byte of a closed journal's end to the next.
	closedStep = 1
	// allWrecks says that the power is cut during the recovery of every kind of wreck.
	allWrecks = true
	// callStep is the number of system calls from one power cut to the next.
	callStep = 1
)

// injectAt are the numbers of the calls that fail.
func injectAt(fault) []int {
	var out []int
	for n := 1; n <= 200; n++ {
		out = append(out, n)
	}
	return out
}
