package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/pyrula/pyrula-node/pyrula"
)

// standing is a node that comes back at the same address, so that programs of the SDK
// find it again.
type standing struct {
	*witness
	dir, addr string
	more      []string
	patient   int64 // milliseconds that its claims wait
}

func newStanding(t *testing.T, more ...string) *standing {
	t.Helper()
	s := &standing{witness: newWitness(t), dir: t.TempDir(), addr: freeAddr(t), more: more}
	s.begin()
	return s
}

func (s *standing) begin() {
	s.t.Helper()
	s.attend(spawn(s.t, append([]string{"serve", "--data", s.dir, "--addr", s.addr}, s.more...)...))
}

// kill9 kills the node and starts it again.
func (s *standing) kill9() {
	s.t.Helper()
	s.node.kill()
	s.begin()
}

// cleanly ends the node with SIGTERM, so that it starts from snapshots.
func (s *standing) cleanly() {
	s.t.Helper()
	s.node.signal(syscall.SIGTERM)
	if code := s.node.exit(); code != exitOK {
		s.t.Fatalf("SIGTERM ends it with %d:\n%s", code, s.node.said())
	}
	s.begin()
}

// dial is a client that outlives kills of the node.
func (s *standing) dial() *pyrula.Client {
	s.t.Helper()
	c, err := pyrula.Dial(s.t.Context(), pyrula.WithAddr(s.addr), pyrula.WithRetryFor(patience))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			s.t.Error(err)
		}
	})
	return c
}

// staff are workers of the SDK in this process.
type staff struct {
	t    *testing.T
	wg   sync.WaitGroup
	stop context.CancelFunc
}

// hire sets n workers of some workflows to work until dismissed.
func hire(t *testing.T, c *pyrula.Client, n int, workflows ...pyrula.Definition) *staff {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	s := &staff{t: t, stop: stop}
	for range n {
		w, err := c.NewWorker(pyrula.WorkerConfig{Concurrency: 8, Logger: slog.New(slog.DiscardHandler)}, workflows...)
		if err != nil {
			t.Fatal(err)
		}
		s.wg.Go(func() {
			if err := w.Run(ctx); err != nil {
				t.Errorf("a worker ends: %v", err)
			}
		})
	}
	t.Cleanup(s.dismiss)
	return s
}

// dismiss drains the workers. It may be called twice.
func (s *staff) dismiss() {
	s.stop()
	s.wg.Wait()
}

// appendLine adds a line to a file that processes append to, and syncs it.
func appendLine(f *os.File, line string) error {
	if _, err := f.WriteString(line + "\n"); err != nil {
		return err
	}
	return f.Sync()
}

// eventually polls for a state of the node.
func (s *standing) eventually(what string, come func() bool) {
	s.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for !come() {
		select {
		case <-tick.C:
		case <-late:
			s.t.Fatalf("it never comes to this: %s\n%s", what, s.node.said())
		}
	}
}

// every lists all runs of a workflow.
func (s *standing) every(workflow string) (all []runView) {
	s.t.Helper()
	for cursor := ""; ; {
		page := s.must(http.StatusOK, http.MethodGet, "/v1/runs?limit=500&workflow="+workflow+"&cursor="+cursor, "")
		for _, r := range page.Get("runs").Array() {
			all = append(all, runView{
				id: r.Get("run_id").String(), status: r.Get("status").String(), next: r.Get("continued_to").String(),
				from: r.Get("provenance.source.gated_from").String(), version: r.Get("stamped_version").String(),
			})
		}
		if cursor = page.Get("next_cursor").String(); cursor == "" {
			return all
		}
	}
}

// do makes a request. Status 0 means that there is no answer.
func do(client *http.Client, req *http.Request) (int, gjson.Result) {
	resp, err := client.Do(req)
	if err != nil {
		return 0, gjson.Result{}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, gjson.Result{}
	}
	return resp.StatusCode, gjson.ParseBytes(text)
}

// runView is a run as a list shows it.
type runView struct{ id, status, next, from, version string }

// passes lets real time go by for processes that know no other.
func passes(d time.Duration) { <-time.After(d) }
