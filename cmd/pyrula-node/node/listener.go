package node

import (
	"context"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/net/netutil"
)

// MaxConnections bounds the connections that are open at once. Those beyond it wait
// in the system's backlog.
const MaxConnections = 16_384

// reservedFiles are kept from connections for the journal, snapshots and the rest: a
// segment that can't be opened stops the node.
const reservedFiles = 128

// listen opens the port. The process may have fewer files than MaxConnections; then
// connections get what the reserve leaves, and half of it when there is hardly any.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	most := MaxConnections
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil {
		most = connections(files.Cur)
	}
	return netutil.LimitListener(l, most), nil
}

// connections is how many of a number of files connections may take.
func connections(files uint64) int {
	left := max(files/2, files-min(files, reservedFiles))
	return int(max(1, min(left, MaxConnections)))
}
