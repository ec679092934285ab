package node

import "testing"

// Fails when connections could take the files that the journal needs, or when a node
// with few files takes no connection at all.
func TestConnectionsLeaveFiles(t *testing.T) {
	for files, want := range map[uint64]int{
		0: 1, 1: 1, 100: 50, 256: 128, 1024: 896, 20_000: MaxConnections, 1 << 62: MaxConnections,
	} {
		if got := connections(files); got != want {
			t.Errorf("%d files: %d connections, want %d", files, got, want)
		}
	}
}
