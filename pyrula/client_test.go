package pyrula_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

const submitPath = "/v1/workflows/charge/runs"

// requestIDs are the request ids of submits that left the client.
func requestIDs(t *testing.T, calls []call) []string {
	t.Helper()
	var ids []string
	for _, c := range calls {
		var sub wire.Submit
		if err := json.Unmarshal(c.body, &sub); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, sub.RequestID)
	}
	return ids
}

// TestR10RetryOfASubmit: a submit whose answer is lost is sent again with the same
// request id, so however often the answer is lost there is one run; another submit
// has another id.
func TestR10RetryOfASubmit(t *testing.T) {
	wf := pyrula.Define("charge", charge)
	inWorld(t, func(t *testing.T, w *world) {
		w.net.setFault(func(c call) fault { return fault{cut: c.path == submitPath && c.nth <= 3} })
		first := start(w, wf, order{ID: "1"})
		second := start(w, wf, order{ID: "1"})
		ids := requestIDs(t, w.net.to(submitPath))
		if len(ids) != 5 || ids[0] == "" || len(slices.Compact(ids[:4])) != 1 || ids[4] == ids[0] {
			t.Errorf("request ids %q, want four equal ones and another", ids)
		}
		if got := w.node.count(); got != 2 || first.ID == second.ID {
			t.Errorf("the node has %d runs (%s, %s), want two", got, first.ID, second.ID)
		}
		if !first.Created || first.ID != w.node.run(0).id {
			t.Errorf("handle %+v, want the created run %s", first, w.node.run(0).id)
		}
	})
}

// TestR10RetryOfABatch: a batch whose answer is lost is sent again as it was; an entry
// whose outcome is unknown is sent again alone, with its request id; one that is
// refused for good keeps its error.
func TestR10RetryOfABatch(t *testing.T) {
	wf := pyrula.Define("charge", charge)
	inWorld(t, func(t *testing.T, w *world) {
		w.net.setFault(func(c call) fault { return fault{cut: c.path == wire.PathBatch && c.nth == 1} })
		w.node.refuse = []refusal{{4, "submit", flow.ErrOutcomeUnknown}, {5, "submit", flow.ErrUnknownWorkflow}}
		var subs []pyrula.Submission
		for _, id := range []string{"1", "2", "3"} {
			sub, err := wf.Submission(order{ID: id})
			if err != nil {
				t.Fatal(err)
			}
			subs = append(subs, sub)
		}
		done, err := w.client.SubmitBatch(t.Context(), subs)
		if err != nil {
			t.Fatal(err)
		}
		sent := w.net.to(wire.PathBatch)
		var batches [3]wire.Batch
		for i := range min(len(sent), 3) {
			if err := json.Unmarshal(sent[i].body, &batches[i]); err != nil {
				t.Fatal(err)
			}
		}
		if len(sent) != 3 || !bytes.Equal(sent[0].body, sent[1].body) || len(batches[2].Runs) != 1 ||
			batches[2].Runs[0].RequestID != batches[0].Runs[1].RequestID {
			t.Errorf("%d requests, want the batch twice, then its second entry", len(sent))
		}
		for i := range 2 {
			if done[i].Err != nil || done[i].RunID != w.node.run(i).id {
				t.Errorf("entry %d: %+v, want run %s", i, done[i], w.node.run(i).id)
			}
		}
		if got := w.node.count(); got != 3 || !errors.Is(done[2].Err, pyrula.ErrUnknownWorkflow) {
			t.Errorf("%d runs, and the last entry is %+v", got, done[2])
		}
	})
}

// TestBatchBounds: a batch over its bound, and one with an entry that can't be
// right, is refused before anything is sent.
func TestBatchBounds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		if _, err := w.client.SubmitBatch(w.Context(), make([]pyrula.Submission, 257)); !errors.Is(err, pyrula.ErrInvalid) {
			t.Errorf("257 runs: %v, want an invalid argument", err)
		}
		bad := []pyrula.Submission{{Workflow: "a"}, {Workflow: "a", Params: 7}}
		if _, err := w.client.SubmitBatch(w.Context(), bad); !errors.Is(err, pyrula.ErrInvalid) || !strings.Contains(err.Error(), "runs[1]") {
			t.Errorf("a number as params: %v, want an invalid argument of runs[1]", err)
		}
		done, err := w.client.SubmitBatch(w.Context(), nil)
		if err != nil || len(done) != 0 || len(w.net.to(wire.PathBatch)) != 0 {
			t.Errorf("%v, %v, %d requests, want nothing at all", done, err, len(w.net.to(wire.PathBatch)))
		}
		done, err = w.client.SubmitBatch(w.Context(), make([]pyrula.Submission, 1))
		if !errors.Is(err, pyrula.ErrInvalid) {
			t.Errorf("no workflow: %v, %v, want what the node says", done, err)
		}
	})
}

