package enginetest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

// Line is one entry as a Ledger keeps it.
type Line struct {
	Pos  engine.Pos
	Wall int64
	Body string
}

// Ledger is a machine whose state is the list of all bodies it was ever given.
// It checks the laws of package engine at every call and keeps a text for each
// one broken. It plays the shard's goroutine with a lock, so it can be used from
// any goroutine, and it appends only through [Ledger.Append].
type Ledger struct {
	mu    sync.Mutex
	log   engine.Log
	lines []Line
	// acked is the number of lines known to be durable: by Restore, Apply,
	// Promote and Committed.
	acked    int
	epoch    engine.Epoch // 0: not owner
	highest  engine.Epoch // of all Promotes
	base     int          // lines at Promote
	promoted chan struct{}
	inside   int // machine methods that run now
	broken   []string
	taken    int // captures that aren't released
	demotes  int
	restores int // since the state was empty
}

var _ engine.Machine = (*Ledger)(nil)

// NewLedger makes an empty ledger.
func NewLedger() *Ledger { return &Ledger{promoted: make(chan struct{})} }

// Use sets the log to append to; it is called once, after Engine.Open.
func (l *Ledger) Use(log engine.Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log = log
}

// Append appends body under the present epoch and returns the number of lines
// there are then: the line is acknowledged when Acked has reached it.
func (l *Ledger) Append(wall int64, body string) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.appendAs(l.epoch, wall, body)
}

// AppendAs is Append under an epoch of the caller's choice.
func (l *Ledger) AppendAs(ep engine.Epoch, wall int64, body string) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.appendAs(ep, wall, body)
}

func (l *Ledger) appendAs(ep engine.Epoch, wall int64, body string) (int, error) {
	seq, err := l.log.Append(ep, wall, []byte(body))
	if err != nil {
		return 0, err
	}
	if want := engine.Seq(len(l.lines) - l.base + 1); seq != want {
		l.breachf("append gave seq %d, want %d", seq, want)
	}
	l.lines = append(l.lines, Line{Pos: engine.Pos(len(l.lines) + 1), Wall: wall, Body: body})
	return len(l.lines), nil
}

// Lines is a copy of all lines, and how many of them are acknowledged.
func (l *Ledger) Lines() (all []Line, acked int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Line(nil), l.lines...), l.acked
}

// Epoch is the present epoch, 0 while not owner.
func (l *Ledger) Epoch() engine.Epoch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epoch
}

// Promoted is closed when the shard is promoted for the first time.
func (l *Ledger) Promoted() <-chan struct{} { return l.promoted }

// Restores is the number of snapshots that the present state came from: 0 or 1.
func (l *Ledger) Restores() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.restores
}

// Broken lists the laws broken so far, and a capture that was never released
// when none should be open.
func (l *Ledger) Broken() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := append([]string(nil), l.broken...)
	if l.taken != 0 {
		out = append(out, fmt.Sprintf("%d captures are not released", l.taken))
	}
	return out
}

func (l *Ledger) breachf(format string, args ...any) {
	l.broken = append(l.broken, fmt.Sprintf(format, args...))
}

// enter counts the engine's calls: two at once break the contract.
func (l *Ledger) enter() func() {
	l.mu.Lock()
	l.inside++
	if l.inside > 1 {
		l.breachf("two methods of the machine run at once")
	}
	l.mu.Unlock()
	return func() {
		l.mu.Lock()
		l.inside--
		l.mu.Unlock()
	}
}

// Restore takes a snapshot's lines.
func (l *Ledger) Restore(r io.Reader, at engine.Pos) error {
	defer l.enter()()
	lines, err := readLines(bufio.NewReader(r))
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) != 0 {
		l.breachf("restore over %d lines", len(l.lines))
	}
	if engine.Pos(len(lines)) != at {
		l.breachf("restore at %d has %d lines", at, len(lines))
	}
	l.lines, l.acked = lines, len(lines)
	l.restores++
	return nil
}

// Apply takes one entry.
func (l *Ledger) Apply(e engine.Entry) error {
	defer l.enter()()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.epoch != 0 {
		l.breachf("apply while owner")
	}
	if want := engine.Pos(len(l.lines) + 1); e.Pos != want {
		l.breachf("apply at position %d, want %d", e.Pos, want)
	}
	l.lines = append(l.lines, Line{Pos: e.Pos, Wall: e.Wall, Body: string(e.Body)})
	l.acked = len(l.lines)
	return nil
}

