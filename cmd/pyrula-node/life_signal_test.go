package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"
)

const signalSenders = 3

// chase signals and reads one run by its first id while it is handed on.
type chase struct {
	s    *standing
	run  string
	over chan struct{} // closed when enough was sent

	mu     sync.Mutex // guards what follows
	acked  map[int][]int64
	faults []string
	lost   int // requests without an answer, sent again
}

func (c *chase) faultf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

// send makes a request until it is answered: the node may be killed meanwhile.
func (c *chase) send(client *http.Client, method, path, key, body string) (int, gjson.Result) {
	for {
		req, err := http.NewRequest(method, "http://"+c.s.addr+path, strings.NewReader(body))
		if err != nil {
			c.faultf("%v", err)
			return 0, gjson.Result{}
		}
		if key != "" {
			req.Header.Set("Idempotency-Key", key)
		}
		status, answer := do(client, req)
		if status != 0 && status != http.StatusServiceUnavailable {
			return status, answer
		}
		c.mu.Lock()
		c.lost++
		c.mu.Unlock()
		passes(retryPause)
	}
}

// signal sends numbered signals until it is enough, each until it is acknowledged.
func (c *chase) signal(sender int) {
	client := &http.Client{Timeout: patience, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for n := 0; ; n++ {
		select {
		case <-c.over:
			return
		default:
		}
		status, answer := c.send(client, http.MethodPost, "/v1/runs/"+c.run+"/signals/tick", fmt.Sprintf("tick-%d-%d", sender, n), fmt.Sprint(sender*1_000_000+n))
		if status != http.StatusAccepted {
			c.faultf("signal %d of sender %d: %d %s", n, sender, status, answer)
			return
		}
		c.mu.Lock()
		c.acked[sender] = append(c.acked[sender], answer.Get("number").Int())
		c.mu.Unlock()
		passes(signalPause)
	}
}

// read reads the run in a loop: it is always there, and never older than before.
func (c *chase) read() {
	client := &http.Client{Timeout: patience, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	newest := int64(0)
	for {
		select {
		case <-c.over:
			return
		default:
		}
		status, run := c.send(client, http.MethodGet, "/v1/runs/"+c.run, "", "")
		at := run.Get("stamped_version").Int()
		if status != http.StatusOK || run.Get("status").String() != "queued" || at < newest {
			c.faultf("after version %d the run reads %d %s", newest, status, run)
			return
		}
		newest = at
	}
}

// TestS88_S90_P32_P79SignalsOverHandOns fails when a run that is handed on again and
// again isn't found, or has ended, for somebody who signals or reads it by its first id;
// when an acknowledged signal doesn't arrive at the last successor, arrives twice, or in
// another order than its sender's; or when a version that claims once doesn't hand it on
// although its slot is taken. The node is killed on the way.
func TestS88_S90_P32_P79SignalsOverHandOns(t *testing.T) {
	s := newStanding(t)
	// The key of the Limit changes with each version, so each successor lives in another
	// shard than its predecessor. The slots of both keys are taken.
	declare := func(v int) {
		s.declare("chased", fmt.Sprintf(`{"version":"%d","limit":{"key":%q,"max":1},"rate":{"key":"t","per_second":%d},"lease_seconds":3600}`,
			v, []string{"t", "u"}[v%2], 1000+v))
	}
	claim := func(v int) gjson.Result {
		return s.must(200, http.MethodPost, "/v1/claims", fmt.Sprintf(
			`{"worker":"w%d","workflows":[{"name":"chased","version":"%d"}],"credit":1,"wait_ms":%d}`, v, v, s.patient)).Get("runs.0")
	}
	var takers []gjson.Result
	s.patient = patience.Milliseconds() / 2
	for v := range 2 {
		declare(v)
		s.submit("chased", `{"t":"a","u":"b"}`)
		takers = append(takers, claim(v))
	}
	s.patient = 0
	c := &chase{s: s, run: s.submit("chased", `{"t":"a","u":"b"}`), over: make(chan struct{}), acked: map[int][]int64{}}
	var wg sync.WaitGroup
	for sender := range signalSenders {
		wg.Go(func() { c.signal(sender) })
	}
	wg.Go(c.read)
	for v := 2; v <= handOns+1; v++ {
		declare(v)
		if granted := claim(v); granted.Exists() {
			t.Fatalf("version %d is granted %s beside the run that has the slot", v, granted)
		}
		s.eventually(fmt.Sprintf("the run is handed on to version %d", v), func() bool {
			return s.run(c.run).Get("stamped_version").Int() == int64(v)
		})
		if v%(handOns/4) == 0 {
			s.kill9()
		}
	}
	close(c.over)
	wg.Wait()
	for _, fault := range c.faults {
		t.Error(fault)
	}
	for _, taker := range takers {
		s.complete(taker)
	}
	s.patient = patience.Milliseconds() / 2
	s.judgeSignals(c, claim(handOns+1))
}

func (s *standing) judgeSignals(c *chase, last gjson.Result) {
	s.t.Helper()
	if last.Get("run_id").String() == "" {
		s.t.Fatal("the last successor isn't granted")
	}
	got := map[int][]int64{}
	numbers := map[int64]bool{}
	before := int64(0)
	for _, signal := range last.Get("signals").Array() {
		number, payload := signal.Get("number").Int(), int(signal.Get("payload").Int())
		if number <= before {
			s.t.Errorf("signal %d stands behind signal %d", number, before)
		}
		before, numbers[number] = number, true
		got[payload/1_000_000] = append(got[payload/1_000_000], number)
		if want := len(got[payload/1_000_000]) - 1; payload%1_000_000 != want {
			s.t.Fatalf("sender %d: signal %d arrives where %d should", payload/1_000_000, payload%1_000_000, want)
		}
	}
	total := 0
	for sender, acked := range c.acked {
		total += len(acked)
		if len(got[sender]) != len(acked) {
			s.t.Errorf("sender %d: %d signals were acknowledged and %d arrived", sender, len(acked), len(got[sender]))
		}
	}
	length := 0
	for _, r := range s.every("chased") {
		if r.status == "continued" {
			length++
		}
	}
	if length != handOns {
		s.t.Errorf("%d runs were continued, want %d", length, handOns)
	}
	s.t.Logf("%d signals over %d hand-ons; %d requests had no answer at first", total, length, c.lost)
}
