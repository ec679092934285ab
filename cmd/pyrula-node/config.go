package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/pyrula/pyrula-node/actors"
	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/persistence"
	"github.com/pyrula/pyrula-node/persistence/archive"
)

const (
	// envPrefix begins the name of every environment variable of the program.
	envPrefix = "PYRULA_"
	// configFlag names the configuration file, by flag or as PYRULA_CONFIG.
	configFlag = "config"
	// configVariable names it in the environment.
	configVariable = envPrefix + "CONFIG"
	// maxConfigBytes bounds a configuration file.
	maxConfigBytes = 1 << 20
	// Bounds of recent: memory is for what is alive.
	minRecent, maxRecent = time.Second, 24 * time.Hour
	// maxDrainDelay bounds drain_delay: an orchestrator's patience is shorter.
	maxDrainDelay = 5 * time.Minute
)

// setting is one thing about a node that can be configured:
//
//	--node-id flag  >  PYRULA_NODE_ID  >  node_id in the file  >  default
type setting struct {
	flag    string
	initial string // the default
	usage   string
}

// settings is THE table of what can be configured.
var settings = []setting{
	{"data", "", "`directory` of journal and snapshots; it is made if it is missing"},
	{"addr", wire.DefaultAddr, "`host:port` of the HTTP API; there is no authentication, so beyond 127.0.0.1 only in a network that you trust"},
	{"fsync", "always", "`when` a commit counts as durable: always, or every=D (10ms to 1m), which may lose the last D in a power cut"},
	{"node-id", "n1", "`name` of the node, fixed when the data directory is made"},
	{"log-format", logText, "`format` of the log on standard error: text or json"},
	{"hosts", "", "`names`, comma separated, that the header Host may have beside localhost and IP addresses: those of a proxy on this machine"},
	{"max-runs", strconv.Itoa(actors.DefaultMaxRuns), "most runs in memory, `number`, ended ones included: beyond it submits are refused with 429"},
	{"recent", "10m", "`time` for which runs that have ended stay in memory; then they are read from the archive on disk (1s to 24h)"},
	{"recent-runs", strconv.Itoa(actors.DefaultRecentRuns), "most ended runs in memory, `number`: beyond it the oldest leave early"},
	{"retention", "168h", "`time` for which ended runs are kept at least; they go with the rest of their day in UTC (1h to 9600h)"},
	{"archive-loss", lossRefuse, "`what` to do when the archive lacks what was moved into it: refuse to start, or accept and go on"},
	{"drain-delay", "0s", "`time` for which /readyz answers 503 before the listener closes, so that a load balancer notices"},
}

// env is the environment variable of a setting.
func (s setting) env() string { return envPrefix + strings.ToUpper(s.key()) }

// key is the name of a setting in the file.
func (s setting) key() string { return strings.ReplaceAll(s.flag, "-", "_") }

// declareSettings gives a command the flags of some settings.
func declareSettings(flags *pflag.FlagSet, names ...string) {
	for _, s := range settings {
		if slices.Contains(names, s.flag) {
			flags.String(s.flag, s.initial, s.usage+" ["+s.env()+"]")
		}
	}
}

// value is a setting's value, and where it comes from.
type value struct {
	text   string
	origin string // "--addr", "PYRULA_ADDR", "/etc/pyrula.yaml, line 3", or originDefault
	key    string // the setting's name in the file, for a value that stands there
}

const originDefault = "default"

// values are all settings by their flag.
type values map[string]value

// resolve finds the value of every setting. A variable that is set to nothing
// counts as not set.
func resolve(flags *pflag.FlagSet, getenv func(string) string) (values, error) {
	file, err := readConfig(configPath(flags, getenv))
	if err != nil {
		return nil, err
	}
	out := values{}
	for _, s := range settings {
		v := value{text: s.initial, origin: originDefault}
		if given, ok := file[s.key()]; ok {
			v = given
		}
		if text := getenv(s.env()); text != "" {
			v = value{text: text, origin: s.env()}
		}
		if f := flags.Lookup(s.flag); f != nil && f.Changed {
			v = value{text: f.Value.String(), origin: "--" + s.flag}
		}
		out[s.flag] = v
	}
	return out, nil
}

