package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/bench/load"
	"github.com/pyrula/pyrula-node/cmd/pyrula-node/node"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// serving is the host of a node that lives as long as the test.
func serving(t *testing.T) (*node.Node, string) {
	t.Helper()
	n, err := node.Start(t.Context(), node.Config{DataDir: t.TempDir(), Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(t.Context()); err != nil {
			t.Log("close:", err) // the test's context is over by now
		}
	})
	return n, n.Addr()
}

// everything is a window that counts all that a test does.
func everything() load.Window { return load.OpenWindow(0, time.Hour) }

// runsOf counts a workflow's runs by their status.
func runsOf(t *testing.T, j job, status string) int {
	t.Helper()
	c, err := dial(j.host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	body, err := c.do("GET", fmt.Sprintf("%s?workflow=%s&status=%s&limit=%d", wire.PathRuns, j.workflow, status, wire.MaxListLimit), nil)
	if err != nil {
		t.Fatal(err)
	}
	var list wire.RunList
	if err := json.Unmarshal(body, &list); err != nil {
		t.Fatal(err)
	}
	return len(list.Runs)
}

// Fails when a client's cycles aren't what it says it has done: each run that it
// counts has ended, and a fused client holds what it has claimed last.
func TestCycles(t *testing.T) {
	_, host := serving(t)
	for i, j := range []job{{batch: 1}, {batch: 1, fused: true}, {batch: 4}, {batch: 4, fused: true}} {
		j.host, j.keys, j.workflow = host, 10, fmt.Sprintf("cycles_%d", i)
		if err := declare(j, openGates); err != nil {
			t.Fatal(err)
		}
		c, err := j.connect(0)
		if err != nil {
			t.Fatal(err)
		}
		r := load.NewRecorder(everything())
		for range 5 {
			if err := c.Cycle(r); err != nil {
				t.Fatalf("%s: %v", j.variant(), err)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		got, ended := r.Tally(), runsOf(t, j, "completed")
		if int(got.Cycles) != ended || got.Claims+got.Empty != 5 || ended == 0 {
			t.Errorf("%s: %d cycles and %d claims counted, %d runs ended", j.variant(), got.Cycles, got.Claims, ended)
		}
		if holds := runsOf(t, j, "executing"); holds != int(got.Grants)-ended || holds > 0 && !j.fused {
			t.Errorf("%s: %d runs execute, %d were granted and %d ended", j.variant(), holds, got.Grants, ended)
		}
	}
}

// Fails when the queue isn't filled with exactly the runs asked for.
func TestFill(t *testing.T) {
	_, host := serving(t)
	j := job{host: host, workflow: "fill", keys: 7}
	if err := declare(j, openGates); err != nil {
		t.Fatal(err)
	}
	if err := fill(j, wire.MaxBatch+44); err != nil {
		t.Fatal(err)
	}
	if n := runsOf(t, j, "queued"); n != wire.MaxBatch+44 {
		t.Errorf("%d runs are queued, want %d", n, wire.MaxBatch+44)
	}
}

// Fails when a worker's grants aren't followed by their key, or one that waited for a
// slot isn't noted.
func TestWorkerSeesGatesOpen(t *testing.T) {
	_, host := serving(t)
	j := job{host: host, workflow: "gates", keys: 1, batch: 1}
	if err := declare(j, policy{max: 1}); err != nil {
		t.Fatal(err)
	}
	if err := fill(j, 3); err != nil {
		t.Fatal(err)
	}
	s, r := newSlots(1), load.NewRecorder(everything())
	first, err := j.connectWorker(0, 0, s)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if err := first.Cycle(r); err != nil {
		t.Fatal(err)
	}
	if n := r.Tally().Gate.Len(); n != 0 || r.Tally().Cycles != 1 {
		t.Errorf("%d grants waited for a slot that was never taken, %d cycles", n, r.Tally().Cycles)
	}
	if since, ok := s.take("k0"); !ok || !since.After(s.begin) {
		t.Errorf("the slot is free since %v, %v", since, ok)
	}
	if _, ok := s.take("k0"); ok {
		t.Error("the only slot of a key was given twice")
	}
}

// Fails when the program writes no line, or one without figures, for a configuration
// against a node that runs already. On a busy machine a short window may see nothing.
func TestRunAgainstAnAddress(t *testing.T) {
	n, _ := serving(t)
	o := options{
		clients: numbers{2}, keys: numbers{3}, batch: numbers{1, 2}, backlog: numbers{1, 5},
		reps: 1, tries: 1, others: 1, addr: n.URL(),
	}
	var missing []string
	for o.dur = 100 * time.Millisecond; o.dur < 10*time.Second; o.dur *= 3 {
		var out bytes.Buffer
		if err := o.run(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
		if len(lines) != 6 {
			t.Fatalf("%d lines, want 6:\n%s", len(lines), out.Bytes())
		}
		if missing = withoutFigures(t, lines); len(missing) == 0 {
			return
		}
	}
	t.Error(missing)
}

// withoutFigures are the lines that don't say what was measured. What they say of the
// configuration must be right in any case.
func withoutFigures(t *testing.T, lines [][]byte) (missing []string) {
	t.Helper()
	for i, line := range lines {
		if i%3 == 2 {
			c := strict[comparison](t, line)
			if c.Base != 1 || c.With != 5 {
				t.Errorf("comparison %+v", c)
			}
			if c.Ratio <= 0 {
				missing = append(missing, fmt.Sprintf("comparison %+v", c))
			}
			continue
		}
		r := strict[load.Result](t, line)
		if r.Errors != 0 || r.Machine.Cores == 0 || r.Batch != i/3+1 {
			t.Errorf("result %+v", r)
		}
		if r.PerSec <= 0 || r.ClaimP50 <= 0 {
			missing = append(missing, fmt.Sprintf("result %+v", r))
		}
	}
	return missing
}

// Fails when flags that can't be meant are taken.
func TestOptionsAreChecked(t *testing.T) {
	good := options{clients: numbers{1}, keys: numbers{1}, batch: numbers{1}, reps: 1, tries: 1, dur: 1, addr: "http://h:1"}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*options){
		"no repetition": func(o *options) { o.reps = 0 },
		"no try":        func(o *options) { o.tries = 0 },
		"no window":     func(o *options) { o.dur = 0 },
		"batch":         func(o *options) { o.batch = numbers{wire.MaxBatch + 1} },
		"profile":       func(o *options) { o.profile = "x" },
		"limit":         func(o *options) { o.gates, o.max = true, 0 },
		"soak":          func(o *options) { o.soak = -1 },
		"not its own":   func(o *options) { o.soak = 1 },
		"fused soak":    func(o *options) { o.addr, o.soak, o.fused = "", 1, true },
		"no runs":       func(o *options) { o.addr, o.recovery, o.perSec = "", true, 1 },
		"no rate":       func(o *options) { o.addr, o.snapshots, o.runs = "", true, 1 },
	} {
		o := good
		if spoil(&o); o.check() == nil {
			t.Errorf("%s: taken", name)
		}
	}
	var n numbers
	for _, text := range []string{"", "0", "-1", "x", "1,", "1 2"} {
		if n.Set(text) == nil {
			t.Errorf("%q is taken for numbers", text)
		}
	}
	if err := n.Set("1,16"); err != nil || n.String() != "1,16" {
		t.Errorf("numbers are %v, %v", n, err)
	}
	for _, address := range []string{"127.0.0.1:1", "https://h:1", "http://h", "http://h:x"} {
		if _, err := hostOf(address); err == nil {
			t.Errorf("%q is taken for an address", address)
		}
	}
}

// Fails when a repetition that the machine disturbed counts though another try is left,
// or when tries never end.
func TestRepeatThrowsAway(t *testing.T) {
	noisy := load.Repetition{CPU: load.CPUShare{Busy: 50, Idle: 50}}
	calm := load.Repetition{PerSec: 1, CPU: load.CPUShare{Busy: 5, Idle: 95}}
	for _, c := range []struct {
		come          []load.Repetition
		perSec        float64
		tries, thrown int
	}{
		{[]load.Repetition{calm}, 1, 3, 0},
		{[]load.Repetition{noisy, noisy, calm}, 1, 3, 2},
		{[]load.Repetition{noisy, noisy, calm}, 0, 2, 1},
	} {
		b := &bench{options: options{others: .1, tries: c.tries}}
		rep, err := b.repeat(func() (load.Repetition, error) {
			next := c.come[0]
			c.come = c.come[1:]
			return next, nil
		})
		if err != nil || rep.PerSec != c.perSec || b.dropped != c.thrown {
			t.Errorf("repetition %+v, %d thrown away, %v", rep.PerSec, b.dropped, err)
		}
	}
}
