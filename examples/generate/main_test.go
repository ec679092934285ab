package main

import (
	"bytes"
	"os"
	"testing"
)

// TestFilesAreWhatIsGenerated fails when a file and its generator have parted.
func TestFilesAreWhatIsGenerated(t *testing.T) {
	for name, content := range files {
		have, err := os.ReadFile("../" + name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(have, content()) {
			t.Errorf("%s isn't what go generate ./examples writes", name)
		}
	}
}
