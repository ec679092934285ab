package pyrula_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/persistence/enginetest"
	"github.com/pyrula/pyrula-node/pyrula"
	"github.com/pyrula/pyrula-node/transport"
)

// ground is a real node over an engine in memory, in a bubble of virtual time. It can be
// killed and started again; what was acknowledged is still there then.
type ground struct {
	*testing.T

	crashing chan struct{} // has room for one crash; a mutex would hold virtual time back
	mem      *enginetest.Mem
	over     bool       // no crash comes any more; guarded by crashing, like mem
	mu       sync.Mutex // guards what follows
	archive  *enginetest.Archive
	node     *actors.Node
	server   *transport.Server // nil while the node is down
	life     context.Context   //nolint:containedctx // of the requests to the present node; a crash ends it
	kill     context.CancelFunc
	problems []string
	observe  func(c call, status int) // told of each request that the node has answered
}

func newGround(t *testing.T) *ground {
	g := &ground{
		T: t, mem: enginetest.NewMem(enginetest.MemConfig{Shards: 4}), archive: enginetest.NewArchive(), crashing: make(chan struct{}, 1),
	}
	g.open()
	return g
}

// brokenf notes what must not happen. Any goroutine may.
func (g *ground) brokenf(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.problems = append(g.problems, fmt.Sprintf(format, args...))
}

// fatal is the last words of a node: it was killed in the middle of an append, or has
// broken a law.
func (g *ground) fatal(err error) {
	g.mu.Lock()
	down := g.server == nil
	g.mu.Unlock()
	if !down {
		g.brokenf("the node ended itself: %v", err)
	}
	runtime.Goexit()
}

