package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// serveFlags are the flags of serve after a command line.
func serveFlags(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	p := program{}
	c := p.serveCommand()
	if err := c.Flags().Parse(args); err != nil {
		t.Fatal(err)
	}
	return c.Flags()
}

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pyrula.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestConfigPrecedence fails when a flag doesn't come before the environment, that
// before the file, and the file before the default, for each setting alike.
func TestConfigPrecedence(t *testing.T) {
	var text strings.Builder
	for _, s := range settings {
		text.WriteString(s.key() + ": from-file\n")
	}
	path := writeConfig(t, text.String())
	for i, s := range settings {
		env := map[string]string{}
		flags := []string{}
		steps := []struct {
			set          func()
			text, origin string
		}{
			{func() {}, s.initial, originDefault},
			{func() { env["PYRULA_CONFIG"] = path }, "from-file", path + ", line " + strconv.Itoa(i+1)},
			{func() { env[s.env()] = "from-env" }, "from-env", s.env()},
			{func() { flags = append(flags, "--"+s.flag, "from-flag") }, "from-flag", "--" + s.flag},
		}
		for _, step := range steps {
			step.set()
			vs, err := resolve(serveFlags(t, flags...), func(name string) string { return env[name] })
			if err != nil {
				t.Fatal(err)
			}
			if got := vs[s.flag]; got.text != step.text || got.origin != step.origin {
				t.Errorf("%s is %q from %s, want %q from %s", s.flag, got.text, got.origin, step.text, step.origin)
			}
		}
	}
}

// TestConfigFlagNamesTheFile fails when --config doesn't come before PYRULA_CONFIG.
func TestConfigFlagNamesTheFile(t *testing.T) {
	path := writeConfig(t, "addr: 127.0.0.1:1\n")
	env := func(name string) string {
		if name == "PYRULA_CONFIG" {
			return "/no/such/file"
		}
		return ""
	}
	vs, err := resolve(serveFlags(t, "--config", path), env)
	if err != nil || vs["addr"].text != "127.0.0.1:1" {
		t.Errorf("addr %q, error %v", vs["addr"].text, err)
	}
}

// TestConfigFaults fails when a wrong configuration is taken, or refused without
// saying where the fault is.
func TestConfigFaults(t *testing.T) {
	cases := []struct{ file, want string }{
		{"data: x\nfsink: always\n", `line 2: unknown key "fsink"; did you mean fsync?`},
		{"zzz: 1\n", "line 1: unknown key \"zzz\"\n"},
		{"adr: a\n", `line 1: unknown key "adr"; did you mean addr?`},
		{"addr: [a]\n", "line 1: want a single value"},
		{"addr: a\naddr: b\n", `line 2: mapping key "addr" already defined at line 1`},
		{"addr: 'a\n", "line 2: found unexpected end of stream"},
		{"- addr\n", "line 1: want settings, one a line, as addr: 127.0.0.1:7477"},
		{"addr: 127.0.0.1:1\n---\naddr: b\n", "it must hold one document"},
		{"addr: nowhere\n", `addr (FILE, line 1): address "nowhere": want host:port`},
		{"addr: 127.0.0.1:http\n", `addr (FILE, line 1): address "127.0.0.1:http": the port must be a number`},
		{"addr: 127.0.0.1:65536\n", "the port must be a number from 0 to 65535"},
		{"\nfsync: every=1h\n", "fsync (FILE, line 2): every=1h0m0s: the period is from"},
		{"node_id: \"\"\n", "node_id (FILE, line 1): \"\": want 1 to 128 bytes"},
		{"log_format: xml\n", "log_format (FILE, line 1): \"xml\": want text or json"},
		{"max_runs: 0\n", "max_runs (FILE, line 1): \"0\": want a whole number of at least 1"},
		{"drain_delay: 6m\n", "drain_delay (FILE, line 1): 6m0s: want 0s to 5m0s"},
		{"drain_delay: soon\n", `drain_delay (FILE, line 1): "soon": want a time with its unit`},
		{strings.Repeat("#", maxConfigBytes+1), "has more than 1048576 bytes"},
	}
	for _, c := range cases {
		path := writeConfig(t, c.file)
		code, stderr := invoke(t, "config", "show", "--config", path)
		if want := strings.ReplaceAll(c.want, "FILE", path); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%.40q: exit code %d and %q, want 2 and %q", c.file, code, stderr, want)
		}
	}
	if code, stderr := invoke(t, "config", "show", "--config", "/no/such/file"); code != exitUsage {
		t.Errorf("a file that isn't there: exit code %d and %q", code, stderr)
	}
}

// TestConfigOffDefault fails when what an operator should see at once isn't listed.
func TestConfigOffDefault(t *testing.T) {
	path := writeConfig(t, "")
	vs, err := resolve(serveFlags(t, "--config", path, "--fsync", "every=1s", "--data", "d", "--drain-delay", "3s"), func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := vs.nodeConfig()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(cfg.offDefault, " "); got != "fsync=every=1s drain_delay=3s" || cfg.drainDelay != 3*time.Second {
		t.Errorf("off default: %q, delay %v", got, cfg.drainDelay)
	}
}
