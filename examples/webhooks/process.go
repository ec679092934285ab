package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
)

// process is a node in a process of its own, on a directory that goes with it.
type process struct {
	addr, dir string
	cmd       *exec.Cmd
	said      bytes.Buffer // may be read when the process has ended
}

// newProcess builds a node and starts it.
func newProcess(ctx context.Context) (p *process, err error) {
	p = &process{}
	if p.addr, err = freeAddr(ctx); err != nil {
		return nil, err
	}
	if p.dir, err = os.MkdirTemp("", "webhooks-"); err != nil {
		return nil, err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", p.binary(), "github.com/pyrula/pyrula-node/cmd/pyrula-node") //nolint:gosec // a path of its own
	text, err := build.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("build the node: %w\n%s", err, text)
	} else {
		err = p.start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(p.dir))
	}
	return p, nil
}

// freeAddr is an address of this machine that nobody listens on. A node that starts again
// needs the same one.
func freeAddr(ctx context.Context) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// binary has a name that every system takes for a program.
func (p *process) binary() string { return filepath.Join(p.dir, "pyrula-node.exe") }

// start starts the node, and doesn't wait until it is ready: clients do. It is ended by kill
// alone, whatever ends first.
func (p *process) start(ctx context.Context) error {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), p.binary(), "serve", "--data", filepath.Join(p.dir, "data"), "--addr", p.addr) //nolint:gosec // what was built above
	cmd.Stdout, cmd.Stderr = &p.said, &p.said
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd = cmd
	return nil
}

// kill is kill -9, and waits until the process is gone. It is no error if it was gone before,
// say by an interrupt from the terminal.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it can fail only for a process that is gone
	_ = p.cmd.Wait()         // it says that the process was killed
}

// close ends the node and removes what it has written. What it said is told when something failed.
func (p *process) close(failed bool) (err error) {
	p.kill()
	if failed {
		err = fmt.Errorf("the node said:\n%s", p.said.Bytes())
	}
	return errors.Join(err, os.RemoveAll(p.dir))
}
