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
	"syscall"
	"time"

	"github.com/pyrula/pyrula-node/bench/load"
)

// What can be built and started when no address is given: the product, or the same
// node with profiles.
const (
	productPackage  = "github.com/pyrula/pyrula-node/cmd/pyrula-node"
	profiledPackage = "github.com/pyrula/pyrula-node/bench/server"
)

const (
	// readyTimeout bounds the start of a server, the replay of its journal included.
	readyTimeout = 5 * time.Minute
	// closedTimeout bounds its end, its snapshots included.
	closedTimeout = 2 * time.Minute
)

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
	host   string // host:port of the API
	pprof  string // base address of profiles; empty when there are none
	binary string
	args   []string
	cmd    *exec.Cmd
	dir    string
	ended  chan struct{} // closed when the process has ended
	how    error         // it has ended, when ended is closed
	meant  bool          // it was told to

	found recovered     // by the last start
	took  time.Duration // of the last start, to its line "ready"
}

// launch starts a server and waits until it is ready.
func (p program) launch(fsync string) (*process, error) {
	dir, err := os.MkdirTemp("", "pyrula-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a data directory: %w", err)
	}
	s := &process{dir: dir, binary: p.binary}
	s.args = append(slices.Clip(p.args), "--data", s.data(), "--addr", "127.0.0.1:0", "--fsync", fsync)
	if err := s.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the server: %w", err), os.RemoveAll(dir))
	}
	return s, nil
}

// data is the data directory.
func (s *process) data() string { return filepath.Join(s.dir, "data") }

// start starts the process, after kill or terminate over the same data, and waits
// for its line "ready". There may be arguments for this once.
func (s *process) start(more ...string) error {
	s.cmd = exec.Command(s.binary, append(slices.Clip(s.args), more...)...)
	log, err := s.cmd.StderrPipe()
	if err != nil {
		return err
	}
	s.ended, s.meant = make(chan struct{}), false
	begin := time.Now()
	if err := s.cmd.Start(); err != nil {
		s.how = err
		close(s.ended)
		return err
	}
	found := make(chan ready, 1)
	go func() {
		follow(log, os.Stderr, found)
		s.how = s.cmd.Wait()
		close(s.ended)
	}()
	select {
	case at := <-found:
		s.took, s.pprof, s.found = time.Since(begin), at.Pprof, at.recovered
		if s.host, err = hostOf(at.URL); err != nil {
			return errors.Join(err, s.kill())
		}
		return nil
	case <-s.ended:
		return fmt.Errorf("it ended before it was ready: %w", errOr(s.how, io.EOF))
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
	recovered
}

// recovered is the log line before it that says what was read back.
type recovered struct {
	Records int64   `json:"records"`
	Runs    int64   `json:"runs"`
	Keys    int64   `json:"keys"`
	Seconds float64 `json:"seconds"`
}

// follow reads a server's log to its end: it hands over the line that says ready, and
// passes on what isn't plain information. Warnings before it is ready are about its
// data directory, which is new on purpose.
func follow(log io.Reader, to io.Writer, found chan<- ready) {
	lines, started := bufio.NewScanner(log), false
	var back recovered
	for lines.Scan() {
		var r ready
		if err := json.Unmarshal(lines.Bytes(), &r); err == nil {
			switch {
			case r.Level == "INFO" && r.Msg == "ready" && !started:
				started, r.recovered = true, back
				found <- r
				continue
			case r.Level == "INFO" && r.Msg == "recovered":
				back = r.recovered
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

// terminate asks the process to end and says how long that took.
func (s *process) terminate() (time.Duration, error) {
	begin := time.Now()
	s.meant = true
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, fmt.Errorf("stop the server: %w", err)
	}
	select {
	case <-s.ended:
		if s.how != nil {
			return 0, fmt.Errorf("the server was stopped and failed: %w", s.how)
		}
		return time.Since(begin), nil
	case <-time.After(closedTimeout):
		return 0, errors.Join(fmt.Errorf("the server didn't end within %s", closedTimeout), s.kill())
	}
}

// kill ends the process at once. One that was told to end before is no error.
func (s *process) kill() error {
	s.meant = true
	err := s.cmd.Process.Kill()
	<-s.ended
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// stop ends the server and removes its data. It is killed: a snapshot of what is thrown
// away would only cost time. One that has ended by itself is an error.
func (s *process) stop() error {
	var err error
	select {
	case <-s.ended:
		if !s.meant {
			err = fmt.Errorf("the server ended by itself: %w", errOr(s.how, io.EOF))
		}
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

// heap writes a profile of what is alive, after a collection.
func (s *process) heap(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	return fetch(s.pprof+"/debug/pprof/heap?gc=1", file)
}

// fetch writes what an address answers to a file.
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
