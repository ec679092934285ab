//go:build torture

package persistence

// Sizes of the proofs of a long run.
const (
	// proofStep is the number of bits from one damaged bit to the next.
	proofStep = 1
	// powerStep is the number of operations from one power cut to the next.
	powerStep = 1
	// nestStep is the number of power cuts from one with a second one in it to the next.
	nestStep = 3
	// largestStep is the number of bytes from one damaged byte of the largest entry to the next.
	largestStep = 16_411
	// largestCuts is the number of operations from one power cut around it to the next.
	largestCuts = 1
	// injectHits is the least number of faults that must meet a call.
	injectHits = 100
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
