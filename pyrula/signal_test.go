package pyrula_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

// TestS92SignalsBeforeTheWait: signals that came right after the submit, and while the
// body worked, are kept; each wait gets the oldest of its name, whatever JSON it is.
// What was kept when the body was granted is got without a suspension.
func TestS92SignalsBeforeTheWait(t *testing.T) {
	inRealWorld(t, func(t *testing.T, w *world) {
		working := make(chan struct{})
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) ([]string, error) {
			if r.Fence != 0 && o.ID == "slow" {
				<-working
			}
			var got []string
			for _, name := range []string{"b", "a", "a", "b", "a"} {
				s, err := r.WaitSignal(name, 0)
				if err != nil {
					return nil, err
				}
				if s.Name != name {
					t.Errorf("a wait for %s got a signal %s", name, s.Name)
				}
				got = append(got, name+string(s.Payload))
			}
			return got, nil
		})
		if _, err := w.client.Declare(t.Context(), wf); err != nil {
			t.Fatal(err)
		}
		send := func(id string) {
			w.mustSignal(id, "a", 1)
			w.mustSignal(id, "a", nil)
			w.mustSignal(id, "b", map[string]string{"x": "y"})
			w.mustSignal(id, "a", "three")
			w.mustSignal(id, "b", []int{})
			w.mustSignal(id, "other", 1)
		}
		want := []string{`b{"x":"y"}`, "a1", "anull", "b[]", `a"three"`}
		early := start(w, wf, order{})
		send(early.ID)
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		if got, err := early.Result(t.Context()); err != nil || !slices.Equal(got, want) {
			t.Errorf("result %q, %v, want %q", got, err, want)
		}
		if n := len(w.sent(early.ID, "suspend")); n != 0 {
			t.Errorf("%d suspensions for signals that were kept", n)
		}
		slow := start(w, wf, order{ID: "slow"})
		synctest.Wait()
		send(slow.ID)
		close(working)
		if got, err := slow.Result(t.Context()); err != nil || !slices.Equal(got, want) {
			t.Errorf("result %q, %v, want %q", got, err, want)
		}
		k.end()
	})
}

// TestS91WaitThatTimesOut: the wait ends with ErrSignalTimeout, in the first run of the
// body behind it and in every later one; the next signal goes to the next wait.
func TestS91WaitThatTimesOut(t *testing.T) {
	inRealWorld(t, func(t *testing.T, w *world) {
		var c tally
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			began := time.Now()
			if _, err := r.WaitSignal("x", 3*time.Second); !errors.Is(err, pyrula.ErrSignalTimeout) {
				return "", fmt.Errorf("the first wait gave %w after %v", err, time.Since(began))
			}
			c.add("timeouts seen")
			got, err := pyrula.WaitSignal[int](r, "x", time.Hour)
			if err != nil {
				return "", err
			}
			if err := r.Sleep(time.Second); err != nil {
				return "", err
			}
			return fmt.Sprint(got), nil
		})
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		h := start(w, wf, order{})
		pass(2 * time.Second)
		if got := c.of("timeouts seen"); got != 0 {
			t.Errorf("the wait timed out early")
		}
		pass(2 * time.Second)
		w.wantStatus("suspended", h.ID)
		w.mustSignal(h.ID, "x", 7)
		if got, err := h.Result(t.Context()); err != nil || got != "7" {
			t.Errorf("result %q, %v", got, err)
		}
		if got := c.of("timeouts seen"); got != 3 {
			t.Errorf("the timeout was seen %d times, want each run of the body to see it", got)
		}
		if got := w.history(h.ID); !slices.Equal(got, []string{"signal x/1", "signal x/2", "moment sleep/1"}) {
			t.Errorf("history %q", got)
		}
		k.end()
	})
}

