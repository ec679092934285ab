package persistence

import (
	"fmt"
	"sync"
	"time"
)

// watchdog looks at the write under way. A disk that hangs makes no error: the
// node would look alive for ever and answer nobody. One timer is armed while a
// write runs and none while the journal is idle.
type watchdog struct {
	stallAfter time.Duration // tell somebody
	fatalAfter time.Duration // give up
	stall      func(age time.Duration)
	fatal      func(error)

	mu      sync.Mutex // guards what follows
	writing bool
	began   time.Time
	timer   *time.Timer
	told    bool // stall was called for this write
}

// begin is called before a write, end after it, both from one goroutine.
func (w *watchdog) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writing, w.began, w.told = true, time.Now(), false
	if w.timer == nil {
		w.timer = time.AfterFunc(w.stallAfter, w.look)
	} else {
		w.timer.Reset(w.stallAfter)
	}
}

func (w *watchdog) end() time.Duration {
	w.mu.Lock()
	w.writing = false
	w.timer.Stop()
	took, told := time.Since(w.began), w.told
	w.mu.Unlock()
	if told {
		w.stall(0)
	}
	return took
}

// look runs when the timer fires.
func (w *watchdog) look() {
	w.mu.Lock()
	if !w.writing {
		w.mu.Unlock()
		return
	}
	age := time.Since(w.began)
	if age < w.stallAfter {
		// The timer fired for the write before this one, just as that ended.
		w.timer.Reset(w.stallAfter - age)
		w.mu.Unlock()
		return
	}
	w.told = true
	over := age >= w.fatalAfter
	if !over {
		w.timer.Reset(min(w.stallAfter, w.fatalAfter-age))
	}
	w.mu.Unlock()
	w.stall(age)
	if over {
		w.fatal(fmt.Errorf("write to the journal hangs since %s", age))
	}
}

// age is how long the write under way has lasted, 0 when there is none.
func (w *watchdog) age() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.writing {
		return 0
	}
	return time.Since(w.began)
}