// TestParams: what encodes as null is {}, what is no object or too large is refused
// here.
func TestParams(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var none map[string]int
		for _, params := range []any{nil, none, struct{}{}} {
			if _, err := w.client.Submit(w.Context(), "charge", params); err != nil {
				t.Errorf("params %#v: %v", params, err)
			}
		}
		for i := range 3 {
			if got := string(w.node.run(i).sub.Params); got != "{}" {
				t.Errorf("params %s, want {}", got)
			}
		}
		if _, err := w.client.Submit(w.Context(), "charge", []int{1}); !errors.Is(err, pyrula.ErrInvalid) {
			t.Errorf("a list: %v, want an invalid argument", err)
		}
		large := map[string]string{"x": strings.Repeat("x", 1<<20)}
		if _, err := w.client.Submit(w.Context(), "charge", large); !errors.Is(err, pyrula.ErrTooLarge) {
			t.Errorf("1 MiB: %v, want too large", err)
		}
		if got := w.node.count(); got != 3 {
			t.Errorf("%d runs, want 3", got)
		}
	})
}

// TestOnceKey: a known key answers the first run and says so.
func TestOnceKey(t *testing.T) {
	wf := pyrula.Define("charge", charge)
	inWorld(t, func(t *testing.T, w *world) {
		first := start(w, wf, order{ID: "1"}, pyrula.OnceKey("o-1"))
		again := start(w, wf, order{ID: "2"}, pyrula.OnceKey("o-1"), pyrula.TriggeredBy("replay"))
		if !first.Created || again.Created || first.ID != again.ID {
			t.Errorf("handles %+v and %+v, want the first run twice", first, again)
		}
		if got := string(w.net.to(submitPath)[1].body); !strings.Contains(got, `"trigger":"replay"`) {
			t.Errorf("sent %s, want the trigger in it", got)
		}
	})
}

// TestRetryAfter: an overloaded node is asked again when it wishes, not before,
// and not at all when that is past the time for repeats.
func TestRetryAfter(t *testing.T) {
	wf := pyrula.Define("charge", charge)
	inWorld(t, func(t *testing.T, w *world) {
		busy := &wire.Problem{Status: 429, Code: wire.CodeOverloaded, RetryAfterMS: 4000}
		w.net.setFault(func(c call) fault {
			if c.path == submitPath && c.nth <= 2 {
				return fault{problem: busy}
			}
			return fault{}
		})
		start(w, wf, order{})
		calls := w.net.to(submitPath)
		if len(calls) != 3 || calls[1].at-calls[0].at < 4*time.Second || calls[2].at-calls[1].at < 4*time.Second {
			t.Errorf("requests at %v, want three, 4 s apart", calls)
		}
		w.net.setFault(func(c call) fault {
			return fault{problem: &wire.Problem{Status: 429, Code: wire.CodeOverloaded}, after: "60"}
		})
		if _, err := wf.Start(w.Context(), w.client, order{}); !errors.Is(err, pyrula.ErrOverloaded) {
			t.Errorf("error %v, want overloaded", err)
		}
		if got := len(w.net.to(submitPath)); got != 4 {
			t.Errorf("%d requests, want one more", got)
		}
	})
}

