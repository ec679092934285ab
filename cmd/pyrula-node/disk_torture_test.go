//go:build torture

package main

import "path/filepath"

// nthFaults are many: each call that changes something, at each of its first times and
// at some later ones.
func nthFaults() (all []nthFault) {
	segment := filepath.Join("journal", firstSegment)
	for _, nth := range []int{1, 2, 3, 5, 8, 13, 40} {
		for errno := range faultText {
			for _, file := range []string{"", segment, "manifest.json.TEMP", "snapshots", "journal"} {
				all = append(all, nthFault{"fsync", errno, nth, file})
			}
			for _, file := range []string{segment, segment + ".TEMP", "manifest.json.TEMP"} {
				all = append(all, nthFault{"write", errno, nth, file})
			}
			all = append(all, nthFault{"pwrite64", errno, nth, ""}, nthFault{"fdatasync", errno, nth, ""})
			all = append(all, nthFault{"rename,renameat,renameat2", errno, nth, ""}, nthFault{"ftruncate", errno, nth, ""})
		}
	}
	return all
}
