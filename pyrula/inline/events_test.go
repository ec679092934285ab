package inline_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

// mail is an event; its key is Box.
type mail struct {
	Box string `json:"box"`
	N   int    `json:"n"`
}

// gathered is a run that a postman's body has seen.
type gathered struct {
	run   string
	key   string
	ns    []int
	count int
	at    time.Duration
}

// postman is a triggered workflow that notes what its bodies are given.
type postman struct {
	wf   *pyrula.Workflow[pyrula.Batch[mail], string]
	seen chan gathered
}

func newPostman(s *stage, takes time.Duration, policies ...pyrula.Policy) *postman {
	p := &postman{seen: make(chan gathered, 100)}
	p.wf = pyrula.Define("post", func(r *pyrula.Run, b pyrula.Batch[mail]) (string, error) {
		g := gathered{run: r.ID, key: b.Key, count: b.Count, at: s.at()}
		for _, m := range b.Events {
			g.ns = append(g.ns, m.N)
		}
		p.seen <- g
		select {
		case <-time.After(takes):
		case <-r.Done():
		}
		return fmt.Sprint(b.Key, g.ns), nil
	}, policies...)
	return p
}

// send sends numbers to a box; the handles are nil where an event made no run.
func (p *postman) send(s *stage, box string, ns ...int) (handles []*pyrula.Handle[string]) {
	s.Helper()
	for _, n := range ns {
		h, err := pyrula.Trigger(s.Context(), s.client, p.wf, mail{box, n})
		s.must(err)
		handles = append(handles, h)
	}
	s.settle()
	return handles
}

// begun fails unless just these bodies have begun since it was last asked, each at its
// time, give or take the 50 ms of P72, and never early.
func (p *postman) begun(s *stage, want ...gathered) (runs []string) {
	s.Helper()
	s.settle()
	var got []gathered
	for range len(p.seen) {
		got = append(got, <-p.seen)
	}
	slices.SortFunc(got, func(a, b gathered) int { return strings.Compare(a.key, b.key) })
	fits := slices.EqualFunc(got, want, func(g, w gathered) bool {
		return g.key == w.key && slices.Equal(g.ns, w.ns) && g.count == len(w.ns) && g.at >= w.at && g.at <= w.at+50*time.Millisecond
	})
	if !fits {
		s.Fatalf("at %v bodies have begun with %+v, want %+v", s.at(), got, want)
	}
	for _, g := range got {
		runs = append(runs, g.run)
	}
	return runs
}

// TestP33_P36_P37_P68Collect fails when a batch isn't a run as soon as it is full or its
// window is over, when the window slides, or when the body isn't given its key, events and
// count.
func TestP33_P36_P37_P68Collect(t *testing.T) {
	scenario(t, func(s *stage) {
		p := newPostman(s, 0, pyrula.Collect{Key: "box", MaxEvents: 3, Window: 10 * time.Second})
		s.open(0, p.wf)
		h := p.send(s, "a", 1, 2)
		if h[0] != nil || h[1] != nil {
			t.Errorf("events that fill nothing answer %+v", h)
		}
		p.begun(s)
		s.until(4 * time.Second)
		full := p.send(s, "a", 3, 4)
		if full[0] == nil || full[1] != nil {
			t.Fatalf("the third and fourth event answer %+v", full)
		}
		if runs := p.begun(s, gathered{key: "a", ns: []int{1, 2, 3}, at: s.at()}); runs[0] != full[0].ID {
			t.Errorf("run %s has begun, the event was answered %s", runs[0], full[0].ID)
		}
		got, err := full[0].Result(s.Context())
		if err != nil || got != "a[1 2 3]" {
			t.Errorf("the run gives %q, %v", got, err)
		}
		s.until(12 * time.Second)
		p.send(s, "a", 5)
		p.send(s, "b", 6)
		s.until(14*time.Second - 1)
		p.begun(s) // the window of a began with event 4, at 4 s
		k := s.key("post", "a")
		if k.Batch == nil || k.Batch.Events != 2 || k.Batch.Due || k.BufferedEvents != 2 {
			t.Fatalf("the key shows %+v", k)
		}
		s.until(15 * time.Second)
		if runs := p.begun(s, gathered{key: "a", ns: []int{4, 5}, at: 14 * time.Second}); runs[0] != k.Batch.RunID {
			t.Errorf("run %s has begun, the open batch showed %s", runs[0], k.Batch.RunID)
		}
		s.until(23 * time.Second)
		p.begun(s, gathered{key: "b", ns: []int{6}, at: 22 * time.Second})
	})
	scenario(t, func(s *stage) {
		p := newPostman(s, 0, pyrula.Collect{Key: "box", MaxEvents: 1, Window: time.Second})
		s.open(0, p.wf)
		for i, h := range p.send(s, "a", 1, 2) {
			if h == nil {
				t.Errorf("event %d of a batch of one answers none", i)
			}
		}
		s.settle()
		if len(p.seen) != 2 {
			t.Errorf("%d runs of two batches of one", len(p.seen))
		}
	})
}