// TestS95WaitForAnother: neither the signal nor the timer of a wait that is over ends the
// next one; the signal is kept for who asks for it.
func TestS95WaitForAnother(t *testing.T) {
	inRealWorld(t, func(t *testing.T, w *world) {
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			if _, err := r.WaitSignal("one", time.Second); !errors.Is(err, pyrula.ErrSignalTimeout) {
				return "", fmt.Errorf("one: %w", err)
			}
			two, err := pyrula.WaitSignal[string](r, "two", 0)
			if err != nil {
				return "", err
			}
			one, err := pyrula.WaitSignal[string](r, "one", -1)
			return two + " " + one, err
		})
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		h := start(w, wf, order{})
		pass(5 * time.Second)
		w.mustSignal(h.ID, "one", "late")
		pass(time.Hour)
		w.wantStatus("suspended", h.ID)
		w.mustSignal(h.ID, "two", "now")
		if got, err := h.Result(t.Context()); err != nil || got != "now late" {
			t.Errorf("result %q, %v", got, err)
		}
		k.end()
	})
}

// TestWaitThatDoesNotWait: less than no timeout asks for what is kept. That there was
// nothing is recorded: what comes later goes to a later wait.
func TestWaitThatDoesNotWait(t *testing.T) {
	inRealWorld(t, func(t *testing.T, w *world) {
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			if _, err := r.WaitSignal("x", -time.Second); !errors.Is(err, pyrula.ErrSignalTimeout) {
				return "", fmt.Errorf("nothing was kept: %w", err)
			}
			if err := r.Sleep(time.Minute); err != nil {
				return "", err
			}
			s, err := pyrula.WaitSignal[string](r, "x", -1)
			if err != nil {
				return "", err
			}
			if _, err := r.WaitSignal("x", -1); !errors.Is(err, pyrula.ErrSignalTimeout) {
				return "", fmt.Errorf("one was kept: %w", err)
			}
			return s, r.Sleep(time.Second)
		})
		began := time.Now()
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		h := start(w, wf, order{})
		pass(time.Second)
		w.mustSignal(h.ID, "x", "kept")
		if got, err := h.Result(t.Context()); err != nil || got != "kept" || time.Since(began) > 2*time.Minute {
			t.Errorf("result %q, %v after %v", got, err, time.Since(began))
		}
		k.end()
	})
}

// TestS100FailureOnASignal: a body that fails on a signal is given it again by each
// attempt.
func TestS100FailureOnASignal(t *testing.T) {
	inRealWorld(t, func(t *testing.T, w *world) {
		var c tally
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (string, error) {
			got, err := pyrula.WaitSignal[string](r, "x", 0)
			if err != nil {
				return "", err
			}
			if c.add("got "+got) < 3 {
				panic("on " + got)
			}
			return pyrula.Step(r, "handle", c.handler(got))
		}, pyrula.MaxAttempts(3), pyrula.RetryBackoff(time.Second))
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		h := start(w, wf, order{})
		pass(time.Second)
		w.mustSignal(h.ID, "x", "first")
		w.mustSignal(h.ID, "x", "second")
		if got, err := h.Result(t.Context()); err != nil || got != "first" {
			t.Errorf("result %q, %v", got, err)
		}
		if c.of("got first") != 3 || c.of("got second") != 0 || w.status(h.ID).Attempt != 3 {
			t.Errorf("calls %v in %d attempts", c.calls, w.status(h.ID).Attempt)
		}
		k.end()
	})
}

// TestWaitForBadSignals: a name or a payload that can't be right fails the run, and names
// what is wrong; a timeout of thousands of years is one of a hundred.
func TestWaitForBadSignals(t *testing.T) {
	inRealWorld(t, func(t *testing.T, w *world) {
		wf := pyrula.Define("charge", func(r *pyrula.Run, o order) (int, error) {
			return pyrula.WaitSignal[int](r, o.ID, 1<<63-1)
		}, pyrula.MaxAttempts(3))
		k := w.work(w.client, pyrula.WorkerConfig{}, wf)
		for _, name := range []string{"", "a\nb", strings.Repeat("x", 129)} {
			h := start(w, wf, order{ID: name})
			wantFailed(t, h, "error", "signal's name")
			if got := w.status(h.ID).Attempt; got != 1 {
				t.Errorf("%d attempts for a name that no wait can have", got)
			}
		}
		h := start(w, wf, order{ID: "x"})
		pass(time.Second)
		w.wantStatus("suspended", h.ID)
		w.mustSignal(h.ID, "x", "no number")
		wantFailed(t, h, "error", `signal "x"`)
		k.end()
	})
}

