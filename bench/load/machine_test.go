package load

import (
	"testing"
	"time"
)

// Fails when a program's name with spaces or brackets moves the fields.
func TestParseProcessCPU(t *testing.T) {
	const rest = " S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0"
	for _, name := range []string{"(server)", "(a b)", "(x) y) 1)"} {
		if got := parseProcessCPU("42 " + name + rest); got != 3*time.Second {
			t.Errorf("%s took %v, want 3s", name, got)
		}
	}
	for _, text := range []string{"", "42 (x)", "42 (x) S 1"} {
		if got := parseProcessCPU(text); got != 0 {
			t.Errorf("%q took %v", text, got)
		}
	}
}

// Fails when a busy machine counts as quiet.
func TestQuiet(t *testing.T) {
	if !quiet(15, 85) || quiet(16, 84) || !quiet(0, 0) {
		t.Error("the bound isn't 85 % idle")
	}
}

// Fails when the model isn't the text behind the first "model name".
func TestCPUModel(t *testing.T) {
	if got := cpuModel("processor\t: 0\nmodel name\t: Fast: 3000\nmodel name\t: Slow\n"); got != "Fast: 3000" {
		t.Errorf("model is %q", got)
	}
	if got := cpuModel("no such line\n"); got != "" {
		t.Errorf("model is %q, want none", got)
	}
}

// Fails when the probe of the disk leaves its file behind.
func TestMeasureFsync(t *testing.T) {
	dir := t.TempDir()
	if _, err := MeasureFsync(dir); err != nil {
		t.Fatal(err)
	}
	if text := readText(dir + "/fsync.probe"); text != "" {
		t.Error("the probe is still there")
	}
	if _, err := MeasureFsync(dir + "/none"); err == nil {
		t.Error("a directory that isn't there was probed")
	}
}

// Fails when time that went to either end counts as others'.
func TestOthers(t *testing.T) {
	c := CPUShare{Client: 1, Server: 2, Busy: 5, Idle: 5}
	if got := c.Others(); got != .2 {
		t.Errorf("others have %g, want 0.2", got)
	}
	if got := (CPUShare{Client: 9, Busy: 5, Idle: 5}).Others(); got != 0 {
		t.Errorf("others have %g, want 0", got)
	}
	if got := (CPUShare{}).Others(); got != 0 {
		t.Errorf("others of nothing have %g", got)
	}
}
