package pyrula_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
	"github.com/pyrula/pyrula-node/transport"
)

// workerAddr makes the test's program a worker of the node at that address.
const workerAddr = "PYRULA_TEST_WORKER_OF"

func TestMain(m *testing.M) {
	if addr := os.Getenv(workerAddr); addr != "" {
		if err := stoppable(addr); err != nil {
			fmt.Println("error:", err)
		}
		return
	}
	os.Exit(m.Run())
}

// stoppable is a worker that writes the fence of each body it starts.
func stoppable(addr string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c, err := pyrula.Dial(ctx, pyrula.WithAddr(addr))
	if err != nil {
		return err
	}
	wf := pyrula.Define("charge", func(r *pyrula.Run, _ order) (receipt, error) {
		fmt.Println("body", r.Fence)
		return receipt{}, nil
	}, pyrula.Lease(time.Second))
	return c.Work(ctx, wf)
}

// stopper stops a process in the middle of its first claim, lets the node answer
// that into its socket, and lets the process go on when the lease is over.
type stopper struct {
	once    sync.Once
	process chan *os.Process
	next    http.Handler
	t       *testing.T
}

func (s *stopper) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path != wire.PathClaims {
		s.next.ServeHTTP(rw, r)
		return
	}
	s.once.Do(func() {
		p := <-s.process
		if err := p.Signal(syscall.SIGSTOP); err != nil {
			s.t.Error(err)
		}
		for !isStopped(s.t, p.Pid) {
			runtime.Gosched()
		}
		// The answer leaves when this handler returns; the process is woken after that.
		time.AfterFunc(1500*time.Millisecond, func() {
			if err := p.Signal(syscall.SIGCONT); err != nil {
				s.t.Error(err)
			}
		})
	})
	s.next.ServeHTTP(rw, r)
}

func isStopped(t *testing.T, pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Error(err)
		return true
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "T")
}

// TestR1StoppedProcess: a real process that is stopped by a signal for longer than
// its lease, with the grant in its socket, doesn't start the body under that grant.
func TestR1StoppedProcess(t *testing.T) {
	node := newFakeNode()
	s := &stopper{process: make(chan *os.Process, 1), next: transport.NewServer(transport.Config{Node: node}), t: t}
	server := httptest.NewServer(s)
	defer server.Close()
	c, err := pyrula.Dial(t.Context(), pyrula.WithAddr(server.URL))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Submit(t.Context(), "charge", nil); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), workerAddr+"="+server.URL)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.process <- cmd.Process

	var bodies []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		bodies = append(bodies, lines.Text())
		if len(bodies) == 1 {
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the worker ended with %v", err)
	}
	// On a starved machine a lease of one second may also be lost later on; the body
	// must not start under the grant that lay in the socket.
	if got := node.run(0); len(bodies) == 0 || slices.Contains(bodies, "body 1") || got.grants() < 2 || got.failures != 0 {
		t.Errorf("bodies %q after a life of %q with %d failures", bodies, got.log, got.failures)
	}
}
