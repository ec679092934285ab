// Command generate writes the files of examples, each time the same, into the directory in
// which it is started. They must depend on nothing but the numbers here.
package main

import (
	"encoding/json"
	"log"
	"os"
)

// files says who makes which file.
var files = map[string]func() []byte{
	"sync_accounts.ndjson": syncAccounts,
	"webhooks.ndjson":      webhooks,
}

func main() {
	for name, content := range files {
		if err := os.WriteFile(name, content(), 0o644); err != nil { //nolint:gosec // it is read by everybody
			log.Fatal(err)
		}
	}
}

// lines encodes values, one a line.
func lines[T any](all []T) (out []byte) {
	for _, one := range all {
		line, err := json.Marshal(one)
		if err != nil {
			panic(err) // texts and integers always encode
		}
		out = append(append(out, line...), '\n')
	}
	return out
}
