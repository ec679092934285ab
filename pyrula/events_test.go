package pyrula_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

const eventsPath = "/v1/workflows/digest/events"

var (
	inThrees = pyrula.Define("digest", digestOf, pyrula.Collect{Key: "user_id", MaxEvents: 3, Window: time.Minute})
	onQuiet  = pyrula.Define("digest", digestOf, pyrula.Debounce{Key: "user_id", Window: 5 * time.Second})
)

// sendTo sends an event and fails the test when that fails. The handle is nil for an event
// that made no run.
func sendTo[E, Out any](w *world, wf *pyrula.Workflow[pyrula.Batch[E], Out], event E, opts ...pyrula.TriggerOption) *pyrula.Handle[Out] {
	w.Helper()
	h, err := pyrula.Trigger(w.Context(), w.client, wf, event, opts...)
	if err != nil {
		w.Fatal(err)
	}
	return h
}

// batchOf are the parameters of a run of the fake.
func (w *world) batchOf(run int) pyrula.Batch[comment] {
	w.Helper()
	r := w.node.run(run)
	var b pyrula.Batch[comment]
	if err := json.Unmarshal(r.sub.Params, &b); err != nil {
		w.Fatal(err)
	}
	return b
}

// TestP37OnlyTheFillingEventHasAHandle: the event that fills a Collect batch answers its
// run, which the body then gets whole and in order (P36); all others answer nil, by type
// and by name, and so does every event of a Debounce.
func TestP37OnlyTheFillingEventHasAHandle(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		k := w.work(w.client, pyrula.WorkerConfig{}, inThrees)
		defer k.end()
		for i, text := range []string{"a", "b"} {
			if h := sendTo(w, inThrees, comment{"ada", text}); h != nil {
				t.Errorf("event %d answers %+v", i, h)
			}
		}
		if h, err := w.client.Trigger(w.Context(), "digest", map[string]string{"user_id": "bob"}); h != nil || err != nil {
			t.Errorf("the first of another key answers %+v, %v", h, err)
		}
		h := sendTo(w, inThrees, comment{"ada", "c"})
		if h == nil || !h.Created || h.ID != w.node.run(0).id {
			t.Fatalf("the third answers %+v", h)
		}
		got, err := h.Result(w.Context())
		if want := []string{"ada: a", "ada: b", "ada: c"}; err != nil || !slices.Equal(got.Lines, want) {
			t.Errorf("the run gives %q, %v; want %q", got.Lines, err, want)
		}
		if b := w.batchOf(0); b.Key != "ada" || b.Count != 3 || len(b.Events) != 3 {
			t.Errorf("the run was given %+v", b)
		}
		for range 2 {
			h, err := w.client.Trigger(w.Context(), "digest", comment{UserID: "bob"})
			if err != nil {
				t.Fatal(err)
			}
			if h != nil {
				raw, err := h.Result(w.Context())
				if err != nil || string(raw) != `{"lines":["bob: ","bob: ","bob: "]}` {
					t.Errorf("by name the run gives %s, %v", raw, err)
				}
			}
		}
		if w.node.count() != 2 {
			t.Errorf("%d runs, want one for each key", w.node.count())
		}
	})
	inWorld(t, func(t *testing.T, w *world) {
		for i := range 3 {
			if h := sendTo(w, onQuiet, comment{"ada", fmt.Sprint(i)}); h != nil {
				t.Errorf("event %d of a Debounce answers %+v", i, h)
			}
		}
		pass(5*time.Second - 1)
		if got := w.node.count() + w.node.buffered(); got != 3 {
			t.Errorf("%d events and runs before the window is over, want the 3 events", got)
		}
		pass(1)
		if w.node.count() != 1 || w.batchOf(0).Count != 3 {
			t.Errorf("%d runs", w.node.count())
		}
	})
}