// Promote begins an epoch.
func (l *Ledger) Promote(ep engine.Epoch, at engine.Pos, wall int64) {
	defer l.enter()()
	l.mu.Lock()
	defer l.mu.Unlock()
	if ep <= l.highest {
		l.breachf("promote with epoch %d after %d", ep, l.highest)
	}
	if at != engine.Pos(len(l.lines)) {
		l.breachf("promote at %d with %d lines", at, len(l.lines))
	}
	var last int64
	if n := len(l.lines); n > 0 {
		last = l.lines[n-1].Wall
	}
	if wall != last {
		l.breachf("promote with wall %d, the last entry has %d", wall, last)
	}
	if l.highest == 0 {
		close(l.promoted)
	}
	l.epoch, l.highest, l.base, l.acked = ep, ep, len(l.lines), len(l.lines)
}

// Committed notes how far the ledger is durable.
func (l *Ledger) Committed(ep engine.Epoch, upto engine.Seq) {
	defer l.enter()()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch n := l.base + int(upto); {
	case ep != l.epoch:
		l.breachf("committed for epoch %d, the present one is %d", ep, l.epoch)
	case n > len(l.lines):
		l.breachf("committed up to line %d of %d", n, len(l.lines))
	case n <= l.acked:
		l.breachf("committed up to line %d, told before up to %d", n, l.acked)
	default:
		l.acked = n
	}
}

// Demote throws everything away.
func (l *Ledger) Demote(ep engine.Epoch, reason error) {
	defer l.enter()()
	l.mu.Lock()
	defer l.mu.Unlock()
	if ep != l.epoch || reason == nil {
		l.breachf("demote of epoch %d (%v), the present one is %d", ep, reason, l.epoch)
	}
	l.epoch, l.lines, l.acked, l.base, l.restores = 0, nil, 0, 0, 0
	l.demotes++
}

// Capture copies the lines.
func (l *Ledger) Capture() (engine.Snapshot, error) {
	defer l.enter()()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.epoch == 0 {
		return nil, engine.ErrNotOwner
	}
	l.taken++
	return &ledgerSnapshot{
		ledger: l, epoch: l.epoch, seq: engine.Seq(len(l.lines) - l.base),
		lines: append([]Line(nil), l.lines...),
	}, nil
}

type ledgerSnapshot struct {
	ledger   *Ledger
	epoch    engine.Epoch
	seq      engine.Seq
	lines    []Line
	written  bool
	released bool
}

func (s *ledgerSnapshot) Boundary() (engine.Epoch, engine.Seq) { return s.epoch, s.seq }

func (s *ledgerSnapshot) WriteTo(w io.Writer) (int64, error) {
	if s.written || s.released {
		s.ledger.mu.Lock()
		s.ledger.breachf("snapshot written twice or after its release")
		s.ledger.mu.Unlock()
	}
	s.written = true
	return writeLines(w, s.lines)
}

func (s *ledgerSnapshot) Release() {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	if s.released {
		s.ledger.breachf("snapshot released twice")
		return
	}
	s.released = true
	s.ledger.taken--
}

// writeLines writes wall, length and body of each line.
func writeLines(w io.Writer, lines []Line) (int64, error) {
	var total int64
	var head [12]byte
	for _, line := range lines {
		binary.LittleEndian.PutUint64(head[:], uint64(line.Wall))
		binary.LittleEndian.PutUint32(head[8:], uint32(len(line.Body)))
		n, err := w.Write(head[:])
		total += int64(n)
		if err != nil {
			return total, err
		}
		n, err = io.WriteString(w, line.Body)
		total += int64(n)
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

func readLines(r io.Reader) ([]Line, error) {
	var lines []Line
	var head [12]byte
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			if errors.Is(err, io.EOF) {
				return lines, nil
			}
			return nil, fmt.Errorf("read line %d: %w", len(lines)+1, err)
		}
		n := binary.LittleEndian.Uint32(head[8:])
		if n > engine.MaxEntryBytes {
			return nil, fmt.Errorf("read line %d: length %d", len(lines)+1, n)
		}
		body := make([]byte, n)
		if _, err := io.ReadFull(r, body); err != nil {
			return nil, fmt.Errorf("read line %d: %w", len(lines)+1, err)
		}
		lines = append(lines, Line{
			Pos:  engine.Pos(len(lines) + 1),
			Wall: int64(binary.LittleEndian.Uint64(head[:])), Body: string(body),
		})
	}
}
