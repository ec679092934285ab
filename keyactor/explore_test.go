package keyactor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/flow"
)

// scene is a small world in which every order of what can happen is played.
type scene struct {
	*world
	runs []flow.RunID
}

// act does one thing if it can be done now. The names are the whole alphabet.
func (s *scene) act(name string) bool {
	switch name {
	case "offer x":
		if s.live.key(keyX).Ready(s.now) == 0 {
			return false
		}
		s.offer(keyX)
	case "offer y":
		if s.live.key(keyY).Ready(s.now) == 0 {
			return false
		}
		s.offer(keyY)
	case "letter to y":
		return s.letter(toY, 0)
	case "token":
		return s.letter(toX, flow.FlagCredit)
	case "token without credit":
		return s.letter(toX, 0)
	case "cancel first":
		if s.run(s.runs[0]).status != flow.StatusQueued {
			return false
		}
		s.leave(s.runs[0], flow.RecCancelled)
	case "complete":
		for _, id := range s.runs {
			if s.run(id).status == flow.StatusExecuting {
				s.ends(flow.RecCompleted, id)
				return true
			}
		}
		return false
	case "time":
		due, ok := s.due()
		if !ok {
			return false
		}
		s.advance(due)
	}
	return true
}

func (s *scene) letter(c channel, credit flow.Flags) bool {
	if len(s.mail[c]) == 0 {
		return false
	}
	s.deliver(c, credit)
	return true
}

// state names what the future depends on.
func (s *scene) state() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d\n%s%s", s.now, s.live.key(keyX).Fingerprint(), s.live.key(keyY).Fingerprint())
	for _, c := range []channel{toY, toX} {
		for _, in := range s.mail[c] {
			fmt.Fprintf(&b, "%v %v %d %d %d\n", in.Kind, in.Run, in.Before, in.After, in.Flags)
		}
	}
	for _, id := range s.runs {
		fmt.Fprintf(&b, "%v %v\n", s.run(id).status, s.watch.passed[id])
	}
	return b.String()
}

// drains: from here everything comes to its end, with a bounded number of letters.
func (s *scene) drains(t *testing.T, path []string) {
	t.Helper()
	letters, offers := s.letters, s.offers
	for round := 0; ; round++ {
		moved := false
		for _, name := range []string{"letter to y", "token", "offer x", "offer y", "complete"} {
			for s.act(name) {
				moved = true
			}
		}
		if !moved && !s.act("time") {
			break
		}
		if round > 200 {
			t.Fatalf("%v: never ends\n%s", path, s)
		}
	}
	for i, id := range s.runs {
		if r := s.run(id); r.status != flow.StatusCompleted && r.status != flow.StatusCancelled {
			t.Fatalf("%v: run %d is %v at the end\n%s", path, i, r.status, s)
		}
	}
	if sent := s.letters - letters; sent > 4*(len(s.runs)+s.offers-offers) {
		t.Fatalf("%v: %d letters for %d offers", path, sent, s.offers-offers)
	}
	for _, k := range s.live.keys {
		if !k.Idle(s.now) {
			t.Fatalf("%v: something is left:\n%s", path, k.Fingerprint())
		}
	}
}

// explore plays every sequence of actions up to a length, each state once.
func explore(t *testing.T, begin func() *scene, alphabet []string, length int) int {
	t.Helper()
	seen := map[string]bool{begin().state(): true}
	paths := [][]string{nil}
	for range length {
		var next [][]string
		for _, path := range paths {
			for _, name := range alphabet {
				s := begin()
				for _, done := range path {
					s.act(done)
				}
				if !s.act(name) || seen[s.state()] {
					continue
				}
				seen[s.state()] = true
				longer := append(append([]string(nil), path...), name)
				s.drains(t, longer)
				next = append(next, longer)
			}
		}
		paths = next
	}
	return len(seen)
}

// TestR4_S27EveryOrder: a run asks elsewhere for its token, another competes for its
// slot, a third for its token, and the first may be cancelled at any point.
func TestR4_S27EveryOrder(t *testing.T) {
	asks := apart(1, second, 1)
	scenes := []struct {
		name   string
		stamps []*flow.Stamp
		length int
	}{
		{"two that ask", []*flow.Stamp{asks, asks}, 8},
		{"one that asks, one that doesn't", []*flow.Stamp{asks, limited("x", 1)}, 8},
		{"one of each", []*flow.Stamp{apart(2, second, 1), rated("y", second, 1), limited("x", 2)}, 7},
	}
	alphabet := []string{"offer x", "offer y", "letter to y", "token", "token without credit", "cancel first", "complete", "time"}
	for _, c := range scenes {
		t.Run(c.name, func(t *testing.T) {
			states := explore(t, func() *scene {
				s := &scene{world: testWorld(t)}
				s.light = true
				for _, stamp := range c.stamps {
					s.runs = append(s.runs, s.submit(stamp))
				}
				return s
			}, alphabet, c.length)
			if states < 100 {
				t.Errorf("only %d states were seen", states)
			}
		})
	}
}

// TestS27CancelledWhileTheTokenIsUnderWay, a thousand times: the late token starts
// nothing, goes back, and the letters of each run are counted.
func TestS27CancelledWhileTheTokenIsUnderWay(t *testing.T) {
	w := testWorld(t)
	w.light = true
	for i := range 1_000 {
		letters, a := w.letters, w.submit(apart(1, second, 1))
		w.offer(keyX)
		w.deliver(toY, 0) // the token is under way
		b := w.submit(limited("x", 1))
		w.leave(a, flow.RecCancelled)
		w.deliver(toX, flow.FlagCredit)
		w.deliverAll(flow.FlagCredit)
		if r := w.run(a); r.status != flow.StatusCancelled || r.started {
			t.Fatalf("round %d: a is %v, started %t", i, r.status, r.started)
		}
		wantRuns(t, "b starts", w.offerAll(keyX), b)
		if sent := w.letters - letters; sent != 4 { // want, token, unwant, unused
			t.Fatalf("round %d: %d letters", i, sent)
		}
		if v := w.live.key(keyY).View(w.now); (v.Burst != 0 && v.Tokens != 1) || v.Wants != 0 {
			t.Fatalf("round %d: %d tokens and %d wants are left", i, v.Tokens, v.Wants)
		}
		w.ends(flow.RecCompleted, b)
		w.live.tenant = make(map[flow.KeyID][]*fakeRun) // all have ended
	}
}

// TestR4AskingWithoutCreditCostsAConstant: each offer makes at most one round of
// letters, however often tokens come for nothing.
func TestR4AskingWithoutCreditCostsAConstant(t *testing.T) {
	w := testWorld(t)
	w.light = true
	w.submit(apart(1, milli, 1))
	for i := range 1_000 {
		letters := w.letters
		w.offer(keyX)
		w.deliverAll(0)
		if sent := w.letters - letters; sent > 3 {
			t.Fatalf("offer %d made %d letters", i, sent)
		}
		w.advance(w.now.Add(milli))
	}
}