// TestP34_S68Debounce fails when a quiet key doesn't become a run, when an event doesn't
// start the window again, or when the longest wait isn't kept.
func TestP34_S68Debounce(t *testing.T) {
	at := []float64{0, 2, 4, 6, 8, 9.5, 10.5}
	for name, c := range map[string]struct {
		longest time.Duration
		want    []gathered
	}{
		"no longest wait":      {0, []gathered{{key: "a", ns: []int{0, 1, 2, 3, 4, 5, 6}, at: 15500 * time.Millisecond}}},
		"a longest wait, 10 s": {10 * time.Second, []gathered{{key: "a", ns: []int{0, 1, 2, 3, 4, 5}, at: 10 * time.Second}, {key: "a", ns: []int{6}, at: 15500 * time.Millisecond}}},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(s *stage) {
				p := newPostman(s, 0, pyrula.Debounce{Key: "box", Window: 5 * time.Second, MaxWait: c.longest})
				s.open(0, p.wf)
				for n, seconds := range at {
					s.until(time.Duration(seconds * float64(time.Second)))
					if h := p.send(s, "a", n); h[0] != nil {
						t.Errorf("a Debounce answers %+v", h[0])
					}
				}
				s.until(16 * time.Second)
				var got []gathered
				for range len(p.seen) {
					got = append(got, <-p.seen)
				}
				for _, g := range got {
					p.seen <- g
				}
				p.begun(s, c.want...)
			})
		})
	}
}

// TestP1_P39_P69_S71GatesOfTheBatch fails when runs of one key don't keep their Limit, when
// an event changes a batch that is a run already, or when the filling event isn't told of
// a run that waits.
func TestP1_P39_P69_S71GatesOfTheBatch(t *testing.T) {
	scenario(t, func(s *stage) {
		p := newPostman(s, 30*time.Second, pyrula.Limit{Key: "key", Max: 1}, pyrula.Rate{Key: "key", PerSecond: 100}, pyrula.Collect{Key: "box", MaxEvents: 2, Window: 5 * time.Second})
		s.open(0, p.wf)
		p.send(s, "a", 1, 2)
		p.begun(s, gathered{key: "a", ns: []int{1, 2}})
		s.until(6 * time.Second)
		p.send(s, "a", 3)
		s.until(12 * time.Second)
		p.begun(s) // a run since 11 s, and it waits
		waits := p.send(s, "a", 4, 5)
		if waits[1] == nil {
			t.Fatal("the event that fills a batch is told of no run")
		}
		s.is(waits[1].ID, "queued")
		p.send(s, "b", 6, 7)
		p.begun(s, gathered{key: "b", ns: []int{6, 7}, at: 12 * time.Second})
		s.until(31 * time.Second)
		p.begun(s, gathered{key: "a", ns: []int{3}, at: 30 * time.Second})
		s.until(61 * time.Second)
		p.begun(s, gathered{key: "a", ns: []int{4, 5}, at: 60 * time.Second})
		s.used("post", "a", 1)
	})
}

