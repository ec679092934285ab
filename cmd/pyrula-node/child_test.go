package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long a test waits for a process to say something. It decides
// nothing but when a test that hangs gives up.
const patience = 60 * time.Second

// child is the program as a process of its own.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	news  chan struct{} // has room for one: a line was written
	ended chan struct{} // closed when the process has ended and all is read
	code  int           // its exit code, when ended is closed

	mu   sync.Mutex // guards text
	text bytes.Buffer
}

// spawn starts the program. It is killed at the end of the test if it still runs.
func spawn(t *testing.T, args ...string) *child {
	t.Helper()
	return spawnAs(t, longName, args...)
}

// spawnAs starts one of the programs of TestMain.
func spawnAs(t *testing.T, name string, args ...string) *child {
	t.Helper()
	path, err := exec.LookPath(name) // TestMain has put it there
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: exec.Command(path, args...), news: make(chan struct{}, 1), ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), "GORACE="+raceOptions)
	read, write := io.Pipe()
	c.cmd.Stdout, c.cmd.Stderr = write, write
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		lines := bufio.NewReader(read)
		for {
			line, err := lines.ReadString('\n')
			c.add(line)
			if err != nil {
				return
			}
		}
	}()
	go func() {
		defer close(c.ended)
		err := c.cmd.Wait()
		if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
			c.add("wait: " + err.Error())
		} else if ok {
			c.code = exit.ExitCode()
		}
		write.Close() // it never fails
		<-copied
	}()
	t.Cleanup(func() {
		c.kill()
		if said := c.said(); strings.Contains(said, "DATA RACE") || strings.Contains(said, "panic:") {
			t.Errorf("the process has a fault:\n%s", said)
		}
	})
	return c
}

func (c *child) add(line string) {
	c.mu.Lock()
	c.text.WriteString(line)
	c.mu.Unlock()
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// said is all that the process has written.
func (c *child) said() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

// says waits until the process has written something that matches, and gives the
// first group of it.
func (c *child) says(pattern string) string {
	c.t.Helper()
	re := regexp.MustCompile(pattern)
	late := time.After(patience)
	for {
		if hit := re.FindStringSubmatch(c.said()); hit != nil {
			return hit[len(hit)-1]
		}
		select {
		case <-c.news:
		case <-c.ended:
			if re.MatchString(c.said()) {
				continue
			}
			c.t.Fatalf("the process ended with %d and didn't say %s:\n%s", c.code, pattern, c.said())
		case <-late:
			c.t.Fatalf("the process doesn't say %s:\n%s", pattern, c.said())
		}
	}
}

// url waits until the node is ready.
func (c *child) url() string {
	c.t.Helper()
	return c.says(`msg=ready url=(\S+)`)
}

func (c *child) signal(sig os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.t.Fatal(err)
	}
}

// kill is kill -9, and waits for the end.
func (c *child) kill() {
	c.t.Helper()
	c.signal(os.Kill)
	<-c.ended
}

// exit waits for the process to end by itself.
func (c *child) exit() int {
	c.t.Helper()
	select {
	case <-c.ended:
	case <-time.After(patience):
		c.t.Fatalf("the process doesn't end:\n%s", c.said())
	}
	return c.code
}
