package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/pyrula/pyrula-node/bench/load"
)

// What can be built and started when no address is given: the product, or the same
// node with profiles.
const (
	productPackage  = "github.com/pyrula/pyrula-node/cmd/pyrula-node"
	profiledPackage = "github.com/pyrula/pyrula-node/bench/server"
)

// readyTimeout bounds the start of a server.
const readyTimeout = 30 * time.Second

// program is a built server and the arguments that come first.
type program struct {
	binary string
	args   []string
}

// build compiles a server into dir.
func build(dir string, profiled bool) (program, error) {
	p := program{filepath.Join(dir, "server"), []string{"serve", "--log-format", "json"}}
	source := productPackage
	if profiled {
		source, p.args = profiledPackage, nil
	}
	if out, err := exec.Command("go", "build", "-o", p.binary, source).CombinedOutput(); err != nil {
		return p, fmt.Errorf("build the server: %w: %s", err, out)
	}
	return p, nil
}

// process is a server in a process of its own, over a data directory of its own.
type process struct {
	host  string // host:port of the API
	pprof string // base address of profiles; empty when there are none
	cmd   *exec.Cmd
	dir   string
	ended chan error // the process has ended, and how
}

// launch starts a server and waits until it is ready.
func (p program) launch(fsync string) (*process, error) {
	dir, err := os.MkdirTemp("", "pyrula-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a data directory: %w", err)
	}
	args := append(slices.Clip(p.args), "--data", filepath.Join(dir, "data"), "--addr", "127.0.0.1:0", "--fsync", fsync)
	s := &process{dir: dir, cmd: exec.Command(p.binary, args...), ended: make(chan error, 1)}
	if err := s.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the server: %w", err), os.RemoveAll(dir))
	}
	return s, nil
}

// start starts the process and waits for its line "ready".
func (s *process) start() error {
	log, err := s.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	found := make(chan ready, 1)
	go func() {
		follow(log, os.Stderr, found)
		s.ended <- s.cmd.Wait()
	}()
	select {
	case at := <-found:
		s.pprof = at.Pprof
		if s.host, err = hostOf(at.URL); err != nil {
			return errors.Join(err, s.kill())
		}
		return nil
	case err := <-s.ended:
		return fmt.Errorf("it ended before it was ready: %w", errOr(err, io.EOF))
	case <-time.After(readyTimeout):
		return errors.Join(fmt.Errorf("not ready after %s", readyTimeout), s.kill())
	}
}

func errOr(err, other error) error {
	if err == nil {
		return other
	}
	return err
}

// ready is the log line that says where a server is.
type ready struct {
	Level string `json:"level"`
	Msg   string `json:"msg"`
	URL   string `json:"url"`
	Pprof string `json:"pprof"`
}

// follow reads a server's log to its end: it hands over the line that says ready, and
// passes on what isn't plain information. Warnings before it is ready are about its
// data directory, which is new on purpose.
func follow(log io.Reader, to io.Writer, found chan<- ready) {
	lines, started := bufio.NewScanner(log), false
	for lines.Scan() {
		var r ready
		if err := json.Unmarshal(lines.Bytes(), &r); err == nil {
			switch {
			case r.Level == "INFO" && r.Msg == "ready" && !started:
				started = true
				found <- r
				continue
			case r.Level == "INFO", r.Level == "WARN" && !started:
				continue
			}
		}
		fmt.Fprintf(to, "server: %s\n", bytes.TrimSpace(lines.Bytes()))
	}
}

// hostOf is the host:port of a base address.
func hostOf(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("address of the node: %w", err)
	}
	if u.Scheme != "http" || u.Port() == "" {
		return "", fmt.Errorf("address of the node is %q, want http://HOST:PORT", address)
	}
	return u.Host, nil
}

// usage is the CPU time that the server has taken so far.
func (s *process) usage() time.Duration { return load.ProcessCPU(s.cmd.Process.Pid) }

// kill ends the process at once.
func (s *process) kill() error {
	err := s.cmd.Process.Kill()
	<-s.ended //nolint:errcheck // killed, which is no news
	return err
}

// stop ends the server and removes its data. It is killed: a snapshot of what is thrown
// away would only cost time. One that has ended by itself is an error.
func (s *process) stop() error {
	var err error
	select {
	case err = <-s.ended:
		err = fmt.Errorf("the server ended by itself: %w", errOr(err, io.EOF))
	default:
		err = s.kill()
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// profile writes a CPU profile of the server over a time, and one of its allocations
// after it, to files whose names begin with prefix.
func (s *process) profile(prefix string, over time.Duration) error {
	if err := os.MkdirAll(filepath.Dir(prefix), 0o755); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	seconds := max(int(over.Seconds()), 1)
	for _, p := range []struct{ name, path string }{
		{"cpu", fmt.Sprintf("/debug/pprof/profile?seconds=%d", seconds)}, {"allocs", "/debug/pprof/allocs"},
	} {
		if err := fetch(s.pprof+p.path, prefix+"."+p.name+".prof"); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
	}
	return nil
}

func fetch(address, file string) error {
	resp, err := http.Get(address)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", address, resp.Status)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, resp.Body)
	return errors.Join(err, f.Close())
}
