package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// Bounds of a Server.
const (
	// MaxInFlight bounds the requests under way at once, long polls included.
	MaxInFlight = 8192
	// ReservedInFlight of them are kept for what ends, renews or stops work, which
	// must get through when new work no longer does (R7).
	ReservedInFlight = 1024
	// MaxHeaderBytes bounds a request's head: a key of 1 KiB takes 3 KiB of it.
	MaxHeaderBytes = 64 << 10

	readHeaderTimeout = 10 * time.Second
	// readTimeout bounds the sending of a whole request. A long poll that is still
	// waiting when it ends is cut off, so it is more than the longest one.
	readTimeout  = wire.MaxWaitMillis*time.Millisecond + 60*time.Second
	writeTimeout = readTimeout + 30*time.Second
	idleTimeout  = 3 * time.Minute
)

// Config is what a Server is made of.
type Config struct {
	// Node answers the requests. Required.
	Node Node
	// Metrics counts them and is served at /metrics; nil means a set of its own.
	Metrics *Metrics
	// Logger takes unforeseen errors; nil means nowhere.
	Logger *slog.Logger
	// Hosts are names, without a port, that the header Host may have beside localhost
	// and IP addresses. Empty means: any name on connections that don't come over a
	// loopback address, and none on those that do.
	Hosts []string
	// MaxInFlight overrides the constant; 0 means the constant.
	MaxInFlight int64
}

// Server is the HTTP API of a node. It is an http.Handler, and can also listen by
// itself. All methods may be called concurrently.
type Server struct {
	node     Node
	stats    *Metrics
	log      *slog.Logger
	hosts    []string
	most     int64
	reserved int64
	router   *router
	origin   *http.CrossOriginProtection
	inFlight atomic.Int64
	polls    polls
	http     *http.Server
}

// NewServer makes the API of a node. It starts nothing.
func NewServer(cfg Config) *Server {
	s := &Server{
		node: cfg.Node, stats: cfg.Metrics, log: cfg.Logger, most: cfg.MaxInFlight,
		router: newRouter(routes), origin: http.NewCrossOriginProtection(),
	}
	if s.stats == nil {
		s.stats = NewMetrics(Build{})
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.most <= 0 {
		s.most = MaxInFlight
	}
	s.reserved = min(ReservedInFlight, s.most/8)
	for _, h := range cfg.Hosts {
		s.hosts = append(s.hosts, strings.ToLower(h))
	}
	s.http = &http.Server{
		Handler: s, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout,
		WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: MaxHeaderBytes,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	return s
}

// Serve takes connections until Shutdown, and then answers nil. The caller may
// serve several listeners, each in a goroutine of its own.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP on %v: %w", l.Addr(), err)
	}
	return nil
}

// Drain makes the node not ready: /readyz answers 503, long polls end with what
// they have, and claims are refused. Everything else is still served, so a load
// balancer has time to notice before Shutdown.
func (s *Server) Drain() { s.polls.end() }

// Shutdown drains, closes the listeners, and waits for the requests under way
// until ctx ends; then it cuts their connections and answers ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	err := s.http.Shutdown(ctx)
	if err == nil {
		return nil
	}
	return fmt.Errorf("shut the HTTP server down: %w", errors.Join(err, s.http.Close()))
}

// ServeHTTP serves one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begin := time.Now()
	x := newExchange(s, w, r)
	under := s.inFlight.Add(1)
	s.stats.inFlight.Inc()
	defer func() {
		s.inFlight.Add(-1)
		s.stats.inFlight.Dec()
		s.stats.served(x.route, x.status, time.Since(begin))
		x.release()
	}()
	if err := s.serve(x, under); err != nil {
		x.refuse(err)
	}
}

// noRoute stands for every path and method that isn't served.
var noRoute = &route{label: "none"}

// serve finds the route, asks what must hold before any, and follows it.
func (s *Server) serve(x *exchange, under int64) error {
	x.route = noRoute
	b := s.router.find(x.r.URL, &x.vars)
	if b != nil {
		if r := b.route(x.r.Method); r != nil {
			x.route = r
		}
	}
	if err := s.admit(x, under); err != nil {
		return err
	}
	switch {
	case b == nil:
		return problem(wire.CodeNotFound, "the API has no such path")
	case x.route == noRoute:
		x.w.Header().Set("Allow", b.allow)
		return problem(wire.CodeMethod, "this path takes "+b.allow)
	}
	if err := x.readQuery(); err != nil {
		return err
	}
	return x.route.serve(x)
}

func (s *Server) admit(x *exchange, under int64) error {
	if err := s.checkHost(x.r); err != nil {
		return err
	}
	if err := s.origin.Check(x.r); err != nil {
		return problem(wire.CodeCrossOrigin, "a browser sent this for a page of another origin")
	}
	most := s.most
	if x.route.class == classNew {
		most -= s.reserved
	}
	if under > most && x.route.class != classProbe {
		return problem(wire.CodeServerBusy, fmt.Sprintf("more than %d requests are under way", most))
	}
	return nil
}
