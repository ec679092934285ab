package pyrula_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/pyrula"
)

// job is what the runs of a deploy take.
type job struct {
	Tenant string `json:"tenant"`
	Region string `json:"region"`
}

// began is one start of a body: the version that ran it, and the key that it had a slot of.
type began struct{ version, key string }

// shop is a program in two versions. The older one lets three runs of a tenant and region
// work at once, the newer one of a whole tenant, whatever the region; both keys are
// functions, so only a worker can say what the key of a queued run is in the newer one.
type shop struct {
	*ground

	mu      sync.Mutex
	working map[began]int
	starts  map[string][]began // by the id that the body saw
	firsts  map[string]int     // who claimed runs first
}

func newShop(g *ground) *shop {
	return &shop{ground: g, working: map[began]int{}, starts: map[string][]began{}, firsts: map[string]int{}}
}

func (s *shop) older() *pyrula.Workflow[job, string] {
	key := func(j job) string { return j.Tenant + ":" + j.Region }
	return pyrula.Define("sync", s.work, pyrula.Version("1"), pyrula.Lease(5*time.Second),
		pyrula.Limit{Key: key, Max: 3, Label: "tenant and region"})
}

func (s *shop) newer() *pyrula.Workflow[job, string] {
	key := func(j job) string {
		if j.Tenant == "odd" {
			panic("no key for " + j.Tenant)
		}
		return j.Tenant
	}
	return pyrula.Define("sync", s.work, pyrula.Version("2"), pyrula.Lease(5*time.Second),
		pyrula.Limit{Key: key, Max: 1, Label: "tenant"})
}

// work is the body of both: it takes two seconds.
func (s *shop) work(r *pyrula.Run, j job) (string, error) {
	b := began{r.Version, r.Key}
	s.mu.Lock()
	s.starts[r.ID] = append(s.starts[r.ID], b)
	s.working[b]++
	most := 3
	if b.key == j.Tenant {
		most = 1
	}
	if s.working[b] > most {
		s.brokenf("%d bodies of version %s under key %s", s.working[b], b.version, b.key)
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.working[b]--
	}()
	select {
	case <-time.After(2 * time.Second):
		return b.version + " " + b.key, nil
	case <-r.Done():
		return "", context.Cause(r)
	}
}

// submit makes runs of every tenant and region, and gives back their handles.
func (s *shop) submit(c *pyrula.Client, wf *pyrula.Workflow[job, string], each int) map[*pyrula.Handle[string]]job {
	s.Helper()
	runs := map[*pyrula.Handle[string]]job{}
	for _, tenant := range []string{"acme", "bell", "odd"} {
		for _, region := range []string{"eu", "us"} {
			for range each {
				h, err := wf.Start(s.Context(), c, job{tenant, region})
				if err != nil {
					s.Fatal(err)
				}
				runs[h] = job{tenant, region}
			}
		}
	}
	return runs
}

// ended wants a run to have ended under the key of who claimed it first, after one hand-on
// at most.
func (s *shop) ended(c *pyrula.Client, h *pyrula.Handle[string], j job) {
	got, err := h.Result(s.Context())
	if err != nil {
		s.brokenf("run %s of %+v: %v", h.ID, j, err)
		return
	}
	run, err := c.Status(s.Context(), h.ID)
	if err != nil {
		s.brokenf("run %s: %v", h.ID, err)
		return
	}
	events, err := c.Events(s.Context(), run.RunID)
	if err != nil {
		s.brokenf("events of run %s: %v", run.RunID, err)
		return
	}
	i := slices.IndexFunc(events, func(e pyrula.Event) bool { return e.Type == flow.EventClaimed })
	first := strings.TrimRight(events[i].Worker, "0123456789")
	handedOn := run.RunID != h.ID
	if from := run.Provenance.Source.GatedFrom; handedOn && (from == nil || *from != h.ID) {
		s.brokenf("run %s was handed on more than once", h.ID)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.firsts[first]++
	if handedOn && len(s.starts[h.ID]) > 0 {
		s.brokenf("run %s has started %v and was handed on", h.ID, s.starts[h.ID])
	}
	// An older worker runs what was handed on, under its new key (P30), and a newer one what
	// an older one has claimed before, under its old key (P29).
	_, key, _ := strings.Cut(got, " ")
	want := j.Tenant + ":" + j.Region
	if handedOn {
		want = j.Tenant
	}
	if key != want || (j.Tenant == "odd" && handedOn) || (j.Tenant != "odd" && first == "newer" && !handedOn) {
		s.brokenf("run %s of %+v ended %q, was claimed first by %q and handed on: %v", h.ID, j, got, events[i].Worker, handedOn)
	}
}

// TestP82_P27_P30_P78FunctionKeysAcrossADeploy tightens a Limit whose key is a function
// while runs wait: workers of the newer version compute the keys of queued runs, which are
// handed on before they start. No run starts in the newer version under the looser key, and
// none is handed on twice; a run whose key the newer code can't compute stays under its own.
// The node dies three times meanwhile, and workers with it.
func TestP82_P27_P30_P78FunctionKeysAcrossADeploy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGround(t)
		s := newShop(g)
		older, newer := s.older(), s.newer()
		c, err := (&line{g: g}).dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		before := newCrew(g, []map[int]fate{{30: killed}}, older)
		before.name = "older"
		before.start()
		before.start()
		runs := s.submit(c, older, 10)
		<-time.After(3 * time.Second)
		g.crash(0)
		after := newCrew(g, []map[int]fate{{12: fallenCut, 25: cut}, {20: killedCut}}, newer)
		after.name = "newer"
		after.start()
		after.start()
		<-time.After(7 * time.Second)
		g.crash(1)
		before.end()
		var waiting sync.WaitGroup
		for h, j := range runs {
			waiting.Go(func() { s.ended(c, h, j) })
		}
		waiting.Wait()
		after.end()
		if s.firsts["older"] == 0 || s.firsts["newer"] < 20 {
			t.Errorf("runs were claimed first by %v, want both at work", s.firsts)
		}
		for _, problem := range g.end() {
			t.Error(problem)
		}
	})
}

// TestP27KeysAreAskedForUnderLoad: a worker whose places are never free claims with what
// ends runs, and the answers to that ask for no keys. It claims by itself now and then, so a
// run that waits for its key isn't left behind for as long as there is other work.
func TestP27KeysAreAskedForUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGround(t)
		s := newShop(g)
		older, newer := s.older(), s.newer()
		noise := pyrula.Define("noise", func(*pyrula.Run, job) (string, error) {
			<-time.After(100 * time.Millisecond)
			return "", nil
		})
		c, err := (&line{g: g}).dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var last *pyrula.Handle[string]
		for range 400 {
			if last, err = noise.Start(t.Context(), c, job{}); err != nil {
				t.Fatal(err)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		worker, err := c.NewWorker(pyrula.WorkerConfig{Name: "busy", Concurrency: 1, Logger: slog.New(slog.DiscardHandler)}, noise, newer)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- worker.Run(ctx) }()
		<-time.After(2 * time.Second)
		h, err := older.Start(t.Context(), c, job{"acme", "eu"})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := h.Result(t.Context()); err != nil || got != "2 acme" {
			t.Errorf("result %q, %v", got, err)
		}
		if run, err := last.Status(t.Context()); err != nil || run.Status != "queued" {
			t.Errorf("the last of the other runs is %s, %v: want it to wait still", run.Status, err)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(fmt.Errorf("the worker ended with %w", err))
		}
		for _, problem := range g.end() {
			t.Error(problem)
		}
	})
}
