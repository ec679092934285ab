package keyactor

import "github.com/pyrula/pyrula-node/flow"

const (
	second = flow.Second
	milli  = flow.Millisecond
)

// limited, rated and both are stamps as a declaration makes them.
func limited(key string, limit int64) *flow.Stamp {
	return &flow.Stamp{Version: "1", Gates: []flow.Gate{{Kind: flow.GateLimit, KeyName: "k", Key: key, Max: limit}}}
}

func rated(key string, interval flow.Span, burst int64) *flow.Stamp {
	return &flow.Stamp{Version: "1", Gates: []flow.Gate{{Kind: flow.GateRate, KeyName: "k", Key: key, Interval: interval, Burst: burst}}}
}

func both(l, r *flow.Stamp) *flow.Stamp {
	return &flow.Stamp{Version: "1", Gates: []flow.Gate{l.Gates[0], r.Gates[0]}}
}

func keyOf(value string) flow.KeyID { return flow.KeyID{Workflow: "w", Value: value} }
