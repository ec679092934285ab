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
	profiles := flag.String("pprof", "127.0.0.1:0", "where profiles are served")
	flag.Parse()
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	err := run(node.Config{DataDir: *data, Addr: *addr, Logger: log}, *fsync, *profiles)
	if err != nil {
		log.Error("the server ends", "err", err)
		os.Exit(1)
	}
}

func run(cfg node.Config, fsync, profiles string) error {
	var err error
	if cfg.Fsync, err = persistence.ParseFsync(fsync); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", profiles)
	if err != nil {
		return fmt.Errorf("listen for profiles: %w", err)
	}
	n, err := node.Start(ctx, cfg)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	failed := make(chan error, 1)
	go func() { failed <- serveProfiles(l) }()
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
