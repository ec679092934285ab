package load

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// jiffy is the unit of the kernel's CPU counters on every Linux that Go runs on.
const jiffy = 10 * time.Millisecond

// CPUShare is where the machine's CPU time went during a window.
type CPUShare struct {
	Client time.Duration // this process
	Server time.Duration // the server, as far as it is known
	Busy   time.Duration // everybody, on all cores
	Idle   time.Duration // nobody, on all cores
}

// Others is the share of the machine that went to neither end, from 0 to 1. That
// of the kernel for the disk is in it.
func (c CPUShare) Others() float64 {
	all := c.Busy + c.Idle
	if all == 0 {
		return 0
	}
	return max(0, float64(c.Busy-c.Client-c.Server)/float64(all))
}

type cpuClock CPUShare

func readCPU(server func() time.Duration) cpuClock {
	var c cpuClock
	c.Busy, c.Idle = machineCPU()
	c.Client = selfCPU()
	if server != nil {
		c.Server = server()
	}
	return c
}

func (c cpuClock) since(b cpuClock) CPUShare {
	return CPUShare{
		Client: c.Client - b.Client, Server: c.Server - b.Server, Busy: c.Busy - b.Busy, Idle: c.Idle - b.Idle,
	}
}

func selfCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// machineCPU reads the first line of /proc/stat: user, nice, system, idle, iowait,
// irq, softirq, steal. Zeros where there is no such file.
func machineCPU() (busy, idle time.Duration) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	for i, f := range strings.Fields(line) {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil || i > 8 {
			continue // the name, and guest time, which is in user already
		}
		if i == 4 || i == 5 {
			idle += time.Duration(n) * jiffy
		} else {
			busy += time.Duration(n) * jiffy
		}
	}
	return busy, idle
}

// ProcessCPU is the CPU time that a process has taken, in user and in kernel mode.
// It is 0 where /proc doesn't tell.
func ProcessCPU(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	return parseProcessCPU(string(text))
}

// parseProcessCPU reads fields 14 and 15. The second field is the program's name in
// brackets, which may hold anything, so the count begins behind it.
func parseProcessCPU(stat string) time.Duration {
	i := strings.LastIndexByte(stat, ')')
	if i < 0 {
		return 0
	}
	fields := strings.Fields(stat[i+1:])
	if len(fields) < 13 {
		return 0
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(user+system) * jiffy
}

const (
	quietShare  = 0.85 // of the machine that is idle when it counts as quiet
	quietSample = 500 * time.Millisecond
)

// WaitQuiet waits until the machine has been 85 % idle for half a second, for at
// most the given time or until ctx ends, and says whether it has.
func WaitQuiet(ctx context.Context, most time.Duration) bool {
	for end := time.Now().Add(most); ; {
		busy, idle := machineCPU()
		sleep(ctx, quietSample)
		nowBusy, nowIdle := machineCPU()
		if quiet(nowBusy-busy, nowIdle-idle) {
			return true
		}
		if ctx.Err() != nil || time.Now().After(end) {
			return false
		}
	}
}

func quiet(busy, idle time.Duration) bool {
	return float64(idle) >= quietShare*float64(busy+idle)
}
