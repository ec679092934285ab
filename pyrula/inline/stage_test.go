package inline_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/actors/keyexpr"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence/enginetest"
	"github.com/pyrula/pyrula-node/pyrula"
	"github.com/pyrula/pyrula-node/pyrula/inline"
	"github.com/pyrula/pyrula-node/pyrula/inline/internal/loopback"
	"github.com/pyrula/pyrula-node/transport"
)

// The scenarios of slots and rates are played twice, by the same function: against a
// node with a log, and against an inline runner. What a play may do is what both have:
// a client, the HTTP API, and a worker whose bodies it holds in its hands.

// stage is where a scenario is played, in virtual time. open comes first.
type stage struct {
	*testing.T
	kind   string // "node" or "inline"
	began  time.Time
	client *pyrula.Client
	http   *http.Client

	inline *inline.Runner // nil on a node
	node   *nodeStage     // nil inline
}

// nodeStage is a node over a log in memory that outlives it, behind its HTTP API.
type nodeStage struct {
	mem    *enginetest.Mem
	actors *actors.Node
	server atomic.Pointer[transport.Server]
	wire   *loopback.Transport
}

// scenario plays on both stages.
func scenario(t *testing.T, play func(s *stage)) {
	t.Helper()
	for _, kind := range []string{"node", "inline"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				play(&stage{T: t, kind: kind, began: time.Now()})
			})
		})
	}
}

// open makes the stage, with a worker of so many places that serves the workflows; 0 is
// more than enough. It is closed with the test.
func (s *stage) open(places int, workflows ...pyrula.Definition) {
	s.Helper()
	quiet := slog.New(slog.DiscardHandler)
	if s.kind == "inline" {
		r, err := inline.New(inline.Config{Concurrency: places, Logger: quiet}, workflows...)
		if err != nil {
			s.Fatal(err)
		}
		s.inline, s.client, s.http = r, r.Client(), inline.HTTP(r)
		s.Cleanup(func() { s.must(r.Close()) })
		return
	}
	n := &nodeStage{mem: enginetest.NewMem(enginetest.MemConfig{})}
	n.wire = loopback.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { n.server.Load().ServeHTTP(w, r) }))
	s.node, s.http = n, n.wire.Client()
	s.start()
	var err error
	if s.client, err = pyrula.Dial(s.Context(), pyrula.WithAddr("node"), pyrula.WithHTTPClient(s.http)); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		n.server.Load().Drain()
		n.wire.Close()
		s.must(errors.Join(n.actors.Close(), n.mem.Close(context.Background())))
	})
	if len(workflows) > 0 {
		s.work(pyrula.WorkerConfig{Concurrency: places, Logger: quiet, DrainTimeout: -1}, workflows...)
	}
}

// start opens a node over the log as it is.
func (s *stage) start() {
	s.Helper()
	expressions, err := keyexpr.New()
	s.must(err)
	n, err := actors.Open(actors.Config{Engine: s.node.mem, Expressions: expressions})
	if err != nil {
		s.Fatal(err)
	}
	s.must(s.node.mem.Start(s.Context()))
	s.must(n.WaitReady(s.Context()))
	s.node.actors = n
	s.node.server.Store(transport.NewServer(transport.Config{Node: n}))
}

// restart kills the node and starts another one on its log. Inline there is no log, and
// so nothing to play: the caller asks outlives first.
func (s *stage) restart() {
	s.Helper()
	s.settle()
	s.node.server.Load().Drain()
	left := s.node.mem.Crash(0)
	s.must(s.node.actors.Close())
	s.node.mem = left
	s.start()
	s.settle()
}

// outlives says whether runs outlive their process here.
func (s *stage) outlives() bool { return s.node != nil }

// entries is the number of entries in the log; always 0 where none is kept.
func (s *stage) entries() (n int) {
	if s.node == nil {
		return 0
	}
	for i := range s.node.mem.Shards() {
		all, _ := s.node.mem.Entries(shardID(i))
		n += len(all)
	}
	return n
}

// work starts one more worker; it is stopped with the test.
func (s *stage) work(cfg pyrula.WorkerConfig, workflows ...pyrula.Definition) {
	s.Helper()
	w, err := s.client.NewWorker(cfg, workflows...)
	if err != nil {
		s.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	s.Cleanup(func() {
		stop()
		s.must(<-ended)
	})
	s.settle()
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// settle waits until nobody has anything to do now.
func (s *stage) settle() { synctest.Wait() }

// yield lets others run for a moment in which no time passes.
func (s *stage) yield() { runtime.Gosched() }

// pass lets time pass.
func (s *stage) pass(d time.Duration) {
	<-time.After(d)
	s.settle()
}

// at is the time since the stage was made; until lets time pass until then.
func (s *stage) at() time.Duration { return time.Since(s.began) }

func (s *stage) until(at time.Duration) {
	s.Helper()
	if at < s.at() {
		s.Fatalf("it is %v already, later than %v", s.at(), at)
	}
	s.pass(at - s.at())
}

// post sends a request and reads its answer; the error is a *wire.Problem.
func (s *stage) post(path string, body, out any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://stage"+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if raw, err = io.ReadAll(resp.Body); err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		p := &wire.Problem{}
		return errors.Join(json.Unmarshal(raw, p), p)
	}
	return json.Unmarshal(raw, out)
}

// status, key and events read; count counts a run's events of a type.
func (s *stage) status(run string) *pyrula.RunStatus {
	s.Helper()
	st, err := s.client.Status(context.Background(), run)
	s.must(err)
	return st
}

func (s *stage) key(workflow, key string) *pyrula.KeyView {
	s.Helper()
	k, err := s.client.Key(context.Background(), workflow, key)
	s.must(err)
	return k
}

func (s *stage) count(run, kind string) (n int) {
	s.Helper()
	all, err := s.client.Events(context.Background(), run)
	s.must(err)
	for i := range all {
		if all[i].Type == kind {
			n++
		}
	}
	return n
}

// is fails unless the run has the status; used unless the key has so many slots taken, a
// few at most.
func (s *stage) is(run, status string) {
	s.Helper()
	if st := s.status(run); st.Status != status {
		s.Errorf("run %s is %s at %v, want %s; it waits for %+v", run, st.Status, s.at(), status, st.Wait)
	}
}

func (s *stage) used(workflow, key string, want int64) {
	s.Helper()
	if k := s.key(workflow, key); k.Used != want || int64(len(k.Holders)) != want {
		s.Errorf("key %q has %d slots taken at %v, by %+v; want %d", key, k.Used, s.at(), k.Holders, want)
	}
}

// tokens fails unless the key's bucket shows so many.
func (s *stage) tokens(workflow, key string, want int64) {
	s.Helper()
	if k := s.key(workflow, key); k.Rate == nil || k.Rate.Tokens != want {
		s.Errorf("key %q shows %+v at %v, want %d tokens", key, k.Rate, s.at(), want)
	}
}
