package load

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Machine describes where a figure was measured.
type Machine struct {
	Cores  int    `json:"cores"`
	CPU    string `json:"cpu"`
	Go     string `json:"go"`
	Kernel string `json:"kernel"`
	// FsyncMicros is the median time of one fsync of 4 KiB appended to a file beside
	// the data; 0 when it wasn't measured.
	FsyncMicros float64 `json:"fsync_p50_us,omitempty"`
}

// ThisMachine describes the machine that runs this process.
func ThisMachine() Machine {
	return Machine{
		Cores: runtime.NumCPU(), CPU: cpuModel(readText("/proc/cpuinfo")), Go: runtime.Version(),
		Kernel: strings.TrimSpace(runtime.GOOS + "/" + runtime.GOARCH + " " + readText("/proc/sys/kernel/osrelease")),
	}
}

// readText is a file's text, or nothing: a machine that doesn't tell is described
// by what is left.
func readText(name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return string(text)
}

func cpuModel(info string) string {
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// fsyncSamples is how often a disk is asked; the median needs no more.
const fsyncSamples = 101

// MeasureFsync is the median time, in microseconds, of one fsync of 4 KiB appended to
// a new file in dir. The file is removed.
func MeasureFsync(dir string) (micros float64, err error) {
	name := filepath.Join(dir, "fsync.probe")
	f, err := os.Create(name)
	if err != nil {
		return 0, fmt.Errorf("probe the disk: %w", err)
	}
	took := make([]time.Duration, fsyncSamples)
	block := make([]byte, 4<<10)
	for i := range took {
		if _, err = f.Write(block); err != nil {
			break
		}
		begin := time.Now()
		if err = f.Sync(); err != nil {
			break
		}
		took[i] = time.Since(begin)
	}
	for _, end := range []func() error{f.Close, func() error { return os.Remove(name) }} {
		if e := end(); err == nil {
			err = e
		}
	}
	if err != nil {
		return 0, fmt.Errorf("probe the disk: %w", err)
	}
	slices.Sort(took)
	return float64(took[len(took)/2].Nanoseconds()) / 1e3, nil
}
