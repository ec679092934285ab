// Command pyrula-node is the node and its command line in one program: it serves,
// and it asks a node that serves. Invoked as pyrula it behaves the same.
//
// It must hold no rule of its own: what it prints is what the API answered, and
// how a run starts is decided elsewhere.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	p := program{
		name: filepath.Base(os.Args[0]), args: os.Args[1:],
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, environ: os.Environ(), rewrites: isTerminal(os.Stderr),
	}
	os.Exit(p.run(untilSignal()))
}

// errInterrupted is the cause of a context that a signal has ended.
var errInterrupted = errors.New("interrupted")

// oneRequest is the time in which several signals are one request to stop: timeout(1)
// and some init programs signal a process and then its group.
const oneRequest = 500 * time.Millisecond

// untilSignal is a context that the first SIGINT or SIGTERM ends, so that a server
// drains. A later one ends the process at once: whoever sends it has waited long
// enough, and what was acknowledged is in the journal.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		first := time.Now()
		cancel(errInterrupted)
		for range signals {
			if time.Since(first) >= oneRequest {
				os.Exit(exitInterrupted)
			}
		}
	}()
	return ctx
}
