package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/cmd/pyrula-node/node"
	"github.com/pyrula/pyrula-node/pyrula"
)

// workerName is a worker of the SDK as a process of its own.
const workerName = "pyrula-test-worker"

// theLease is short, so that the test waits for its end: 1.2 leases and a second.
const theLease = time.Second

type job struct {
	K string `json:"k"`
}

// oneAtATime is served by every worker process. What the body does comes from the
// process: stay until it is killed, or end at once.
func oneAtATime(stay bool) *pyrula.Workflow[job, int] {
	return pyrula.Define("one", func(r *pyrula.Run, _ job) (int, error) {
		fmt.Printf("body begins at %d fence %d\n", time.Now().UnixNano(), r.Fence)
		if stay {
			select {} // until kill -9
		}
		return os.Getpid(), nil
	}, pyrula.Limit{Key: "k", Max: 1}, pyrula.Lease(theLease))
}

// workerMain serves until it is killed. Usage: ADDR stay|end.
func workerMain() {
	c, err := pyrula.Dial(context.Background(), pyrula.WithAddr(os.Args[1]))
	if err == nil {
		err = c.Work(context.Background(), oneAtATime(os.Args[2] == "stay"))
	}
	fmt.Println("the worker ends:", err)
	os.Exit(1)
}

// Fails when the slot of a worker that was killed in its body is given to another
// before the lease has ended, when that other body is not begun at all, or when two
// bodies are at work.
func TestD5_1_P50KilledWorkerKeepsItsSlotUntilItsLeaseEnds(t *testing.T) {
	n, err := node.Start(t.Context(), node.Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	first := spawnAs(t, workerName, n.Addr(), "stay")
	c, err := pyrula.Dial(t.Context(), pyrula.WithAddr(n.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	var runs []*pyrula.Handle[int]
	for range 2 {
		h, err := oneAtATime(false).Start(t.Context(), c, job{K: "a"})
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, h)
	}
	first.says(`body begins at (\d+) fence`)
	second := spawnAs(t, workerName, n.Addr(), "end")
	killed := time.Now()
	first.kill()
	for i, h := range runs {
		if _, err := h.Result(t.Context()); err != nil {
			t.Fatalf("run %d: %v", i, err)
		}
	}
	// The owner counts 1.2 leases and a second from the last heartbeat, and a worker that
	// holds its run has sent one within the last lease.
	began := instant(t, second.says(`body begins at (\d+) fence`))
	if waited := began.Sub(killed); waited < theLease/5+time.Second {
		t.Errorf("another body began %s after the kill, before the lease was over", waited)
	}
	if bodies := strings.Count(first.said(), "body begins"); bodies != 1 {
		t.Errorf("the killed worker had %d bodies at once", bodies)
	}
	if bodies := strings.Count(second.said(), "body begins"); bodies != 2 {
		t.Errorf("%d bodies began at the other worker, want both runs", bodies)
	}
}

func instant(t *testing.T, nanoseconds string) time.Time {
	t.Helper()
	var ns int64
	if _, err := fmt.Sscan(nanoseconds, &ns); err != nil {
		t.Fatal(err)
	}
	return time.Unix(0, ns)
}