// TestS76ReplyLost: an event whose answer is lost is sent again with the id that was drawn
// for it, so it counts once and the window doesn't move; another event has another id.
func TestS76ReplyLost(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		wf := pyrula.Define("digest", digestOf, pyrula.Collect{Key: "user_id", MaxEvents: 100, Window: 5 * time.Second})
		w.net.setFault(func(c call) fault { return fault{cut: c.path == eventsPath && c.nth <= 3} })
		sendTo(w, wf, comment{"ada", "once"})
		sent := w.net.to(eventsPath)
		var ids []string
		for _, c := range sent {
			ids = append(ids, c.header.Get("Idempotency-Key"))
		}
		if len(sent) != 4 || ids[0] == "" || len(slices.Compact(slices.Clone(ids))) != 1 {
			t.Fatalf("ids %q, want one id four times", ids)
		}
		pass(5*time.Second - sent[3].at + sent[0].at)
		if w.node.count() != 1 || w.batchOf(0).Count != 1 {
			t.Fatalf("%d runs, %+v; want one of one event, a window after its first sending", w.node.count(), w.node.runs)
		}
		sendTo(w, wf, comment{"ada", "once"})
		if last := w.net.to(eventsPath)[4].header.Get("Idempotency-Key"); last == ids[0] || w.node.buffered() != 1 {
			t.Errorf("a second call has the id %q, like the first", last)
		}
	})
}

