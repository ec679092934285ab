package main

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

const (
	travelCrew = 3
	travelKeys = 6
	ticketTag  = "ticket of "
)

// TestP54_P52_S21EveryRecordedStepRanOnce fails when, while workers and the node are
// killed again and again, a step runs once more after it was recorded, a later run of the
// body is given something else than what was recorded, a run doesn't end, or two runs of
// a key with a Limit of 1 execute at once: parents, and the children that they wait for.
func TestP54_P52_S21EveryRecordedStepRanOnce(t *testing.T) {
	s := newStanding(t, "--recent", "1s")
	file := filepath.Join(t.TempDir(), "witness")
	rng := rand.New(rand.NewPCG(journeysEach, 2))
	crew := make([]*child, travelCrew)
	for i := range crew {
		crew[i] = spawnAs(t, workerName, travelWorker, s.addr, file)
	}
	s.declare("journey", `{"limit":{"key":"key","max":1},"lease_seconds":1,"max_attempts":2,"retry_backoff_seconds":0.005}`)
	var ids []string
	for i := range journeysEach {
		ids = append(ids, s.submit("journey", fmt.Sprintf(`{"key":"k%d","legs":1,"odd":%t}`, i%travelKeys, i%4 == 0)))
	}
	var wg sync.WaitGroup
	wg.Go(func() { s.sellTickets(ids) })
	for n := range workerKills {
		passes(time.Duration(50+rng.IntN(150)) * time.Millisecond)
		victim := rng.IntN(travelCrew)
		if n%8 == 4 { // it believes in its lease, and is woken when that is over
			stopped := crew[victim].cmd.Process
			crew[victim].signal(syscall.SIGSTOP)
			wg.Go(func() {
				passes(3 * theLease)
				if err := stopped.Signal(syscall.SIGCONT); err != nil && !errors.Is(err, os.ErrProcessDone) {
					t.Error(err)
				}
			})
			continue
		}
		crew[victim].kill()
		f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(appendLine(f, fmt.Sprintf("killed - 0 %d -", crew[victim].cmd.Process.Pid)), f.Close()); err != nil {
			t.Fatal(err)
		}
		crew[victim] = spawnAs(t, workerName, travelWorker, s.addr, file)
		switch n % 4 {
		case 1:
			s.kill9()
		case 3:
			s.cleanly()
		}
	}
	wg.Wait()
	results := map[string][]string{}
	for _, id := range ids {
		results[id] = s.endOf(id, crew)
	}
	for _, w := range crew {
		w.kill()
	}
	judgeTravels(t, file, results)
}

// sellTickets signals every run, in an order of its own, until it is acknowledged.
func (s *standing) sellTickets(ids []string) {
	client := &http.Client{Timeout: patience}
	for _, i := range rand.Perm(len(ids)) {
		for {
			req, err := http.NewRequest(http.MethodPost, "http://"+s.addr+"/v1/runs/"+ids[i]+"/signals/ticket", strings.NewReader(fmt.Sprintf("%q", ticketTag+ids[i])))
			if err != nil {
				s.t.Error(err)
				return
			}
			req.Header.Set("Idempotency-Key", "ticket of "+ids[i])
			status, answer := do(client, req)
			if status == http.StatusAccepted {
				break
			}
			if status != 0 && status != http.StatusServiceUnavailable {
				s.t.Errorf("ticket of %s: %d %s", ids[i], status, answer)
				return
			}
			passes(retryPause)
		}
	}
}

