package load

import (
	"math/bits"
	"time"
)

const (
	// stepBits says how finely an octave is cut: 64 steps, so that a quantile is off
	// by less than 1.6 %.
	stepBits = 6
	steps    = 1 << stepBits
	// slots hold every duration: exact below two octaves of steps, 64 an octave above.
	slots = (64 - stepBits + 1) * steps
)

// Histogram counts durations in slots that widen with the duration. The zero value
// is empty. It is for one goroutine.
type Histogram struct {
	count [slots]uint32
	total uint64
}

// slotOf is the slot of a value in nanoseconds.
func slotOf(v uint64) int {
	if v < 2*steps {
		return int(v)
	}
	shift := bits.Len64(v) - stepBits - 1
	return shift*steps + int(v>>shift)
}

// middleOf is the value in the middle of a slot.
func middleOf(slot int) float64 {
	if slot < 2*steps {
		return float64(slot)
	}
	shift := slot/steps - 1
	low := uint64(slot-shift*steps) << shift
	return float64(low) + float64(uint64(1)<<shift)/2
}

// Add counts one duration; a negative one counts as 0.
func (h *Histogram) Add(d time.Duration) {
	h.count[slotOf(uint64(max(d, 0)))]++
	h.total++
}

// Merge adds what another histogram has counted.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.count {
		h.count[i] += n
	}
	h.total += other.total
}

// Len is the number of durations counted.
func (h *Histogram) Len() uint64 { return h.total }

// Micros is a quantile, from 0 to 1, in microseconds: the least counted duration
// that at least this share doesn't exceed. It is 0 for an empty histogram.
func (h *Histogram) Micros(quantile float64) float64 {
	if h.total == 0 {
		return 0
	}
	want := min(max(uint64(quantile*float64(h.total)+0.5), 1), h.total)
	for slot, n := range h.count {
		if want <= uint64(n) {
			return middleOf(slot) / 1e3
		}
		want -= uint64(n)
	}
	return 0
}