// TestS76EventIDOfTheCaller: with an id of the caller's own two programs that send one
// event count it once, and the repeat of the event that filled a batch names the same run.
func TestS76EventIDOfTheCaller(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, other := w.another()
		sendTo(w, inThrees, comment{"ada", "1"}, pyrula.EventID("d-1"))
		if h, err := pyrula.Trigger(w.Context(), other, inThrees, comment{"ada", "1"}, pyrula.EventID("d-1")); h != nil || err != nil {
			t.Errorf("the repeat answers %+v, %v", h, err)
		}
		if w.node.buffered() != 1 {
			t.Errorf("%d events, want 1", w.node.buffered())
		}
		sendTo(w, inThrees, comment{"ada", "2"}, pyrula.EventID("d-2"))
		first := sendTo(w, inThrees, comment{"ada", "3"}, pyrula.EventID(`d "3"\`))
		again := sendTo(w, inThrees, comment{"ada", "3"}, pyrula.EventID(`d "3"\`))
		if first == nil || again == nil || first.ID != again.ID || w.node.count() != 1 || w.node.buffered() != 0 {
			t.Errorf("%+v and %+v, %d runs and %d events", first, again, w.node.count(), w.node.buffered())
		}
		sent := len(w.net.to(eventsPath))
		for _, id := range []string{"", "naïve", "a\n", strings.Repeat("x", 257)} {
			if _, err := w.client.Trigger(w.Context(), "digest", comment{}, pyrula.EventID(id)); !errors.Is(err, pyrula.ErrInvalid) {
				t.Errorf("id %q: %v", id, err)
			}
		}
		if len(w.net.to(eventsPath)) != sent {
			t.Error("an id that can't be right was sent")
		}
		sendTo(w, inThrees, comment{"bob", "1"}, pyrula.EventID(strings.Repeat("x", 256)))
	})
}

// TestP20_P60FunctionKeysOfEvents: a function key is computed by the sender, whatever text
// it gives, and goes with the event; one that fails sends nothing. By name the caller gives
// the key, and without it the node refuses.
func TestP20_P60FunctionKeysOfEvents(t *testing.T) {
	cause := errors.New("no region")
	keyed := func(key any) *pyrula.Workflow[pyrula.Batch[comment], digest] {
		return pyrula.Define("digest", digestOf, pyrula.Collect{Key: key, MaxEvents: 1, Window: time.Minute})
	}
	byUser := keyed(func(c comment) string { return c.UserID })
	inWorld(t, func(t *testing.T, w *world) {
		for why, key := range map[string]any{
			"panicked: oh no": func(comment) string { panic("oh no") },
			"no region":       func(comment) (string, error) { return "eu", cause },
			"at most 1024":    commentKey(func(comment) string { return strings.Repeat("k", 1025) }),
			"must be UTF-8":   func(comment) string { return "a\xff" },
		} {
			_, err := pyrula.Trigger(w.Context(), w.client, keyed(key), comment{})
			refusedFor(t, err, "trigger.collect.key", why)
		}
		if n := len(w.net.to(eventsPath)) + len(w.net.to("/v1/workflows/digest")); n != 0 {
			t.Fatalf("%d requests were sent for keys that can't be computed", n)
		}
		for i, key := range []string{"ada", "", " a/b?c%20 ", "\"quoted\"", "café\n\x00", strings.Repeat("k", 1024)} {
			sendTo(w, byUser, comment{UserID: key})
			if b := w.batchOf(i); b.Key != key || b.Events[0].UserID != key {
				t.Errorf("key %q arrived as %q", key, b.Key)
			}
		}
		made := w.node.count()
		if _, err := w.client.Trigger(w.Context(), "digest", comment{"ada", ""}); !errors.Is(err, pyrula.ErrConfiguration) || errors.Is(err, pyrula.ErrUnknownWorkflow) {
			t.Errorf("by name without a key: %v", err)
		}
		if _, err := w.client.Trigger(w.Context(), "digest", comment{"ada", ""}, pyrula.EventKey("a\xff")); !errors.Is(err, pyrula.ErrInvalid) {
			t.Errorf("a key that isn't UTF-8: %v", err)
		}
		if w.node.count() != made {
			t.Error("an event was taken without its key")
		}
		if h, err := w.client.Trigger(w.Context(), "digest", comment{"ada", ""}, pyrula.EventKey("bob")); err != nil || h == nil || w.batchOf(made).Key != "bob" {
			t.Errorf("by name with a key: %+v, %v", h, err)
		}
	})
	// A key that the node resolves is the node's alone.
	inWorld(t, func(t *testing.T, w *world) {
		if _, err := pyrula.Trigger(w.Context(), w.client, inThrees, comment{}, pyrula.EventKey("bob")); !errors.Is(err, pyrula.ErrConfiguration) {
			t.Errorf("a key beside one by name: %v", err)
		}
	})
}

// TestP75EventsWithoutATrigger: an event by name for a workflow that nobody has declared is
// both not found and a configuration error, one for a workflow without a trigger the
// latter alone; the typed call declares the workflow first (P16), also when the node has
// forgotten it.
func TestP75EventsWithoutATrigger(t *testing.T) {
	plain := pyrula.Define("plain", digestOf)
	inWorld(t, func(t *testing.T, w *world) {
		_, err := w.client.Trigger(w.Context(), "digest", comment{})
		if !errors.Is(err, pyrula.ErrUnknownWorkflow) || !errors.Is(err, pyrula.ErrConfiguration) {
			t.Errorf("an unknown workflow: %v", err)
		}
		_, err = w.client.TriggerBatch(w.Context(), "digest", []any{comment{}, comment{}})
		if !errors.Is(err, pyrula.ErrUnknownWorkflow) || !errors.Is(err, pyrula.ErrConfiguration) {
			t.Errorf("many for an unknown workflow: %v", err)
		}
		_, err = pyrula.Trigger(w.Context(), w.client, plain, comment{})
		refusedFor(t, err, "trigger", "must be declared")
		if _, err := w.client.Declare(w.Context(), plain); err != nil {
			t.Fatal(err)
		}
		_, err = w.client.Trigger(w.Context(), "plain", comment{})
		if !errors.Is(err, pyrula.ErrConfiguration) || errors.Is(err, pyrula.ErrUnknownWorkflow) {
			t.Errorf("a workflow without a trigger: %v", err)
		}
		broken := pyrula.Define("digest", digestOf, pyrula.Debounce{})
		if _, err := pyrula.Trigger(w.Context(), w.client, broken, comment{}); !errors.Is(err, pyrula.ErrConfiguration) || err.Error() != broken.Err().Error() {
			t.Errorf("a wrong declaration: %v", err)
		}
		sendTo(w, inThrees, comment{UserID: "ada"})
		w.node.mu.Lock()
		clear(w.node.declared)
		w.node.mu.Unlock()
		sendTo(w, inThrees, comment{UserID: "ada"})
		if n := w.node.buffered(); n != 2 {
			t.Errorf("%d events, want 2", n)
		}
	})
}

// TestP70BufferFullIsWaitedForWithinReason: an event for a full buffer is sent again when
// the node says that there is room, unless that takes longer than requests are repeated.
func TestP70BufferFullIsWaitedForWithinReason(t *testing.T) {
	for _, c := range []struct {
		room time.Duration
		full int
		want int // requests
		err  error
	}{
		{time.Second, 1, 2, nil},
		{4 * time.Second, 2, 3, nil},
		{4 * time.Second, 9, 4, pyrula.ErrBufferFull}, // after 12 s the next wait would end behind the 15
		{time.Minute, 1, 1, pyrula.ErrBufferFull},
		{0, 3, 4, nil}, // due, and without a worker: asked again after a second or two
	} {
		inWorld(t, func(t *testing.T, w *world) {
			if _, err := w.client.Declare(w.Context(), inThrees); err != nil {
				t.Fatal(err)
			}
			w.node.full, w.node.roomIn = c.full, c.room
			began := time.Now()
			_, err := w.client.Trigger(w.Context(), "digest", comment{UserID: "ada"})
			sent, waited := len(w.net.to(eventsPath)), time.Since(began)
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) || sent != c.want || waited < time.Duration(sent-1)*c.room || waited > pyrula.DefaultRetryFor {
				t.Errorf("%d refusals, room in %v: %v after %d requests and %v", c.full, c.room, err, sent, waited)
			}
			if refused, ok := errors.AsType[*pyrula.APIError](err); c.err != nil && (!ok || refused.RetryAfter() != max(c.room, time.Second) || refused.Problem.Key != "ada") {
				t.Errorf("room in %v: the error says %+v", c.room, refused)
			}
			if n := w.node.buffered(); (n == 1) != (c.err == nil) {
				t.Errorf("%d events are buffered", n)
			}
		})
	}
}

// TestR22BatchOfEvents: many events go in one request, each has its own result in its place,
// and the repeat for a lost answer counts none twice.
func TestR22BatchOfEvents(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		if _, err := w.client.Declare(w.Context(), inThrees); err != nil {
			t.Fatal(err)
		}
		w.net.setFault(func(c call) fault { return fault{cut: c.path == eventsPath && c.nth == 1} })
		w.node.full = 0
		events := []any{
			comment{"ada", "1"}, json.RawMessage(`{"user_id":"bob","text":"multi\u2028 <line>"}`), map[string]any{"user_id": "ada", "text": "a\nb"}, comment{"ada", "3"}, comment{"ada", "4"},
		}
		got, err := w.client.TriggerBatch(w.Context(), "digest", events)
		if err != nil || len(got) != len(events) {
			t.Fatalf("%+v, %v", got, err)
		}
		for i, r := range got {
			if r.Err != nil || (r.RunID != "") != (i == 3) {
				t.Errorf("event %d: %+v", i, r)
			}
		}
		if b := w.batchOf(0); got[3].RunID != w.node.run(0).id || b.Count != 3 || b.Events[1].Text != "a\nb" || w.node.buffered() != 2 || w.node.count() != 1 {
			t.Errorf("the run is %+v, %d events are left", b, w.node.buffered())
		}
		sent := w.net.to(eventsPath)
		if len(sent) != 2 || sent[0].header.Get("Content-Type") != wire.ContentNDJSON || strings.Count(string(sent[0].body), "\n") != len(events) {
			t.Errorf("sent %d requests, %s", len(sent), sent[0].body)
		}
		w.node.full = 1
		got, err = w.client.TriggerBatch(w.Context(), "digest", events[:2], pyrula.EventID("mine"))
		if err != nil || !errors.Is(got[0].Err, pyrula.ErrBufferFull) || got[1].Err != nil {
			t.Errorf("%+v, %v; want the first refused alone", got, err)
		}
		again, err := w.client.TriggerBatch(w.Context(), "digest", events[:2], pyrula.EventID("mine"))
		if err != nil || again[0].Err != nil || again[1].Err != nil || w.node.buffered() != 4 {
			t.Errorf("%+v, %v with %d events; want the refused one taken and the other known", again, err, w.node.buffered())
		}
	})
}

// TestR22BatchThatCantBeRight: a batch with an event that can't be right isn't sent, and
// the error names the event.
func TestR22BatchThatCantBeRight(t *testing.T) {
	event := func(bytes int) any { return comment{Text: strings.Repeat("x", bytes-len(`{"user_id":"","text":""}`))} }
	const most = 768<<10 - 512
	inWorld(t, func(t *testing.T, w *world) {
		if _, err := w.client.Declare(w.Context(), inThrees); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			events []any
			err    error
			says   string
		}{
			{nil, pyrula.ErrInvalid, "1 to 1000 events"},
			{slices.Repeat([]any{comment{}}, 1001), pyrula.ErrInvalid, "1 to 1000 events"},
			{[]any{comment{}, 7}, pyrula.ErrInvalid, "events[1]: "},
			{[]any{comment{}, nil}, pyrula.ErrInvalid, "events[1]: "},
			{[]any{func() {}}, pyrula.ErrInvalid, "events[0]: "},
			{[]any{event(most + 1)}, pyrula.ErrTooLarge, "events[0]: "},
			{[]any{event(most), event(1<<20 - most - 1)}, pyrula.ErrTooLarge, "events[1]: "},
		} {
			if _, err := w.client.TriggerBatch(w.Context(), "digest", c.events); !errors.Is(err, c.err) || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("%v, want %v that says %q", err, c.err, c.says)
			}
		}
		if _, err := w.client.Trigger(w.Context(), "digest", event(most+1)); !errors.Is(err, pyrula.ErrTooLarge) {
			t.Errorf("a single event that is too large: %v", err)
		}
		if n := len(w.net.to(eventsPath)); n != 0 {
			t.Errorf("%d requests were sent", n)
		}
		// At its bounds a batch is legal: the two line ends count.
		got, err := w.client.TriggerBatch(w.Context(), "digest", []any{event(most), event(1<<20 - most - 2)})
		if err != nil || got[0].Err != nil || got[1].Err != nil {
			t.Errorf("a full body: %+v, %v", got, err)
		}
		if got, err = w.client.TriggerBatch(w.Context(), "digest", slices.Repeat([]any{comment{"bob", ""}}, 1000)); err != nil || len(got) != 1000 {
			t.Errorf("1,000 events: %d results, %v", len(got), err)
		}
	})
}

// TestBadAnswerToABatch: results that aren't one for each event are an unreadable answer.
func TestBadAnswerToABatch(t *testing.T) {
	for _, answer := range []string{"", `{"run_id":null}`, `{"run_id":null}` + "\n{", "[]\n[]", `{"run_id":null}{"run_id":null}{"run_id":null}`} {
		inWorld(t, func(t *testing.T, w *world) {
			w.net.setFault(func(c call) fault { return fault{answer: &answer} })
			if got, err := w.client.TriggerBatch(w.Context(), "digest", []any{comment{}, comment{}}); !errors.Is(err, pyrula.ErrBadAnswer) {
				t.Errorf("%q: %+v, %v", answer, got, err)
			}
		})
	}
}
