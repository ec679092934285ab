package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

const (
	// requestEvents and requestBytes bound the events of one request: below what a node
	// takes, so that a request that fails leaves little in doubt.
	requestEvents = 500
	requestBytes  = 900_000
	// requestWait is how long a line of standard input waits for others to come: a pipe may be
	// silent for hours.
	requestWait = 200 * time.Millisecond
	// toldRefusals is how many refused events are told of one by one.
	toldRefusals = 20
)

// sendLines sends a source with one event a line.
func (p *program) sendLines(ctx context.Context, a *asker, s *sending) error {
	in, err := p.open(s.source)
	if err != nil {
		return &usageError{err: fmt.Errorf("the events %s: %w", s.source, err)}
	}
	defer in.Close() // it was only read
	reading, stop := context.WithCancel(ctx)
	defer stop()
	f := &feed{p: p, a: a, s: s}
	err = f.run(ctx, readLines(reading, in))
	f.report()
	return err
}

// open is a source to read from.
func (p *program) open(source string) (io.ReadCloser, error) {
	switch {
	case source == "-" && p.stdin == nil:
		return io.NopCloser(strings.NewReader("")), nil
	case source == "-":
		return io.NopCloser(p.stdin), nil
	case strings.HasPrefix(source, "@"):
		file, err := os.Open(source[1:])
		return file, withoutPath(err)
	}
	return io.NopCloser(strings.NewReader(source)), nil
}

// textLine is one line of a source, or why there are no more; number counts from 1.
type textLine struct {
	number int
	text   []byte
	err    error
}

// readLines reads lines until there are no more, or ctx ends. It is a goroutine of its own,
// so that an interrupt counts while standard input is silent; then it ends with the
// process.
func readLines(ctx context.Context, in io.Reader) <-chan textLine {
	lines := make(chan textLine)
	put := func(l textLine) bool {
		select {
		case lines <- l:
			return true
		case <-ctx.Done():
			return false
		}
	}
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(in)
		scanner.Buffer(nil, wire.MaxBodyBytes)
		n := 1
		for ; scanner.Scan(); n++ {
			if text := bytes.TrimSpace(scanner.Bytes()); len(text) > 0 && !put(textLine{number: n, text: bytes.Clone(text)}) {
				return
			}
		}
		switch err := scanner.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			put(textLine{number: n, err: fmt.Errorf("it is longer than %d bytes", wire.MaxBodyBytes)})
		case err != nil:
			put(textLine{number: n, err: withoutPath(err)})
		}
	}()
	return lines
}

// feed sends lines, some at a time and in their order.
type feed struct {
	p *program
	a *asker
	s *sending
	counts

	events     []any // of the next request
	numbers    []int // their lines
	bytes      int
	through    int  // all lines up to this one are settled
	doubt      bool // nobody knows whether the last request was taken
	unfinished bool // lines are left
	typos      int  // refused events that can't be right
	first      int  // line of the first refused event
}

// run sends all lines. What it returns is the worst that happened.
func (f *feed) run(ctx context.Context, lines <-chan textLine) error {
	f.unfinished = true
	var waited <-chan time.Time // since the first line of the next request
	for ctx.Err() == nil {
		if waited == nil && len(f.events) > 0 && f.s.source == "-" {
			waited = time.After(requestWait)
		}
		select {
		case <-ctx.Done():
		case <-waited:
			waited = nil
			if err := f.send(ctx); err != nil {
				return err
			}
		case l, more := <-lines:
			if !more {
				if err := f.send(ctx); err != nil {
					return err
				}
				f.unfinished = false
				return f.verdict()
			}
			if err := f.add(ctx, l); err != nil {
				return err
			}
		}
	}
	return context.Cause(ctx)
}

// add takes a line into the next request. One that can't be right ends it all, and the
// request that it was to be in isn't sent, as a node would refuse that whole (R22).
func (f *feed) add(ctx context.Context, l textLine) error {
	event, err := readEvent(l.text)
	if l.err != nil {
		err = l.err
	}
	if err != nil {
		return &usageError{err: fmt.Errorf("line %d: %w", l.number, err)}
	}
	if len(f.events) == requestEvents || len(f.events) > 0 && f.bytes+len(event) >= requestBytes {
		if err := f.send(ctx); err != nil {
			return err
		}
	}
	f.events, f.numbers = append(f.events, event), append(f.numbers, l.number)
	f.bytes += len(event) + 1
	return nil
}

