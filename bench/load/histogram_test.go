package load

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Fails when a slot's middle is further from a value in it than half a step.
func TestHistogramSlots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Uint64Max(math.MaxInt64).Draw(t, "v")
		slot := slotOf(v)
		if slot < 0 || slot >= slots {
			t.Fatalf("slot %d of %d", slot, slots)
		}
		if off := math.Abs(middleOf(slot) - float64(v)); off > float64(v)/steps {
			t.Fatalf("%d is in slot %d, whose middle is %g", v, slot, middleOf(slot))
		}
		if next := slotOf(v + 1); next != slot && next != slot+1 {
			t.Fatalf("%d is in slot %d and the next value in slot %d", v, slot, next)
		}
	})
}

// Fails when a quantile isn't that of the sorted durations, to 1.6 %.
func TestHistogramQuantiles(t *testing.T) {
	var h, other Histogram
	for i := range 1000 {
		d := time.Duration(i+1) * time.Microsecond
		if i%2 == 0 {
			h.Add(d)
		} else {
			other.Add(d)
		}
	}
	h.Merge(&other)
	if h.Len() != 1000 {
		t.Fatalf("counted %d, want 1000", h.Len())
	}
	for quantile, want := range map[float64]float64{0: 1, .5: 500, .99: 990, 1: 1000} {
		if got := h.Micros(quantile); math.Abs(got-want) > want*.016 {
			t.Errorf("quantile %g is %g us, want %g", quantile, got, want)
		}
	}
}

// Fails when nothing, or less than nothing, isn't 0.
func TestHistogramEnds(t *testing.T) {
	var h Histogram
	if got := h.Micros(.5); got != 0 {
		t.Errorf("an empty one has the median %g", got)
	}
	h.Add(-time.Second)
	if got := h.Micros(1); got != 0 {
		t.Errorf("a negative duration counts as %g us", got)
	}
	h.Add(math.MaxInt64)
	if got := h.Micros(1); math.Abs(got-math.MaxInt64/1e3) > math.MaxInt64/1e3*.016 {
		t.Errorf("the longest duration counts as %g us", got)
	}
}
