package inline_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// apart are keys of a workflow that lie in as many different shards.
func apart(workflow string, n int) (keys []string) {
	const shards = 16
	taken := map[flow.Partition]bool{}
	for i := 0; len(keys) < n; i++ {
		k := flow.KeyID{Workflow: workflow, Value: strconv.Itoa(i)}
		if p := k.Partition() % shards; !taken[p] {
			taken[p] = true
			keys = append(keys, k.Value)
		}
	}
	return keys
}

// TestS27HoldWhoseRunIsGone fails when a run that is cancelled while its token is under
// way between two shards leaves a slot taken or a token lost, starts, or costs more and
// more entries.
func TestS27HoldWhoseRunIsGone(t *testing.T) {
	scenario(t, func(s *stage) {
		s.open(0)
		s.declare("sync", `{"version":"1","limit":{"key":"x","max":1},"rate":{"key":"y","per_second":1000,"burst":5}}`)
		keys := apart("sync", 2)
		params := fmt.Sprintf(`{"x":%q,"y":%q}`, keys[0], keys[1])
		const rounds = 200
		var entries [2]int
		for round := range rounds {
			a := s.send("sync", params)
			claim := s.claiming(asks{credit: 1})
			for range round % 4 { // let the messages get on their way
				s.yield()
			}
			s.must(s.client.Cancel(s.Context(), a, "enough"))
			for _, g := range claim.get(s).Runs {
				if got := s.completing(g).get(s); got.Status != "cancelled" {
					s.Fatalf("round %d: after its cancel it is %s", round, got.Status)
				}
			}
			s.is(a, "cancelled")
			b := s.send("sync", params)
			got := s.claiming(asks{credit: 1, wait: time.Second}).get(s).Runs
			s.granted(got, b)
			s.complete(got[0])
			if k := s.key("sync", keys[0]); k.Used != 0 || k.Queued != 0 {
				s.Fatalf("round %d: %+v", round, k)
			}
			s.pass(10 * time.Millisecond)
			if k := s.key("sync", keys[1]); k.Queued != 0 || k.Rate.Tokens != 5 {
				s.Fatalf("round %d: %+v %+v", round, k, k.Rate)
			}
			entries[round*2/rounds] = s.entries()
		}
		if first, second := entries[0], entries[1]-entries[0]; second > first+first/10 {
			s.Errorf("the second half wrote %d entries, the first %d", second, first)
		}
	})
}

// TestS27S15CancelledWhileItWaitsForAToken fails when a run that is cancelled while it
// stands at a Rate of another shard stays there as a ghost.
func TestS27S15CancelledWhileItWaitsForAToken(t *testing.T) {
	scenario(t, func(s *stage) {
		s.open(0)
		s.declare("sync", `{"version":"1","limit":{"key":"x","max":1},"rate":{"key":"y","per_second":0.1,"burst":1}}`)
		keys := apart("sync", 3)
		params := func(x, y string) string { return fmt.Sprintf(`{"x":%q,"y":%q}`, x, y) }
		s.send("sync", params(keys[1], keys[2]))
		first := s.claiming(asks{credit: 1, wait: time.Second}).get(s).Runs // takes the token
		if len(first) != 1 {
			s.Fatal("nobody has started")
		}
		a := s.send("sync", params(keys[0], keys[2]))
		claim := s.claiming(asks{credit: 1, wait: 20 * time.Second})
		s.until(5 * time.Second)
		if k := s.key("sync", keys[2]); k.Queued != 1 {
			s.Fatalf("the Rate's key: %+v", k)
		}
		s.must(s.client.Cancel(s.Context(), a, "enough"))
		s.settle()
		if k := s.key("sync", keys[2]); k.Queued != 0 {
			s.Errorf("the Rate's key after the cancel: %+v", k)
		}
		s.used("sync", keys[0], 0)
		b := s.send("sync", params(keys[0], keys[2]))
		got := claim.get(s).Runs
		s.granted(got, b)
		if s.at() < 10*time.Second || s.at() > 10*time.Second+shown {
			s.Errorf("it started at %v, want 10 s", s.at())
		}
		s.completing(wire.Grant{RunID: a, Fence: got[0].Fence}).refused(s, wire.CodeRunEnded)
	})
}
