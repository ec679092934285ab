package main

import (
	"bytes"
	"os"
	"testing"
)

// TestFileIsWhatIsGenerated fails when the file and its generator have parted.
func TestFileIsWhatIsGenerated(t *testing.T) {
	have, err := os.ReadFile("../sync_accounts.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, lines()) {
		t.Error("sync_accounts.ndjson isn't what go generate ./examples writes")
	}
}
