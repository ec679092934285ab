package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/cmd/pyrula-node/node"
	"github.com/pyrula/pyrula-node/persistence"
)

// closeTimeout bounds the end of a node: requests under way and snapshots. With
// what stops before it, it stays under the 30 s of a Kubernetes pod.
const closeTimeout = 25 * time.Second

func (p *program) serveCommand() *cobra.Command {
	serve := &cobra.Command{
		Use:   "serve --data DIR",
		Short: "Run a node",
		Long: `Run a node until SIGTERM or SIGINT. Then /readyz answers 503, claims are refused,
requests under way are finished and snapshots are taken. A second signal ends the
process at once; nothing that was acknowledged is lost by that.

Each flag has an environment variable and a key in the configuration file (YAML,
the flag's name with _ for -). Flags come first, then the environment, then the file.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			vs, err := resolve(c.Flags(), p.getenv)
			if err != nil {
				return err
			}
			p.logsJSON = vs["log-format"].text == logJSON
			cfg, err := vs.nodeConfig()
			if err == nil && cfg.data == "" {
				err = &usageError{c.CommandPath(), errors.New("no data directory: say --data DIR, set PYRULA_DATA, or have data: DIR in the file of --config")}
			}
			if err != nil {
				return err
			}
			return p.serve(c.Context(), cfg)
		},
	}
	declareServeFlags(serve)
	return serve
}

// declareServeFlags are the flags of a node that is meant to stay.
func declareServeFlags(c *cobra.Command) {
	for _, s := range settings {
		declareSettings(c.Flags(), s.flag)
	}
	c.Flags().String(configFlag, "", "configuration `file` ["+configVariable+"]")
}

// serve runs a node and logs what an operator should know.
func (p *program) serve(ctx context.Context, cfg nodeConfig) error {
	log := p.logger(cfg)
	log.Info("pyrula-node starts", "version", node.Version, "data", cfg.data, "addr", cfg.addr,
		"fsync", cfg.fsync.String(), "node_id", cfg.nodeID, "off_default", cmp.Or(strings.Join(cfg.offDefault, " "), "nothing"))
	cfg.warn(log)
	for _, stray := range strayVariables(p.environ) {
		log.Warn("an environment variable isn't read: " + stray)
	}
	if isNew(cfg.data) {
		// A mistyped directory looks just like a first start, and every run seems lost.
		log.Warn("the data directory is new: the node starts without any run", "data", cfg.data)
	}
	n, err := p.start(ctx, cfg, log)
	if err != nil {
		if errors.Is(context.Cause(ctx), errInterrupted) {
			log.Info("stopped before it was ready")
			return nil
		}
		if errors.Is(err, actors.ErrArchiveLost) {
			err = fmt.Errorf("%w; put the archive back, or go on without what is gone by --archive-loss %s", err, lossAccept)
		}
		return err
	}
	r := n.Recovery()
	archived := n.Archived()
	log.Info("recovered", "records", r.Records, "runs", r.Runs, "keys", r.Keys, "seconds", r.Seconds,
		"dropped_bytes", n.Dropped(), "archived_runs", archived.Runs, "archived_idempotency_keys", archived.Keys)
	log.Info("ready", "url", n.URL())
	return p.untilEnd(ctx, n, cfg.drainDelay, log)
}

// isNew says that a directory isn't that of a node yet.
func isNew(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, persistence.ManifestName))
	return errors.Is(err, fs.ErrNotExist)
}

// warn says what the configuration costs.
func (cfg nodeConfig) warn(log *slog.Logger) {
	if every := cfg.fsync.Every(); every > 0 {
		log.Warn("a power cut loses what was acknowledged since the last fsync", "at_most", every)
	}
	host, _, _ := net.SplitHostPort(cfg.addr) // it was checked
	ip, err := netip.ParseAddr(host)
	if host != "localhost" && (err != nil || !ip.IsLoopback()) {
		log.Warn("the API can be reached from other machines, and there is no authentication", "addr", cfg.addr)
	}
}

func (p *program) logger(cfg nodeConfig) *slog.Logger {
	if cfg.logFormat == logJSON {
		return slog.New(slog.NewJSONHandler(p.stderr, nil))
	}
	return slog.New(slog.NewTextHandler(p.stderr, nil))
}

func (p *program) start(ctx context.Context, cfg nodeConfig, log *slog.Logger) (*node.Node, error) {
	return node.Start(ctx, node.Config{
		DataDir: cfg.data, Addr: cfg.addr, NodeID: cfg.nodeID, Fsync: cfg.fsync, MaxRuns: cfg.maxRuns, Hosts: cfg.hosts, Logger: log,
		RecentFor: cfg.recent, RecentRuns: cfg.recentRuns, Retention: cfg.retention, AcceptArchiveLoss: cfg.acceptLoss,
		Progress: func(at persistence.Progress) {
			log.Info("recovery goes on", "snapshot_bytes", at.Restored, "of_bytes", at.OfRestored, "segment", at.Segments, "of", at.OfSegments,
				"entries", at.Entries, "bytes", at.Bytes, "elapsed", at.Elapsed.Round(time.Millisecond))
		},
		Fatal: func(err error) {
			log.Error("the node stops: nothing is acknowledged any more", "err", err)
			os.Exit(exitOther)
		},
	})
}

// untilEnd serves until a signal or until the listener fails, and closes the node.
func (p *program) untilEnd(ctx context.Context, n *node.Node, delay time.Duration, log *slog.Logger) error {
	var failed error
	select {
	case <-ctx.Done():
		log.Info("draining", "delay", delay)
		n.Drain()
		<-time.After(delay)
	case failed = <-n.Done():
		failed = fmt.Errorf("the listener ended: %w", failed)
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := n.Close(bounded); err != nil {
		return errors.Join(failed, fmt.Errorf("close: %w", err))
	}
	log.Info("closed")
	return failed
}
