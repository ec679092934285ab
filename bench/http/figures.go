package main

import (
	"math"
	"time"
)

// seconds is a time to the millisecond.
func seconds(d time.Duration) float64 { return thousandth(d.Seconds()) }

func thousandth(v float64) float64 { return math.Round(v*1e3) / 1e3 }

func hundredth(v float64) float64 { return math.Round(v*100) / 100 }

// rate is a number a second; 0 in no time.
func rate(n int64, over float64) float64 {
	if over <= 0 {
		return 0
	}
	return math.Round(float64(n) / over)
}

// ratio compares two sizes; 0 when there is nothing to compare with.
func ratio(of, base int64) float64 {
	if base == 0 {
		return 0
	}
	return hundredth(float64(of) / float64(base))
}