func (g *ground) open() {
	n, err := actors.Open(actors.Config{Engine: g.mem, Archive: g.archive, Fatal: g.fatal, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		g.brokenf("open: %v", err)
		return
	}
	ctx, cancel := context.WithTimeout(g.Context(), time.Minute)
	defer cancel()
	if err := errors.Join(g.mem.Start(g.Context()), n.WaitReady(ctx)); err != nil {
		g.brokenf("start: %v", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.node, g.server = n, transport.NewServer(transport.Config{Node: n, Logger: slog.New(slog.DiscardHandler)})
	g.life, g.kill = context.WithCancel(context.Background())
}

// fall ends the node in the middle of whatever it does.
func (g *ground) fall(keep int) {
	g.mu.Lock()
	n := g.node
	g.server = nil
	g.mu.Unlock()
	g.mem = g.mem.Crash(keep)
	g.kill()
	_ = n.Close() // ends its goroutines; what was in the middle of an append can't end its turn
}

// crash plays kill -9 and a start: keep of the entries that nobody was told of survive.
func (g *ground) crash(keep int) {
	g.crashing <- struct{}{}
	defer func() { <-g.crashing }()
	if !g.over {
		g.fall(keep)
		g.open()
	}
}

// end closes the node, and gives back what was broken.
func (g *ground) end() []string {
	g.crashing <- struct{}{}
	defer func() { <-g.crashing }()
	g.over = true
	g.kill()
	if err := errors.Join(g.node.Close(), g.mem.Close(context.Background())); err != nil {
		g.brokenf("close: %v", err)
	}
	<-time.After(time.Minute) // a bubble ends with all of its goroutines
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.problems
}

// serve has the present node answer a request, unless it is down or dies over it.
func (g *ground) serve(r *http.Request, c call) (*http.Response, error) {
	g.mu.Lock()
	server, life, observe := g.server, g.life, g.observe
	g.mu.Unlock()
	if server == nil {
		return nil, errBroken
	}
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	defer context.AfterFunc(life, stop)()
	in := r.Clone(ctx)
	in.Body = io.NopCloser(bytes.NewReader(c.body))
	in.RequestURI, in.RemoteAddr = r.URL.RequestURI(), "192.0.2.1:1"
	out := httptest.NewRecorder()
	server.ServeHTTP(out, in)
	if observe != nil {
		observe(c, out.Code) // before anybody else can know of it
	}
	switch {
	case r.Context().Err() != nil:
		return nil, r.Context().Err()
	case life.Err() != nil:
		return nil, errBroken
	}
	return out.Result(), nil
}

// fate is what happens around one request of a process.
type fate int

const (
	fine      fate = iota
	lost           // it never arrives
	cut            // it arrives, and the answer is lost
	killed         // its process dies before it is sent
	killedCut      // its process dies when it has arrived
	fallen         // the node dies before it arrives
	fallenCut      // the node dies when it has answered, and the answer is lost
	fateCount
)

// line is the connection of one process to the node: the process is dead when its line is.
type line struct {
	g     *ground
	of    string       // the only requests that fates count; empty means all
	fates map[int]fate // by the request's number
	died  func()       // called once, when it dies; may be nil

	mu   sync.Mutex
	n    int
	dead bool
}

// die ends the process.
func (l *line) die() {
	l.mu.Lock()
	again := l.dead
	l.dead = true
	l.mu.Unlock()
	if !again && l.died != nil {
		go l.died()
	}
}

func (l *line) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// next is the fate of the next request.
func (l *line) next(c call) (f fate, dead bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if strings.Contains(c.path, l.of) {
		f = l.fates[l.n]
		l.n++
	}
	return f, l.dead
}

// RoundTrip implements http.RoundTripper.
func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	c := call{method: r.Method, path: r.URL.EscapedPath(), nth: 1}
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		c.body = body
	}
	f, dead := l.next(c)
	if dead {
		return nil, errBroken
	}
	switch f {
	case lost:
		return nil, errBroken
	case killed:
		l.die()
		return nil, errBroken
	case fallen:
		go l.g.crash(0)
		return nil, errBroken
	}
	out, err := l.g.serve(r, c)
	switch f {
	case killedCut:
		l.die()
		return nil, errBroken
	case fallenCut:
		go l.g.crash(1)
		return nil, errBroken
	case cut:
		return nil, errBroken
	}
	if l.isDead() {
		return nil, errBroken
	}
	return out, err
}

// dial makes a client over a line.
func (l *line) dial(ctx context.Context) (*pyrula.Client, error) {
	return pyrula.Dial(ctx, pyrula.WithAddr("node.test:7477"), pyrula.WithHTTPClient(&http.Client{Transport: l}),
		pyrula.WithRetryFor(pyrula.MaxRetryFor), pyrula.WithDialTimeout(time.Hour))
}

// lineKey finds the line of the worker in whose hands a body is.
type lineKey struct{}

// crew is the workers at work: one that dies or drains is replaced.
type crew struct {
	g         *ground
	name      string // of the workers, before their number
	workflows []pyrula.Definition
	fates     []map[int]fate // of the workers in the order in which they start; none for later ones

	mu      sync.Mutex
	started int
	ended   bool
	stops   map[*line]context.CancelFunc
	running sync.WaitGroup
}

func newCrew(g *ground, fates []map[int]fate, workflows ...pyrula.Definition) *crew {
	return &crew{g: g, name: "w", workflows: workflows, fates: fates, stops: map[*line]context.CancelFunc{}}
}

// start starts one more worker.
func (c *crew) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	l := &line{g: c.g}
	if c.started < len(c.fates) {
		l.fates = c.fates[c.started]
	}
	c.started++
	l.died = func() { c.replace(l) }
	ctx, stop := context.WithCancel(context.WithValue(context.Background(), lineKey{}, l))
	c.stops[l] = stop
	c.running.Add(1)
	go c.work(ctx, l, fmt.Sprint(c.name, c.started))
}

func (c *crew) work(ctx context.Context, l *line, name string) {
	defer c.running.Done()
	client, err := l.dial(ctx)
	if err != nil {
		if !l.isDead() && ctx.Err() == nil {
			c.g.brokenf("%s can't dial: %v", name, err)
		}
		return
	}
	w, err := client.NewWorker(pyrula.WorkerConfig{
		Name: name, Concurrency: 3, DrainTimeout: time.Second, Logger: slog.New(slog.DiscardHandler),
	}, c.workflows...)
	if err == nil {
		err = w.Run(ctx)
	}
	if err != nil && !l.isDead() && !errors.Is(err, pyrula.ErrDrainTimeout) {
		c.g.brokenf("%s ended with %v", name, err)
	}
}

// replace ends a worker, which drains if its process lives, and starts another.
func (c *crew) replace(l *line) {
	c.mu.Lock()
	stop := c.stops[l]
	delete(c.stops, l)
	c.mu.Unlock()
	if stop != nil {
		stop()
		c.start()
	}
}

// any is one of the workers, nil when there is none.
func (c *crew) any() *line {
	c.mu.Lock()
	defer c.mu.Unlock()
	for l := range c.stops {
		return l
	}
	return nil
}

// end ends all workers.
func (c *crew) end() {
	c.mu.Lock()
	c.ended = true
	for _, stop := range c.stops {
		stop()
	}
	c.mu.Unlock()
	c.running.Wait()
}
