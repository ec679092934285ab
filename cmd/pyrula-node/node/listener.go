package node

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
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
	return &limitListener{Listener: l, slots: make(chan struct{}, most), closed: make(chan struct{})}, nil
}

// connections is how many of a number of files connections may take.
func connections(files uint64) int {
	left := max(files/2, files-min(files, reservedFiles))
	return int(max(1, min(left, MaxConnections)))
}

// limitListener accepts a connection only while one of its slots is free. The one of
// golang.org/x/net hides what else a TCP connection can do, and net/http needs to
// close one side of it: a client that is refused early would not read why.
type limitListener struct {
	net.Listener
	slots  chan struct{}
	once   sync.Once // closes closed
	closed chan struct{}
}

// Accept implements net.Listener.
func (l *limitListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{TCPConn: c.(*net.TCPConn), free: sync.OnceFunc(func() { <-l.slots })}, nil
}

// Close implements net.Listener.
func (l *limitListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// limitedConn gives its slot back when it is closed.
type limitedConn struct {
	*net.TCPConn
	free func()
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	defer c.free()
	return c.TCPConn.Close()
}