// send sends the request that is ready. An interrupt doesn't end it, so that what was taken
// is known; it has its time limit.
func (f *feed) send(ctx context.Context) error {
	if len(f.events) == 0 {
		return nil
	}
	results, err := f.a.TriggerBatch(context.WithoutCancel(ctx), f.s.workflow, f.events, f.s.options...)
	if err != nil {
		return f.refusedWhole(err)
	}
	if err := f.print(results); err != nil {
		return err
	}
	f.through = f.numbers[len(f.numbers)-1]
	f.events, f.numbers, f.bytes = nil, nil, 0
	return nil
}

// refusedWhole is the end of the command for a request that wasn't taken. Once something
// was taken, or may have been, the same command again would count it twice, whatever the
// error itself says.
func (f *feed) refusedWhole(err error) error {
	err = f.p.unsure(err, "Look at the keys of the events before you send those lines again.")
	if f.doubt = isType[*doubtful](err) || errors.Is(err, pyrula.ErrBadAnswer); f.doubt {
		return err
	}
	if err = f.p.adviseSender(f.placed(err), f.s); f.taken > 0 && exitCode(err) == exitUnreachable {
		return &partly{err}
	}
	return err
}

// placed is an error of one line of the request with the line's number in the source.
func (f *feed) placed(err error) error {
	refused, ok := errors.AsType[*pyrula.APIError](err)
	if !ok {
		return err
	}
	problem := refused.Problem
	number, isLine := strings.CutPrefix(problem.Field, "line ")
	n, failed := strconv.Atoi(number)
	if !isLine || failed != nil || n < 1 || n > len(f.numbers) {
		return err
	}
	said := strings.TrimPrefix(problem.Detail, problem.Field+": ")
	problem.Field = "line " + strconv.Itoa(f.numbers[n-1])
	problem.Detail = problem.Field + ": " + said
	return &pyrula.APIError{Problem: problem}
}

// partly is an error after which the same command again isn't safe, because some of its
// work is done. It hides what it holds, like doubtful.
type partly struct{ cause error }

// Error is what it holds.
func (e *partly) Error() string { return sentence(e.cause) }

// print tells what became of a request's events.
func (f *feed) print(results []pyrula.TriggerResult) error {
	var made []string
	var texts strings.Builder
	for i, r := range results {
		switch {
		case r.Err != nil:
			f.tellRefused(f.numbers[i], r.Err)
			continue
		case r.RunID != "":
			f.made++
			made = append(made, r.RunID)
			fmt.Fprintf(&texts, "%s filled by line %d\n", r.RunID, f.numbers[i])
		}
		f.taken++
	}
	return f.p.printOr(f.a, made, func() error {
		_, err := io.WriteString(f.p.stdout, texts.String())
		return err
	})
}

func (f *feed) tellRefused(number int, err error) {
	if f.refused++; f.refused == 1 {
		f.first = number
	}
	if exitCode(err) == exitUsage {
		f.typos++
	}
	if !f.p.asJSON && f.refused <= toldRefusals {
		fmt.Fprintf(f.p.stderr, "line %d: %s\n", number, sentence(err))
	}
}

// linesRefused says that events were refused one by one. It is a usage error when all of
// them can't be right.
type linesRefused struct {
	refused, all, first int
	typos               bool
}

// Error is "2 of 500 events were refused, the first in line 3".
func (e *linesRefused) Error() string {
	return fmt.Sprintf("%d of %s refused, the first in line %d", e.refused, counted(e.all, "event"), e.first)
}

// Is makes it a configuration error, where it is one.
func (e *linesRefused) Is(target error) bool { return e.typos && target == pyrula.ErrConfiguration }

func (f *feed) verdict() error {
	if f.refused == 0 {
		return nil
	}
	return &linesRefused{f.refused, f.refused + f.taken, f.first, f.typos == f.refused}
}

// report tells a person what was taken and, after an early end, from where to go on.
func (f *feed) report() {
	if f.p.asJSON {
		return
	}
	if more := f.refused - toldRefusals; more > 0 {
		fmt.Fprintf(f.p.stderr, "and %d more\n", more)
	}
	f.p.tellCounts(&f.counts)
	switch {
	case f.doubt:
		from, to := f.numbers[0], f.numbers[len(f.numbers)-1]
		fmt.Fprintf(f.p.stderr, "lines %d to %d may have been taken; once that is known, go on from line %d or %d\n", from, to, from, to+1)
	case f.unfinished && f.through > 0:
		fmt.Fprintf(f.p.stderr, "go on from line %d\n", f.through+1)
	}
}
