package actors

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pyrula/pyrula-node/flow"
)

// gatesText is a stamp's gates for a log line.
func gatesText(s *flow.Stamp) string {
	if s.Unknown {
		return "unknown"
	}
	parts := make([]string, 0, len(s.Gates))
	for i := range s.Gates {
		g := &s.Gates[i]
		parts = append(parts, gateText(flow.Rule{Kind: g.Kind, Max: g.Max, Interval: g.Interval, Burst: g.Burst}, g.KeyName))
	}
	return joined(parts)
}

// rulesText is a declaration's gates for a log line.
func rulesText(d *flow.Definition) string {
	parts := make([]string, 0, len(d.Rules))
	for _, r := range d.Rules {
		parts = append(parts, gateText(r, r.Key.Text()))
	}
	return joined(parts)
}

func gateText(r flow.Rule, key string) string {
	if r.Kind == flow.GateLimit {
		return fmt.Sprintf("limit %d by %s", r.Max, key)
	}
	return fmt.Sprintf("rate %g/s burst %d by %s", flow.PerSecond(r.Interval), r.Burst, key)
}

func joined(parts []string) string {
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// sameGates says whether two stamps judge a run by the same gates, keys included.
func sameGates(a, b *flow.Stamp) bool {
	return slices.Equal(a.Gates, b.Gates) && (len(a.Gates) > 0 || a.Unknown == b.Unknown)
}
