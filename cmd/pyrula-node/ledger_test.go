package main

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tidwall/gjson"
)

// ledger is the outside witness of the kill loop: what was acknowledged, and what
// the bodies saw. It lives in the test's process and outlives every node.
type ledger struct {
	mu    sync.Mutex    // guards everything below
	moved chan struct{} // closed and replaced at each change

	allowed int  // submits that may be sent so far
	enough  bool // no more is to be submitted

	acks     int               // acknowledgements of any kind
	unknown  int               // submits that nothing protects and nobody answered
	ids      map[string]string // tag of a submit -> run id, of acknowledged submits
	tags     map[string]string // the same, the other way round
	submits  map[string]submit // by tag, of acknowledged submits
	declared map[string]string // workflow -> gates hash, of acknowledged declarations
	grants   map[string][]uint64
	endings  map[string][]ending // by run, of acknowledged endings, in their order
	stopped  map[string]string   // run -> "cancel" or "terminate", where it was acknowledged to have changed something
	finals   map[string]string   // run -> the status object of an ended run when it was first read
	events   map[string][]gjson.Result
	ended    map[string]bool // runs that are known to have ended
	bodies   map[string]int  // run -> bodies
	ends     int             // acknowledged endings of runs with a Limit
	most     int             // bodies of a tenant at once, ever
	// now has the bodies at work, by workflow and tenant, and by run: until when each may be.
	now    map[string]map[string]time.Time
	verbs  map[string]int // acknowledged requests, for the log
	faults []string
}

// ending is an acknowledged end of a hold.
type ending struct {
	verb   string // complete, fail, suspend
	fence  uint64
	status string // that was answered
}

func newLedger() *ledger {
	return &ledger{
		moved: make(chan struct{}), ids: map[string]string{}, tags: map[string]string{}, submits: map[string]submit{},
		declared: map[string]string{}, grants: map[string][]uint64{}, endings: map[string][]ending{}, stopped: map[string]string{},
		finals: map[string]string{}, events: map[string][]gjson.Result{}, ended: map[string]bool{}, bodies: map[string]int{},
		now: map[string]map[string]time.Time{}, verbs: map[string]int{},
	}
}

// note changes the ledger and wakes who waits for it.
func (l *ledger) note(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	close(l.moved)
	l.moved = make(chan struct{})
}

// look reads the ledger.
func (l *ledger) look(read func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	read()
}

// wrongf writes down that a promise was broken; mu is held.
func (l *ledger) wrongf(format string, args ...any) {
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

// faultf is wrongf for those who don't hold mu.
func (l *ledger) faultf(format string, args ...any) {
	l.note(func() { l.wrongf(format, args...) })
}

// ack counts an acknowledgement; mu is held.
func (l *ledger) ack(verb string) {
	l.acks++
	l.verbs[verb]++
}

func (l *ledger) submitted(s submit, id string) {
	l.note(func() {
		if first, known := l.ids[s.tag]; known {
			if first != id {
				l.wrongf("submit %s named run %s and then %s", s.tag, first, id)
			}
			return
		}
		if other, taken := l.tags[id]; taken {
			l.wrongf("submits %s and %s are both run %s", other, s.tag, id)
		}
		s.acked = time.Now()
		l.ids[s.tag], l.tags[id], l.submits[s.tag] = id, s.tag, s
		l.ack("submit by " + s.guard.String())
	})
}

func (l *ledger) declaring(workflow, gates string) {
	l.note(func() {
		l.declared[workflow] = gates
		l.ack("declare")
	})
}

// granted takes a grant, which is an acknowledgement that the run is the worker's.
func (l *ledger) granted(id string, fence uint64) {
	l.note(func() {
		if slices.Contains(l.grants[id], fence) {
			l.wrongf("run %s was granted twice under fence %d", id, fence)
		}
		l.grants[id] = append(l.grants[id], fence)
		l.ack("claim")
	})
}

// ending takes the acknowledged end of a hold. A run that somebody has cancelled
// ends as cancelled, whatever its holder says.
func (l *ledger) ending(id string, limited bool, e ending) {
	l.note(func() {
		l.endings[id] = append(l.endings[id], e)
		l.ack(e.verb)
		if limited {
			l.ends++
		}
		l.ended[id] = l.ended[id] || isFinal(e.status)
	})
}

func (l *ledger) stopping(id, verb, status string) {
	l.note(func() {
		l.ack(verb)
		if l.stopped[id] != "terminate" {
			l.stopped[id] = verb
		}
		l.ended[id] = l.ended[id] || isFinal(status)
	})
}

// enter is a body's beginning: the count that must never be above the Limit. A run
// has one body at a time under any gate. Who has outlived his lease isn't counted:
// this process was stopped for that long, and he notices next.
func (l *ledger) enter(key, id string, lease time.Time) {
	l.note(func() {
		l.bodies[id]++
		if l.under(id) > 0 {
			l.wrongf("two bodies of run %s at once", id)
		}
		l.hold(id, id, lease)
		if key == "" {
			return
		}
		l.hold(key, id, lease)
		n := l.under(key)
		l.most = max(l.most, n)
		if n > slots {
			l.wrongf("%d bodies of %s at once, the last of run %s", n, key, id)
		}
	})
}

// hold notes until when a body may be at work; mu is held.
func (l *ledger) hold(key, id string, lease time.Time) {
	if l.now[key] == nil {
		l.now[key] = map[string]time.Time{}
	}
	l.now[key][id] = lease
}

// under counts the bodies that are at work; mu is held.
func (l *ledger) under(key string) (n int) {
	for _, lease := range l.now[key] {
		if time.Now().Before(lease) {
			n++
		}
	}
	return n
}

// renewed takes a confirmed heartbeat of a body.
func (l *ledger) renewed(key, id string, lease time.Time) {
	l.note(func() {
		l.ack("heartbeat")
		for _, k := range []string{key, id} {
			if _, inside := l.now[k][id]; inside {
				l.now[k][id] = lease
			}
		}
	})
}

func (l *ledger) leave(key, id string) {
	l.note(func() {
		delete(l.now[id], id)
		delete(l.now[key], id)
	})
}

// until waits for a state of the ledger; ended stops the wait and makes it false.
func (l *ledger) until(ended <-chan struct{}, ready func() bool) bool {
	for {
		l.mu.Lock()
		ok, moved := ready(), l.moved
		l.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-moved:
		case <-ended:
			return false
		}
	}
}

// isFinal says whether a run in a status has ended.
func isFinal(status string) bool {
	return slices.Contains([]string{"completed", "failed", "cancelled", "terminated"}, status)
}
