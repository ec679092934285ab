// Command server is a node with a door for profiles: the very node of the product,
// put together by the same code, and net/http/pprof beside it, which the product
// doesn't have.
//
// It speaks as the product does: JSON log lines on stderr, of which one says "ready"
// and where. SIGTERM ends it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"os/signal"
	cpuprofile "runtime/pprof"
	"syscall"
	"time"

	"github.com/pyrula/pyrula-node/cmd/pyrula-node/node"
	"github.com/pyrula/pyrula-node/persistence"
)

// closeTimeout bounds the end: snapshots of all shards included.
const closeTimeout = 60 * time.Second

func main() {
	data := flag.String("data", "", "data directory; none means a temporary one")
	addr := flag.String("addr", "127.0.0.1:0", "where the HTTP API listens")
	fsync := flag.String("fsync", "always", `"always" or "every=D"`)
	d := door{}
	flag.StringVar(&d.addr, "pprof", "127.0.0.1:0", "where profiles are served")
	flag.StringVar(&d.start, "start-profile", "", "file that takes a CPU profile of the start")
	flag.Parse()
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	err := run(node.Config{DataDir: *data, Addr: *addr, Logger: log}, *fsync, d)
	if err != nil {
		log.Error("the server ends", "err", err)
		os.Exit(1)
	}
}

// door is where profiles go.
type door struct {
	addr  string
	start string // file; none when empty
}

func run(cfg node.Config, fsync string, d door) error {
	var err error
	if cfg.Fsync, err = persistence.ParseFsync(fsync); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", d.addr)
	if err != nil {
		return fmt.Errorf("listen for profiles: %w", err)
	}
	n, err := d.profiled(func() (*node.Node, error) { return node.Start(ctx, cfg) })
	if err != nil {
		return errors.Join(err, l.Close())
	}
	failed := make(chan error, 1)
	go func() { failed <- serveProfiles(l) }()
	r := n.Recovery()
	cfg.Logger.Info("recovered", "records", r.Records, "runs", r.Runs, "keys", r.Keys, "seconds", r.Seconds)
	cfg.Logger.Info("ready", "url", n.URL(), "pprof", "http://"+l.Addr().String())
	select {
	case <-ctx.Done():
	case err = <-failed:
	case err = <-n.Done():
	}
	bounded, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return errors.Join(err, l.Close(), n.Close(bounded))
}

// profiled starts a node under a CPU profile, if one is wanted.
func (d door) profiled(start func() (*node.Node, error)) (*node.Node, error) {
	if d.start == "" {
		return start()
	}
	f, err := os.Create(d.start)
	if err != nil {
		return nil, fmt.Errorf("profile of the start: %w", err)
	}
	if err := cpuprofile.StartCPUProfile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("profile of the start: %w", err), f.Close())
	}
	n, err := start()
	cpuprofile.StopCPUProfile()
	return n, errors.Join(err, f.Close())
}

// serveProfiles serves net/http/pprof on a listener of its own, away from the API.
func serveProfiles(l net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	if err := server.Serve(l); !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serve profiles: %w", err)
	}
	return nil
}
