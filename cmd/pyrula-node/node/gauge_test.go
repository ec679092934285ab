package node_test

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

func newPool() *http.Transport { return &http.Transport{MaxIdleConnsPerHost: 4} }

// gauge reads a figure of /metrics; 0 when it isn't there.
func (s *served) gauge(name string) float64 {
	s.t.Helper()
	for line := range strings.Lines(s.seen("/metrics").text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			f, err := strconv.ParseFloat(v, 64)
			if err != nil {
				s.t.Fatal(err)
			}
			return f
		}
	}
	return 0
}

// waitFor waits until a figure of /metrics is what it must become.
func (s *served) waitFor(name string, want float64) {
	s.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for s.gauge(name) != want {
		select {
		case <-tick.C:
		case <-late:
			s.t.Fatalf("%s is %v, want %v", name, s.gauge(name), want)
		}
	}
}
