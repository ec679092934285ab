//go:build !torture

package persistence

// Sizes of the proofs in a usual run; -tags torture has the large ones.
const (
	// proofStep is the number of bits from one damaged bit to the next.
	proofStep = 1021
	// powerStep is the number of operations from one power cut to the next.
	powerStep = 29
	// nestStep is the number of power cuts from one with a second one in it to the next.
	nestStep = 97
	// largestStep is the number of bytes from one damaged byte of the largest entry to the next.
	largestStep = 1_500_007
	// largestCuts is the number of operations from one power cut around it to the next.
	largestCuts = 13
	// injectHits is the least number of faults that must meet a call.
	injectHits = 3
	// callStep is the number of system calls from one power cut to the next.
	callStep = 17
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