func configPath(flags *pflag.FlagSet, getenv func(string) string) string {
	f := flags.Lookup(configFlag)
	switch {
	case f == nil:
		return ""
	case f.Changed:
		return f.Value.String()
	}
	return getenv(configVariable)
}

// located is a value in the file with the line that it stands in.
type located struct {
	set  bool
	text string
	line int
}

// UnmarshalYAML takes any scalar as the text that was written.
func (l *located) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: want a single value", n.Line)}}
	}
	*l = located{true, n.Value, n.Line}
	return nil
}

// configFile is the file's shape: the settings by their key.
type configFile struct {
	Data       located `yaml:"data"`
	Addr       located `yaml:"addr"`
	Fsync      located `yaml:"fsync"`
	NodeID     located `yaml:"node_id"`
	LogFormat  located `yaml:"log_format"`
	Hosts      located `yaml:"hosts"`
	MaxRuns    located `yaml:"max_runs"`
	Recent     located `yaml:"recent"`
	RecentRuns located `yaml:"recent_runs"`
	Retention  located `yaml:"retention"`
	Loss       located `yaml:"archive_loss"`
	DrainDelay located `yaml:"drain_delay"`
}

// readConfig reads the settings of a file; an empty path has none. Faults name the
// file and the line.
func readConfig(path string) (map[string]value, error) {
	out := map[string]value{}
	if path == "" {
		return out, nil
	}
	raw, err := readBounded(path)
	if err != nil {
		return nil, &usageError{err: fmt.Errorf("configuration: %w", err)}
	}
	var f configFile
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return nil, &usageError{err: fmt.Errorf("%s: %s", path, yamlFault(err))}
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, &usageError{err: fmt.Errorf("%s: it must hold one document", path)}
	}
	for key, l := range map[string]located{
		"data": f.Data, "addr": f.Addr, "fsync": f.Fsync, "node_id": f.NodeID,
		"log_format": f.LogFormat, "hosts": f.Hosts, "max_runs": f.MaxRuns, "drain_delay": f.DrainDelay,
		"recent": f.Recent, "recent_runs": f.RecentRuns, "retention": f.Retention, "archive_loss": f.Loss,
	} {
		if l.set {
			out[key] = value{l.text, path + ", line " + strconv.Itoa(l.line), key}
		}
	}
	return out, nil
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	raw, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", path, err)
	case len(raw) > maxConfigBytes:
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxConfigBytes)
	}
	return raw, nil
}

// yamlFault is a YAML error without the words that only mean something in Go.
func yamlFault(err error) string {
	typed, ok := errors.AsType[*yaml.TypeError](err)
	if !ok {
		return strings.TrimPrefix(err.Error(), "yaml: ")
	}
	var faults []string
	for _, fault := range typed.Errors {
		faults = append(faults, plainFault(fault))
	}
	return strings.Join(faults, "; ")
}

// plainFault is one fault of a file: "line 2: field adr not found in type main.x"
// becomes a sentence about the key adr.
func plainFault(fault string) string {
	fault, _, typed := strings.Cut(fault, " in type ")
	line, what, _ := strings.Cut(fault, ": ")
	if key, ok := strings.CutPrefix(what, "field "); ok && typed {
		key = strings.TrimSuffix(key, " not found")
		var keys []string
		for _, s := range settings {
			keys = append(keys, s.key())
		}
		return fmt.Sprintf("%s: unknown key %q%s", line, key, didYouMean(key, keys))
	}
	if strings.HasPrefix(what, "cannot unmarshal ") {
		return line + ": want settings, one a line, as addr: " + wire.DefaultAddr
	}
	return fault
}

