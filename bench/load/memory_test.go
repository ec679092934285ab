package load

import (
	"os"
	"testing"
)

// Fails when a line's unit or its neighbours are misread.
func TestParseMemory(t *testing.T) {
	const status = "Name:\tserver\nVmHWM:\t   900 kB\nVmRSS:\t   300 kB\nRssAnon:\t     200 kB\nRssFile:\t 100 kB\nThreads:\t7\n"
	if got, want := parseMemory(status), (Memory{RSS: 300 << 10, Anon: 200 << 10}); got != want {
		t.Errorf("memory is %+v, want %+v", got, want)
	}
	if got := parseMemory("VmRSS:\tlots kB\n"); got != (Memory{}) {
		t.Errorf("memory is %+v, want none", got)
	}
	if got := ProcessMemory(os.Getpid()); got.Anon <= 0 || got.Anon > got.RSS {
		t.Errorf("this process has %+v", got)
	}
}
