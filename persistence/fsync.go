package persistence

import (
	"fmt"
	"strings"
	"time"
)

// Bounds of the period of FsyncEvery.
const (
	FsyncEveryMin = 10 * time.Millisecond //nolint:revive // the least, not minutes
	FsyncEveryMax = time.Minute
)

// Fsync says when an entry counts as durable. The zero value is FsyncAlways.
type Fsync struct {
	// every is 0 for "before it is acknowledged".
	every time.Duration
}

// FsyncAlways acknowledges an entry when it is on disk. A kill, a crash of the
// system and a power cut lose nothing that was acknowledged.
var FsyncAlways = Fsync{}

// FsyncEvery acknowledges an entry when it is written and calls fsync at least
// once in d. A kill of the process loses nothing; a power cut or a crash of the
// system loses the acknowledged entries of at most d. d is checked by Open:
// FsyncEveryMin to FsyncEveryMax.
func FsyncEvery(d time.Duration) Fsync { return Fsync{every: d} }

// Every is the period, 0 for FsyncAlways.
func (f Fsync) Every() time.Duration { return f.every }

func (f Fsync) lazy() bool { return f.every != 0 }

// String is what ParseFsync takes: "always" or "every=1s".
func (f Fsync) String() string {
	if !f.lazy() {
		return "always"
	}
	return "every=" + f.every.String()
}

func (f Fsync) validate() error {
	if f.lazy() && (f.every < FsyncEveryMin || f.every > FsyncEveryMax) {
		return fmt.Errorf("fsync %s: the period is from %s to %s", f, FsyncEveryMin, FsyncEveryMax)
	}
	return nil
}

// ParseFsync reads "always" or "every=D", where D is a Go duration.
func ParseFsync(s string) (Fsync, error) {
	if s == "always" {
		return FsyncAlways, nil
	}
	period, ok := strings.CutPrefix(s, "every=")
	if !ok {
		return Fsync{}, fmt.Errorf("fsync %q: want always or every=DURATION", s)
	}
	d, err := time.ParseDuration(period)
	if err != nil {
		return Fsync{}, fmt.Errorf("fsync %q: %w", s, err)
	}
	if d == 0 {
		return Fsync{}, fmt.Errorf("fsync %q: the period is from %s to %s", s, FsyncEveryMin, FsyncEveryMax)
	}
	f := FsyncEvery(d)
	return f, f.validate()
}
