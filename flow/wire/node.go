package wire

// NodeShard is one shard as this node sees it.
type NodeShard struct {
	ID    int    `json:"id"`
	Role  string `json:"role"` // owner or follower
	Owner string `json:"owner"`
}

// Recovery is what the last start read back.
type Recovery struct {
	Records int64   `json:"records"`
	Runs    int64   `json:"runs"`
	Keys    int64   `json:"keys"`
	Seconds float64 `json:"seconds"`
}

// Node answers GET /v1/node.
type Node struct {
	NodeID   string      `json:"node_id"`
	Version  string      `json:"version"`
	DataDir  string      `json:"data_dir"`
	Fsync    string      `json:"fsync"`
	Shards   []NodeShard `json:"shards"`
	Recovery Recovery    `json:"recovery"`
}

// Ready answers GET /readyz: 200 when Ready, else 503. Checks stand only when
// ?verbose asks for them.
type Ready struct {
	Ready  bool         `json:"ready"`
	Reason string       `json:"reason,omitempty"`
	Checks []ReadyCheck `json:"checks,omitempty"`
}

// ReadyCheck is one thing that must hold before a node is ready.
type ReadyCheck struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"`
}

// Live answers GET /livez: the process answers requests.
type Live struct {
	Live bool `json:"live"`
}
