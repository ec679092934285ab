package demo

import (
	"fmt"
	"io"
	"time"
)

const (
	// rewriteEvery and printEvery are the time between two lines of progress, on a
	// terminal and elsewhere. They aren't multiples of the 200 ms between two tokens:
	// else each line would show the same moment of that beat.
	rewriteEvery = 170 * time.Millisecond
	printEvery   = 3100 * time.Millisecond
)

// progress tells how far the runs are, until stop.
type progress struct {
	talk     io.Writer
	rewrites bool
	shift    *shift
	ended    chan struct{} // closed by stop
	gone     chan struct{} // closed when nothing is written any more
}

func newProgress(cfg Config, s *shift) *progress {
	p := &progress{talk: cfg.Talk, rewrites: cfg.Rewrites, shift: s, ended: make(chan struct{}), gone: make(chan struct{})}
	go p.tell()
	return p
}

func (p *progress) tell() {
	defer close(p.gone)
	every := printEvery
	if p.rewrites {
		every = rewriteEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.line()
		case <-p.ended:
			p.line()
			if p.rewrites {
				fmt.Fprintln(p.talk)
			}
			return
		}
	}
}

// line writes one line, on a terminal over the last one.
func (p *progress) line() {
	executing, ended := p.shift.witness.counts()
	text := fmt.Sprintf("%5.1f s: %d of %d bodies have ended, %d execute",
		time.Since(p.shift.began).Seconds(), ended, len(p.shift.sent), executing)
	if p.rewrites {
		fmt.Fprintf(p.talk, "\r%-60s", text)
		return
	}
	fmt.Fprintln(p.talk, text)
}

func (p *progress) stop() {
	close(p.ended)
	<-p.gone
}