// TestP38_P72LateWithoutAWorker fails when a batch fires though no worker is alive, or
// doesn't once one is, with all that has come meanwhile.
func TestP38_P72LateWithoutAWorker(t *testing.T) {
	scenario(t, func(s *stage) {
		p := newPostman(s, 0, pyrula.Collect{Key: "box", MaxEvents: 100, Window: 5 * time.Second})
		s.open(0)
		p.send(s, "a", 1)
		s.until(time.Hour)
		p.send(s, "a", 2)
		k := s.key("post", "a")
		if len(p.seen) != 0 || k.Batch == nil || !k.Batch.Due || k.Batch.Events != 2 {
			t.Fatalf("without a worker the key shows %+v", k)
		}
		s.work(pyrula.WorkerConfig{Concurrency: 1, DrainTimeout: -1}, p.wf)
		s.pass(time.Second)
		p.begun(s, gathered{key: "a", ns: []int{1, 2}, at: time.Hour})
	})
}

// TestP12P60ExpressionKeys fails when a key that is an expression isn't computed by the
// node, for events and for gates, or when a wrong one doesn't tell the user where it is
// wrong.
func TestP12P60ExpressionKeys(t *testing.T) {
	scenario(t, func(s *stage) {
		p := newPostman(s, 0, pyrula.Collect{Key: "cel:event.box + '/' + string(event.n)", MaxEvents: 1, Window: time.Second})
		charge := quick("charge", pyrula.Limit{Key: "cel:params.k + '!'", Max: 1})
		s.open(0, p.wf, charge.wf)
		p.send(s, "a", 1)
		p.begun(s, gathered{key: "a/1", ns: []int{1}})
		h, err := charge.wf.Start(s.Context(), s.client, item{Key: "acme"})
		s.must(err)
		if gates := s.status(h.ID).Gates; len(gates) != 1 || gates[0].Key != "acme!" {
			t.Errorf("the run's gates are %+v", gates)
		}
		for field, wrong := range map[string]pyrula.Definition{
			"trigger.debounce.key": newPostman(s, 0, pyrula.Debounce{Key: "cel:event.box + + 1", Window: 1}).wf,
			"limit.key":            quick("charge", pyrula.Limit{Key: "cel:params.k +", Max: 1}).wf,
		} {
			_, err := s.client.Declare(s.Context(), wrong)
			refused, ok := errors.AsType[*pyrula.APIError](err)
			if !errors.Is(err, pyrula.ErrConfiguration) || !ok || refused.Problem.Code != wire.CodeConfiguration || refused.Problem.Field != field || !strings.Contains(refused.Problem.Detail, ": 1:1") {
				t.Errorf("a wrong expression: %v, want the place in %s", err, field)
			}
		}
	})
}

// TestP71BatchesOutliveTheNode fails when an acknowledged event is lost or doubled by a
// crash, or when a batch whose time has passed meanwhile doesn't fire at once.
func TestP71BatchesOutliveTheNode(t *testing.T) {
	scenario(t, func(s *stage) {
		p := newPostman(s, 0, pyrula.Collect{Key: "box", MaxEvents: 100, Window: 5 * time.Second})
		s.open(0, p.wf)
		if !s.outlives() {
			return
		}
		p.send(s, "a", 1)
		_, err := s.client.Trigger(s.Context(), "post", mail{"a", 2}, pyrula.EventID("d-2"))
		s.must(err)
		s.restart()
		_, err = s.client.Trigger(s.Context(), "post", mail{"a", 2}, pyrula.EventID("d-2")) // S76
		s.must(err)
		p.send(s, "a", 3)
		s.until(6 * time.Second)
		p.begun(s, gathered{key: "a", ns: []int{1, 2, 3}, at: 5 * time.Second})
	})
}
