package keyactor

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/pyrula/pyrula-node/flow"
)

// TestS06StartRacesEndAtRandom: completions, submits and claims in any order. At rest
// nobody waits beside a free slot and credit. The six orders of three stand in the
// transcript.
func TestS06StartRacesEndAtRandom(t *testing.T) {
	dice := rand.New(rand.NewPCG(6, 6))
	p := newPlayer(t)
	p.submit(limited("a", 2))
	submitted := 1
	for trial := range 20_000 {
		switch dice.IntN(3) {
		case 0:
			p.submit(limited("a", 2))
			submitted++
		case 1:
			p.credit++
		case 2:
			for _, h := range p.live.key(keyOf("a")).View(p.now).Holders {
				p.ends(flow.RecCompleted, h.Run)
				break
			}
		}
		p.dispatch()
		v := p.live.key(keyOf("a")).View(p.now)
		if p.credit > 0 && v.Used < 2 && v.Queue > 0 {
			t.Fatalf("trial %d: %d wait beside a free slot and %d credit", trial, v.Queue, p.credit)
		}
		if submitted%200 == 0 { // what has ended is of no use to the watch
			p.live.tenant[keyOf("a")] = alive(p.live.tenant[keyOf("a")])
		}
	}
}

func alive(runs []*fakeRun) (left []*fakeRun) {
	for _, r := range runs {
		if !r.status.Ended() {
			left = append(left, r)
		}
	}
	return left
}

// TestS81IdleKeyStartsARunInOneTurn: no tick and no second message is needed, before
// and after the key was passivated.
func TestS81IdleKeyStartsARunInOneTurn(t *testing.T) {
	p := newPlayer(t)
	for range 3 {
		a := p.submit(both(limited("a", 1), rated("a", second, 1)))
		if d, ok := p.live.key(keyOf("a")).Due(p.now); ok {
			t.Fatalf("a run that only waits for credit is due at %d", d.At)
		}
		wantRuns(t, "at once", p.offerAll(keyOf("a")), a)
		p.ends(flow.RecCompleted, a)
		p.advance(p.now.Add(second))
		(&model{world: p.world}).passivate(nil)
		if len(p.live.keys) != 0 {
			t.Fatal("an idle key is remembered")
		}
	}
}

// TestS36ReadsRestartsAndPassivationRefillNothing: the bucket gives the same starts
// however often the key is read, forgotten and brought back.
func TestS36ReadsRestartsAndPassivationRefillNothing(t *testing.T) {
	p := newPlayer(t)
	rule := flow.RuleOfRate(flow.Rate{PerSecond: 3, Burst: 3})
	for range 200 {
		p.submit(rated("a", rule.Interval, rule.Burst))
	}
	started := 0
	for step := range 101 { // every 100 ms up to 10 s
		started += len(p.offerAll(keyOf("a")))
		if most := 3 + 3*step/10; started > most {
			t.Fatalf("%d starts by %d ms, at most %d", started, step*100, most)
		}
		if v := p.live.key(keyOf("a")).View(p.now); v.Tokens != 0 {
			t.Fatalf("%d tokens are shown beside a queue", v.Tokens)
		}
		if step%10 == 9 {
			p.restoreAll(t)
		}
		(&model{world: p.world}).passivate(nil)
		p.advance(p.now.Add(100 * milli))
	}
	if started != 32 && started != 33 {
		t.Fatalf("%d starts in 10 s", started)
	}
}

// TestP2ForeignInputIsRefused: what isn't a key's is refused and changes nothing.
func TestP2ForeignInputIsRefused(t *testing.T) {
	w := testWorld(t)
	w.submit(limited("a", 1))
	k := w.live.key(keyOf("a"))
	for _, kind := range []flow.InputKind{0, flow.InSubmit, flow.InCreate, 255} {
		var out flow.Out
		k.Step(w.now, &flow.Input{Kind: kind}, &out)
		if !errors.Is(out.Err, flow.ErrUnsupported) || len(out.Records)+len(out.Effects) != 0 {
			t.Errorf("input %v: %v", kind, out.Err)
		}
	}
	var out flow.Out
	if k.Resume(w.now, &out); len(out.Effects)+len(out.Records) != 0 {
		t.Errorf("a key owes something after a replay: %v", out)
	}
}
