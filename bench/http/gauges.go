package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pyrula/pyrula-node/bench/load"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// gauges are the values of one scrape by their name; those that differ only in labels
// are added up.
type gauges map[string]float64

// scrapeClient asks for metrics, on connections of its own.
var scrapeClient = http.Client{Timeout: time.Minute}

// scrape asks a node for its metrics.
func scrape(host string) (gauges, error) {
	text, err := scraped(host)
	if err != nil {
		return nil, err
	}
	return parseGauges(bytes.NewReader(text))
}

// scrapeBuckets asks a node for one of its histograms.
func scrapeBuckets(host, name string) (histogram, error) {
	text, err := scraped(host)
	if err != nil {
		return nil, err
	}
	return parseBuckets(text, name)
}

func scraped(host string) ([]byte, error) {
	resp, err := scrapeClient.Get("http://" + host + wire.PathMetrics)
	if err != nil {
		return nil, fmt.Errorf("ask for metrics: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask for metrics: %s", resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxBodyBytes))
	if err != nil {
		return nil, fmt.Errorf("ask for metrics: %w", err)
	}
	return text, nil
}

// parseGauges reads Prometheus' text format, in which no label of a node has a space
// behind its last brace.
func parseGauges(r io.Reader) (gauges, error) {
	g := gauges{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		at := strings.LastIndexByte(lines.Text(), ' ')
		if at < 0 || strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		v, err := strconv.ParseFloat(lines.Text()[at+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
		name, _, _ := strings.Cut(lines.Text()[:at], "{")
		g[name] += v
	}
	return g, lines.Err()
}

// footprint is what a server takes of memory and disk, in bytes.
type footprint struct {
	RSSAnon   int64 `json:"rss_anon_bytes"`
	RSS       int64 `json:"rss_bytes"`
	HeapInUse int64 `json:"heap_in_use_bytes"`
	// HeapLive is half of the heap at which the next collection begins, so with the
	// runtime's GOGC of 100 what the last one has left, and half of the stacks.
	HeapLive    int64 `json:"heap_live_bytes"`
	Collections int64 `json:"gc_cycles"`
	Journal     int64 `json:"journal_bytes"`
	Snapshots   int64 `json:"snapshot_bytes"`
}

// footprint measures the server; g is what it has said of itself.
func (s *process) footprint(g gauges) (footprint, error) {
	m := load.ProcessMemory(s.cmd.Process.Pid)
	f := footprint{
		RSSAnon: m.Anon, RSS: m.RSS,
		HeapInUse: int64(g["go_memstats_heap_inuse_bytes"]), HeapLive: int64(g["go_memstats_next_gc_bytes"] / 2),
		Collections: int64(g["go_gc_duration_seconds_count"]),
	}
	var err, more error
	f.Journal, err = sizeOf(s.journal())
	f.Snapshots, more = sizeOf(s.snapshots())
	return f, errors.Join(err, more)
}

// The parts of a data directory, as docs/journal-format.md has them.
func (s *process) journal() string   { return filepath.Join(s.data(), "journal") }
func (s *process) snapshots() string { return filepath.Join(s.data(), "snapshots") }
func (s *process) archive() string   { return filepath.Join(s.data(), "archive") }

// sizeOf is the size of the files below a directory, which come and go meanwhile.
func sizeOf(dir string) (int64, error) {
	var total int64
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = e.Info(); err == nil {
				total += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("measure %s: %w", dir, err)
	}
	return total, nil
}

// newestSnapshots is the size of the newest snapshot of each shard. The server keeps
// two of them.
func newestSnapshots(dir string) (int64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, fmt.Errorf("list snapshots: %w", err)
	}
	newest := map[string]fs.FileInfo{}
	var total int64
	for _, e := range entries {
		shard, _, ok := strings.Cut(e.Name(), "-epoch-")
		info, err := e.Info()
		if err != nil {
			return 0, fmt.Errorf("list snapshots: %w", err)
		}
		if have := newest[shard]; !ok || have != nil && !info.ModTime().After(have.ModTime()) {
			continue
		}
		if have := newest[shard]; have != nil {
			total -= have.Size()
		}
		newest[shard] = info
		total += info.Size()
	}
	return total, nil
}
