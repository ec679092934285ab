//go:build !torture

package persistence

// Sizes of the proofs in a usual run; -tags torture has the large ones.
const (
	// proofStep is the number of bits from one damaged bit to the next.
	proofStep = 1021
	// frameStep is the same inside the last two frames.
	frameStep = 211
	// powerStep is the number of operations from one power cut to the next.
	powerStep = 37
	// nestStep is the number of power cuts from one with a second one in it to the next.
	nestStep = 97
	// largestStep is the number of bytes from one damaged byte of the largest entry to the next.
	largestStep = 4_500_007
	// largestCuts is the number of operations from one power cut around it to the next.
	largestCuts = 19
	// injectHits is the least number of faults that must meet a call.
	injectHits = 3
	// vandalRuns is the number of directories that are spoilt at random.
	vandalRuns = 150
	// closedStep is the number of bytes from one damaged byte of a closed journal's end to the next.
	closedStep = 7
	// allWrecks says that the power is cut during the recovery of every kind of wreck.
	allWrecks = false
	// callStep is the number of system calls from one power cut to the next.
	callStep = 41
)

// injectAt are the numbers of the calls that fail.
func injectAt(f fault) []int {
	switch f {
	case fault{"write", "error=ENOSPC"}:
		return []int{7}
	case fault{"fsync", "error=EIO"}:
		return []int{14}
	case fault{"openat", "error=EMFILE"}, fault{"renameat", "signal=KILL"}:
		return []int{3}
	case fault{"write", "signal=KILL"}:
		return []int{9}
	}
	return nil
}
