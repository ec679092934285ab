package load

import (
	"fmt"
	"strconv"
	"strings"
)

// Memory is what a process has of the machine's memory, in bytes.
type Memory struct {
	RSS  int64 // all pages
	Anon int64 // of those, its own: without files that it has mapped
}

// ProcessMemory is the memory of a process. It is 0 where /proc doesn't tell.
func ProcessMemory(pid int) Memory {
	return parseMemory(readText(fmt.Sprintf("/proc/%d/status", pid)))
}

func parseMemory(status string) Memory {
	var m Memory
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			continue
		}
		switch name {
		case "VmRSS":
			m.RSS = kib << 10
		case "RssAnon":
			m.Anon = kib << 10
		}
	}
	return m
}
