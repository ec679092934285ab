package demo

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/pyrula/pyrula-node/flow"
)

// maxRuns bounds the runs of one demonstration.
const maxRuns = 100_000

// params are the parameters of one run: a JSON object as it stood in the file.
type params = json.RawMessage

// ErrBadRuns says that a file of runs can't be right; its text names the line.
var ErrBadRuns = errors.New("bad runs")

// readRuns reads one JSON object a line; empty lines are passed over.
func readRuns(from io.Reader) ([]params, error) {
	var all []params
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, flow.MaxPayloadBytes+1)
	number := 0
	wrong := func(why string) error { return fmt.Errorf("%w: line %d %s", ErrBadRuns, number, why) }
	for lines.Scan() {
		number++
		line := bytes.TrimSpace(lines.Bytes())
		switch {
		case len(line) == 0:
			continue
		case line[0] != '{' || !json.Valid(line):
			return nil, wrong("isn't a JSON object")
		case len(all) == maxRuns:
			return nil, wrong(fmt.Sprintf("is one too many: %d runs are the most", maxRuns))
		}
		all = append(all, bytes.Clone(line))
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		number++
		return nil, wrong(fmt.Sprintf("has more than %d bytes", flow.MaxPayloadBytes))
	} else if err != nil {
		return nil, fmt.Errorf("read runs: %w", err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: there are none", ErrBadRuns)
	}
	return all, nil
}
