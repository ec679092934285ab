package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/pyrula/pyrula-node/flow"
)

// oneName refuses anything but the name of one thing.
func oneName(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return &usageError{c.CommandPath(), fmt.Errorf("want the name of one %s, got %d arguments", what, len(args))}
		}
		return nil
	}
}

// readJSON is the JSON that a flag gives: by itself, in the file that follows an @, or on
// standard input for -.
func (p *program) readJSON(flag, value string) (json.RawMessage, error) {
	text, err := p.readText(value)
	if err != nil {
		return nil, &usageError{err: fmt.Errorf("--%s %s: %w", flag, value, err)}
	}
	var raw json.RawMessage
	err = json.Unmarshal(text, &raw)
	wrong, isSyntax := errors.AsType[*json.SyntaxError](err)
	switch {
	case len(strings.TrimSpace(string(text))) == 0:
		return nil, &usageError{err: fmt.Errorf("--%s: it is empty, want JSON", flag)}
	case isSyntax && flag == "payload" && wrong.Offset == 1:
		return nil, &usageError{err: fmt.Errorf(`--%s: not JSON: a text goes in quotes, as '"hello"'`, flag)}
	case isSyntax:
		return nil, &usageError{err: fmt.Errorf("--%s: not JSON at byte %d: %w", flag, wrong.Offset, wrong)}
	case err != nil:
		return nil, &usageError{err: fmt.Errorf("--%s: not JSON: %w", flag, err)}
	case !utf8.Valid(text):
		return nil, &usageError{err: fmt.Errorf("--%s: not UTF-8", flag)}
	}
	return raw, nil
}

// readParams is readJSON for the parameters of runs, a JSON object.
func (p *program) readParams(value string) (json.RawMessage, error) {
	raw, err := p.readJSON("params", value)
	if err == nil && raw[0] != '{' {
		return nil, &usageError{err: errors.New(`--params: want a JSON object, as '{"tenant":"acme"}'`)}
	}
	return raw, err
}

func (p *program) readText(value string) ([]byte, error) {
	switch {
	case value == "-":
		return readInput(p.stdin)
	case strings.HasPrefix(value, "@"):
		file, err := os.Open(value[1:])
		if err != nil {
			return nil, withoutPath(err)
		}
		defer file.Close() //nolint:errcheck // it was only read
		return readInput(file)
	}
	return []byte(value), nil
}

// readInput reads no more than the API takes.
func readInput(r io.Reader) ([]byte, error) {
	if r == nil {
		return nil, nil
	}
	text, err := io.ReadAll(io.LimitReader(r, flow.MaxPayloadBytes+1))
	if err == nil && len(text) > flow.MaxPayloadBytes {
		err = fmt.Errorf("it is longer than %d bytes", flow.MaxPayloadBytes)
	}
	return text, withoutPath(err)
}

// withoutPath is the error of a file without its name, which was told already.
func withoutPath(err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		return of.Err
	}
	return err
}

// earliestMillis is the first number that is read as Unix milliseconds: of 1973. What is
// less are seconds by mistake.
const earliestMillis = 100_000_000_000

// readMoment reads an instant: RFC 3339, or Unix milliseconds.
func readMoment(flag, value string) (int64, error) {
	ms, err := strconv.ParseInt(value, 10, 64)
	switch at, wrong := time.Parse(time.RFC3339, value); {
	case err == nil && ms >= earliestMillis:
		return ms, nil
	case err == nil && ms > 0:
		return 0, &usageError{err: fmt.Errorf("--%s %s: that is in %d: want milliseconds, not seconds", flag, value, time.UnixMilli(ms).UTC().Year())}
	case wrong == nil && at.UnixMilli() >= earliestMillis:
		return at.UnixMilli(), nil
	}
	return 0, &usageError{err: fmt.Errorf("--%s %q: want a time with its zone, as 2026-03-01T03:00:00Z, or Unix milliseconds", flag, value)}
}