// nodeConfig is how a node is to be, checked.
type nodeConfig struct {
	data       string // empty: a temporary directory
	addr       string
	fsync      persistence.Fsync
	nodeID     string
	logFormat  string
	hosts      []string
	maxRuns    int64
	recent     time.Duration
	recentRuns int64
	retention  time.Duration
	acceptLoss bool // of what the archive held
	drainDelay time.Duration
	offDefault []string // "fsync=every=1s": what an operator should see at once
}

// checkAddr refuses what isn't a host and the number of a port.
func checkAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || strings.Contains(host, "/") {
		return fmt.Errorf("address %q: want host:port", addr)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("address %q: the port must be a number from 0 to 65535", addr)
	}
	return nil
}

const (
	lossRefuse = "refuse"
	lossAccept = "accept"
)

const (
	logText = "text"
	logJSON = "json"
)

// duration is the value of a setting that is a time between two others.
func (vs values) duration(flag string, low, high time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(vs[flag].text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q: %s", vs[flag].text, wantDuration)
	case d < low || d > high:
		return 0, fmt.Errorf("%v: want %v to %v", d, low, high)
	}
	return d, nil
}

// nodeConfig checks the values. A fault names where the value comes from.
func (vs values) nodeConfig() (nodeConfig, error) {
	cfg := nodeConfig{data: vs["data"].text, addr: vs["addr"].text, nodeID: vs["node-id"].text, logFormat: vs["log-format"].text}
	check := func(flag string, err error) error {
		if err == nil {
			return nil
		}
		return &usageError{err: fmt.Errorf("%s (%s): %w", cmp.Or(vs[flag].key, flag), vs[flag].origin, err)}
	}
	var err error
	errs := []error{check("addr", checkAddr(cfg.addr))}
	if cfg.fsync, err = persistence.ParseFsync(vs["fsync"].text); err != nil {
		errs = append(errs, check("fsync", errors.New(strings.TrimPrefix(err.Error(), "fsync ")))) // it is named already
	}
	span := func(flag string, low, high time.Duration) time.Duration {
		d, err := vs.duration(flag, low, high)
		errs = append(errs, check(flag, err))
		return d
	}
	number := func(flag string) int64 {
		n, err := strconv.ParseInt(vs[flag].text, 10, 64)
		if err != nil || n < 1 {
			errs = append(errs, check(flag, fmt.Errorf("%q: want a whole number of at least 1", vs[flag].text)))
		}
		return n
	}
	cfg.drainDelay = span("drain-delay", 0, maxDrainDelay)
	cfg.recent = span("recent", minRecent, maxRecent)
	cfg.retention = span("retention", archive.MinRetention, archive.MaxRetention)
	cfg.maxRuns, cfg.recentRuns = number("max-runs"), number("recent-runs")
	for host := range strings.SplitSeq(vs["hosts"].text, ",") {
		if host = strings.TrimSpace(host); host != "" {
			cfg.hosts = append(cfg.hosts, host)
		}
	}
	if !flow.ValidName(cfg.nodeID) {
		errs = append(errs, check("node-id", fmt.Errorf("%q: want %s", cfg.nodeID, flow.NameRule)))
	}
	switch vs["archive-loss"].text {
	case lossRefuse:
	case lossAccept:
		cfg.acceptLoss = true
	default:
		errs = append(errs, check("archive-loss", fmt.Errorf("%q: want %s or %s", vs["archive-loss"].text, lossRefuse, lossAccept)))
	}
	if cfg.logFormat != logText && cfg.logFormat != logJSON {
		errs = append(errs, check("log-format", fmt.Errorf("%q: want %s or %s", cfg.logFormat, logText, logJSON)))
	}
	for _, s := range settings {
		if v := vs[s.flag]; v.text != s.initial && s.flag != "data" {
			cfg.offDefault = append(cfg.offDefault, s.key()+"="+v.text)
		}
	}
	return cfg, errors.Join(errs...)
}
