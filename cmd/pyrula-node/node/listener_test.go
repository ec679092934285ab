package node

import (
	"net"
	"testing"
)

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

// Fails when more connections are accepted than there are slots, when a closed one
// doesn't give its slot back, or when a listener that is closed goes on waiting.
func TestConnectionsAreBounded(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &limitListener{Listener: inner, slots: make(chan struct{}, 1), closed: make(chan struct{})}
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	for range 2 {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	first := <-accepted
	if len(l.slots) != 1 {
		t.Errorf("%d slots are taken", len(l.slots))
	}
	if _, ok := first.(interface{ CloseWrite() error }); !ok {
		t.Error("one side of a connection can't be closed alone")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err == nil {
		t.Error("a second close answers nothing")
	}
	second := <-accepted // only the slot of the first lets it in
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, more := <-accepted; more {
		t.Error("a closed listener accepts")
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
}