// TestSignalIsSentOnce: however often a signal is sent for want of an answer it counts
// once, and each call is another one, unless it brings a key of its own.
func TestSignalIsSentOnce(t *testing.T) {
	inRealWorld(t, func(t *testing.T, w *world) {
		wf := pyrula.Define("charge", charge)
		h := start(w, wf, order{})
		w.net.setFault(func(c call) fault { return fault{cut: strings.Contains(c.path, "/signals/") && c.nth < 3} })
		first, err := h.Signal(t.Context(), "x", nil)
		if err != nil || first.Number != 1 || first.RunID != h.ID {
			t.Errorf("the first signal is %+v, %v", first, err)
		}
		if n := len(w.sent(h.ID, "signals/x")); n != 3 {
			t.Errorf("%d requests, want two repeats", n)
		}
		w.net.setFault(nil)
		if s, err := h.Signal(t.Context(), "x", nil); err != nil || s.Number != 2 || !s.Created {
			t.Errorf("the second is %+v, %v", s, err)
		}
		for i := range 3 {
			s, err := w.client.Signal(t.Context(), h.ID, "x", i, pyrula.SignalKey(`order "7" \ paid`))
			if err != nil || s.Number != 3 || s.Created != (i == 0) {
				t.Errorf("sent %d with a key: %+v, %v", i, s, err)
			}
		}
		if s, err := h.Signal(t.Context(), "a/b ü%", nil); err != nil || s.Number != 4 {
			t.Errorf("a name is only a name: %+v, %v", s, err)
		}
	})
}

// TestSignalIsRefused: what can't be right is refused before anything is sent, and what
// the node refuses has its sentinel.
func TestSignalIsRefused(t *testing.T) {
	inRealWorld(t, func(t *testing.T, w *world) {
		wf := pyrula.Define("charge", charge)
		h := start(w, wf, order{})
		before := len(w.net.calls)
		for _, one := range []struct {
			name    string
			payload any
			key     string
			want    error
		}{
			{name: "", want: pyrula.ErrInvalid},
			{name: "a\x00", want: pyrula.ErrInvalid},
			{name: "x", payload: func() {}, want: pyrula.ErrInvalid},
			{name: "x", payload: strings.Repeat("x", 1<<20), want: pyrula.ErrTooLarge},
			{name: "x", key: strings.Repeat("k", 65), want: pyrula.ErrInvalid},
			{name: "x", key: "ü", want: pyrula.ErrInvalid},
		} {
			options := []pyrula.SignalOption{}
			if one.key != "" {
				options = append(options, pyrula.SignalKey(one.key))
			}
			if _, err := h.Signal(t.Context(), one.name, one.payload, options...); !errors.Is(err, one.want) {
				t.Errorf("name %q, key %q: %v, want %v", one.name, one.key, err, one.want)
			}
		}
		if _, err := h.Signal(t.Context(), "x", nil, pyrula.SignalKey("")); !errors.Is(err, pyrula.ErrInvalid) {
			t.Errorf("an empty key: %v", err)
		}
		if sent := len(w.net.calls) - before; sent != 0 {
			t.Errorf("%d requests were sent", sent)
		}
		if err := h.Cancel(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Signal(t.Context(), "x", nil); !errors.Is(err, pyrula.ErrRunEnded) {
			t.Errorf("to a run that has ended: %v", err)
		}
		nobody := nobodyLike(h.ID)
		if _, err := w.client.Signal(t.Context(), nobody, "x", nil); !errors.Is(err, pyrula.ErrUnknownRun) {
			t.Errorf("to nobody: %v", err)
		}
		w.net.setFault(func(call) fault {
			return fault{problem: &wire.Problem{Status: http.StatusConflict, Code: wire.CodeHistoryTooLarge}}
		})
		if _, err := h.Signal(t.Context(), "x", nil); !errors.Is(err, pyrula.ErrHistoryTooLarge) {
			t.Errorf("to a run that keeps too much: %v", err)
		}
	})
}