// endOf waits for a run's result, which must be its tokens.
func (s *standing) endOf(id string, crew []*child) (tokens []string) {
	s.t.Helper()
	var answer gjson.Result
	for late := time.Now().Add(patience); ; {
		var status int
		if status, answer = s.send(http.MethodGet, "/v1/runs/"+id+"/result?wait_ms=5000", ""); status == http.StatusOK {
			break
		}
		if time.Now().After(late) {
			_, why := s.send(http.MethodGet, "/v1/runs/"+id+"/why", "")
			s.t.Fatalf("run %s doesn't end: %s\n%s\n%s", id, answer, why, crew[0].said())
		}
	}
	if answer.Get("status").String() != "completed" {
		_, events := s.send(http.MethodGet, "/v1/runs/"+id+"/events", "")
		s.t.Errorf("run %s ends as %s\n%s", id, answer, events)
	}
	for _, token := range answer.Get("result").Array() {
		tokens = append(tokens, token.String())
	}
	return tokens
}

// call is one call of a step.
type call struct{ run, name, visit string }

// judgeTravels holds what the bodies wrote against the rules, and against the results.
func judgeTravels(t *testing.T, file string, results map[string][]string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	kept, given := map[call]string{}, map[string]bool{}
	var executed, again int
	j := &journal{open: map[string]*stay{}}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		w := strings.Fields(lines.Text())
		if len(w) != 5 {
			t.Fatalf("the witness has the line %q", lines.Text())
		}
		switch w[0] {
		case "ran":
			executed++
			if token, known := kept[call{w[1], w[2], w[3]}]; known {
				again++
				t.Errorf("step %s of run %s, visit %s, was recorded with %s and ran again", w[2], w[1], w[3], token)
			}
		case "kept":
			kept[call{w[1], w[2], w[3]}] = w[4]
			given[w[4]] = true
		default:
			j.note(t, w)
		}
	}
	for id, tokens := range results {
		if len(tokens) != 7 || tokens[3] != ticketTag+id {
			t.Errorf("run %s gives %q, want the tokens of five steps, a ticket and a leg", id, tokens)
		}
		for i, at := range []call{{id, "pack", "1"}, {id, "go", "1"}, {id, "go", "2"}, {}, {id, "go", "3"}, {}, {id, "unpack", "1"}} {
			if token, known := kept[at]; known && i < len(tokens) && tokens[i] != token {
				t.Errorf("run %s recorded %s for step %s and ends with %q", id, token, at.name, tokens)
			}
		}
	}
	j.judge(t)
	t.Logf("%d steps were executed, %d recorded, %d bodies", executed, len(kept), len(j.stays))
}

// stay is one execution of a body in the witness; moments are line numbers.
type stay struct {
	run, key, pid string
	fence         uint64
	begun, ended  int
	lost          bool
}

// journal is the bodies of a witness.
type journal struct {
	line  int
	stays []*stay
	open  map[string]*stay // by run and fence
}

func (j *journal) note(t *testing.T, w []string) {
	t.Helper()
	j.line++
	id := w[1] + " " + w[2]
	switch w[0] {
	case "enter":
		x := &stay{run: w[1], key: w[4], pid: w[3], begun: j.line}
		if _, err := fmt.Sscan(w[2], &x.fence); err != nil {
			t.Fatal(err)
		}
		j.stays, j.open[id] = append(j.stays, x), x
	case "leave", "lost":
		j.open[id].ended, j.open[id].lost = j.line, w[0] == "lost"
		delete(j.open, id)
	case "killed":
		for id, x := range j.open {
			if x.pid == w[3] {
				x.ended = j.line
				delete(j.open, id)
			}
		}
	}
}

// judge fails when a body began while an older one of its key was at work.
func (j *journal) judge(t *testing.T) {
	t.Helper()
	for _, x := range j.open { // killed at the end
		x.ended = j.line + 1
	}
	slices.SortFunc(j.stays, func(a, b *stay) int { return a.begun - b.begun })
	for _, x := range j.stays {
		for _, y := range j.stays {
			if y.key == x.key && y.fence < x.fence && y.ended > x.begun && !y.lost {
				t.Errorf("the body of run %s with fence %d began beside the one of run %s with fence %d: both are of key %s", x.run, x.fence, y.run, y.fence, x.key)
			}
		}
	}
}
