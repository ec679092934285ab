//go:build !torture

package main

import "path/filepath"

// nthFaults are a few, of each kind one.
func nthFaults() []nthFault {
	segment := filepath.Join("journal", firstSegment)
	return []nthFault{
		{"fsync", "EIO", 1, ""}, {"write", "ENOSPC", 1, "manifest.json.TEMP"},
		{"fsync", "ENOSPC", 20, segment}, {"pwrite64", "EIO", 3, ""},
	}
}