// TestUnreachable: a request is repeated for the time that was set, then the error
// says that nobody answered; a refusal that a repeat can't heal isn't repeated, and
// a context that ends stops at once.
func TestUnreachable(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.net.setFault(func(call) fault { return fault{lost: true} })
		began := time.Now()
		_, err := w.client.Node(w.Context())
		if took := time.Since(began); !errors.Is(err, pyrula.ErrUnreachable) || took < 12*time.Second || took > 15*time.Second {
			t.Errorf("%v after %v, want unreachable after about 15 s", err, took)
		}
		if got := len(w.net.to(wire.PathNode)); got < 5 || got > 40 {
			t.Errorf("%d attempts, want a back-off between them", got)
		}

		w.net.setFault(func(call) fault { return fault{hang: true} })
		began = time.Now()
		_, err = w.client.Key(w.Context(), "w", "k")
		if took := time.Since(began); !errors.Is(err, pyrula.ErrUnreachable) || took < 10*time.Second || took > 30*time.Second {
			t.Errorf("%v after %v, want unreachable after the request timeout", err, took)
		}

		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		if _, err := w.client.Node(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, pyrula.ErrUnreachable) {
			t.Errorf("error %v, want the end of the context", err)
		}

		w.net.setFault(nil)
		if _, err := w.client.Status(w.Context(), "run_x"); !errors.Is(err, pyrula.ErrUnknownRun) {
			t.Errorf("error %v, want an unknown run", err)
		}
		if got := len(w.net.to("/v1/runs/run_x")); got != 1 {
			t.Errorf("%d attempts for an unknown run, want 1", got)
		}
	})
}

// TestDial: it waits for a node that is ready, within its timeout; a wrong setting is
// a configuration error; a closed client sends nothing.
func TestDial(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		net := &network{server: w.net.server, begin: time.Now()}
		client := pyrula.WithHTTPClient(&http.Client{Transport: net})
		net.setFault(func(c call) fault { return fault{lost: c.nth < 4} })
		c, err := pyrula.Dial(w.Context(), client)
		if err != nil || len(net.to(wire.PathReady)) != 4 {
			t.Fatalf("%v after %d attempts, want a client after 4", err, len(net.to(wire.PathReady)))
		}
		if err := errors.Join(c.Close(), c.Close()); err != nil {
			t.Error(err)
		}
		if _, err := c.Node(w.Context()); !errors.Is(err, pyrula.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}

		net.setFault(func(call) fault { return fault{problem: &wire.Problem{Status: 503}} })
		if _, err = pyrula.Dial(w.Context(), client, pyrula.WithDialTimeout(time.Second)); !errors.Is(err, pyrula.ErrNotReady) {
			t.Errorf("a node that isn't ready: %v", err)
		}
		if _, err = pyrula.Dial(w.Context(), client, pyrula.WithDialTimeout(0)); err != nil {
			t.Errorf("without waiting: %v", err)
		}
		for _, opts := range [][]pyrula.DialOption{
			{pyrula.WithAddr("ftp://a")}, {pyrula.WithAddr("http://")}, {pyrula.WithAddr("a:1/?x=1")}, {pyrula.WithAddr("a b:1")},
			{pyrula.WithDialTimeout(-1)}, {pyrula.WithRequestTimeout(0)}, {pyrula.WithRetryFor(6 * time.Minute)}, {pyrula.WithRetryFor(-1)},
		} {
			if _, err := pyrula.Dial(w.Context(), opts...); !errors.Is(err, pyrula.ErrConfiguration) {
				t.Errorf("error %v, want a configuration error", err)
			}
		}
	})
}

// TestDialAddress: the option counts before the variable, and a short form means this
// machine.
func TestDialAddress(t *testing.T) {
	var hosts []string
	client := pyrula.WithHTTPClient(&http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		hosts = append(hosts, r.URL.Scheme+"://"+r.URL.Host+r.URL.Path)
		return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
	})})
	t.Setenv(pyrula.AddrVariable, "node.test:1")
	for _, opts := range [][]pyrula.DialOption{
		{client}, {client, pyrula.WithAddr(":7000")}, {client, pyrula.WithAddr("https://edge.test/pyrula/")},
	} {
		if _, err := pyrula.Dial(t.Context(), opts...); err != nil {
			t.Error(err)
		}
	}
	t.Setenv(pyrula.AddrVariable, "")
	if _, err := pyrula.Dial(t.Context(), client); err != nil {
		t.Error(err)
	}
	want := []string{"http://node.test:1/readyz", "http://127.0.0.1:7000/readyz", "https://edge.test/pyrula/readyz", "http://127.0.0.1:7477/readyz"}
	if !slices.Equal(hosts, want) {
		t.Errorf("asked %q, want %q", hosts, want)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
