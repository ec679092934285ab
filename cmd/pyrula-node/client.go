package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

// maxBodyBytes bounds what is kept of an answer, as the SDK does.
const maxBodyBytes = 64<<20 + 1

// tape keeps the body of the last answer as it came, since -o json prints just that:
// what this program was built with may know fewer fields than the node sends.
type tape struct {
	next http.RoundTripper
	body []byte
}

// RoundTrip sends a request and keeps the answer's body.
func (t *tape) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBodyBytes))
	if closed := resp.Body.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, err
	}
	t.body = body
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// asker is a connection to a node for one command.
type asker struct {
	*pyrula.Client
	tape *tape
}

// ask connects to the node that --addr or PYRULA_ADDR names. It asks nobody, and
// nothing is repeated: whoever types a command wants to know at once that there is
// no node.
func (p *program) ask(c *cobra.Command) (*asker, error) {
	addr, err := c.Flags().GetString("addr")
	if err != nil {
		return nil, err
	}
	origin := "--addr"
	if env := p.getenv(pyrula.AddrVariable); env != "" && !c.Flags().Changed("addr") {
		addr, origin = env, pyrula.AddrVariable
	}
	if _, rest, found := strings.Cut(strings.TrimSuffix(addr, "/"), "://"); strings.Contains(rest, "/") || !found && strings.Contains(addr, "/") {
		return nil, &usageError{c.CommandPath(), fmt.Errorf("%s %q: want host:port or a URL without a path", origin, addr)}
	}
	t := &tape{next: &http.Transport{Proxy: http.ProxyFromEnvironment}}
	client, err := pyrula.Dial(c.Context(), pyrula.WithAddr(addr), pyrula.WithDialTimeout(0),
		pyrula.WithRetryFor(0), pyrula.WithHTTPClient(&http.Client{Transport: t}))
	if err != nil {
		return nil, err
	}
	return &asker{client, t}, nil
}

// declareAsking gives a command, and those below it, the flags of one that asks a
// node.
func (p *program) declareAsking(c *cobra.Command) {
	flags := c.PersistentFlags()
	flags.String("addr", wire.DefaultAddr, "`host:port` or URL of the node ["+pyrula.AddrVariable+"]")
	flags.VarP(&answerFormat{p}, "output", "o", "table; json: the answer of the API as it came, and an error as a problem document; or id, where ids are listed or made")
}

// printsIDs marks a command that knows -o id.
var printsIDs = map[string]string{asID: ""}

// answerFormat is the value of -o where a node is asked.
type answerFormat struct{ p *program }

// String is "table", "json" or "id".
func (f *answerFormat) String() string {
	switch {
	case f.p != nil && f.p.asJSON:
		return asJSON
	case f.p != nil && f.p.asIDs:
		return asID
	}
	return asTable
}

// Set takes "table", "json" or "id".
func (f *answerFormat) Set(text string) error {
	if text != asTable && text != asJSON && text != asID {
		return fmt.Errorf("want %s, %s or %s", asTable, asJSON, asID)
	}
	f.p.asJSON, f.p.asIDs = text == asJSON, text == asID
	return nil
}

// Type names the value in a help text.
func (f *answerFormat) Type() string { return "format" }

// format is the value of -o where no node is asked.
type format bool

const (
	asTable = "table"
	asJSON  = "json"
	asID    = "id"
)

// String is "table" or "json".
func (f *format) String() string {
	if f != nil && *f {
		return asJSON
	}
	return asTable
}

// Set takes "table" or "json".
func (f *format) Set(text string) error {
	if text != asTable && text != asJSON {
		return fmt.Errorf("want %s or %s", asTable, asJSON)
	}
	*f = text == asJSON
	return nil
}

// Type names the value in a help text.
func (f *format) Type() string { return "format" }

// print gives the answer as it came, or lets table write it.
func (p *program) print(a *asker, table func() error) error {
	if !p.asJSON {
		return table()
	}
	body := bytes.TrimRight(a.tape.body, "\n")
	_, err := fmt.Fprintf(p.stdout, "%s\n", body)
	return err
}

// printOr is print for a command that knows -o id.
func (p *program) printOr(a *asker, ids []string, table func() error) error {
	if p.asIDs {
		return p.ids(ids)
	}
	return p.print(a, table)
}

// ids prints ids or names, one a line, for other commands to read.
func (p *program) ids(ids []string) error {
	for _, id := range ids {
		if _, err := fmt.Fprintln(p.stdout, id); err != nil {
			return err
		}
	}
	return nil
}

// asking wraps what a command does with a node.
func (p *program) asking(do func(context.Context, *asker, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if _, knows := c.Annotations[asID]; p.asIDs && !knows {
			return &usageError{c.CommandPath(), fmt.Errorf("-o %s: this command has no ids to print, want %s or %s", asID, asTable, asJSON)}
		}
		a, err := p.ask(c)
		if err != nil {
			return err
		}
		defer a.Close() // it never fails
		err = do(c.Context(), a, args)
		if errors.Is(err, pyrula.ErrUnreachable) && c.Context().Err() == nil {
			return p.advise(err, "Is a node running there? --addr or %s says where to ask, and %s dev starts one to try.", pyrula.AddrVariable, p.name)
		}
		return err
	}
}

// unsure is for a request that makes something and has no key of the caller's: when no
// answer came it may have been taken, and the same command would make another one. That
// isn't exit code 9, which promises that it wouldn't. how says how to find out.
func (p *program) unsure(err error, how string) error {
	if !errors.Is(err, pyrula.ErrUnreachable) && !errors.Is(err, pyrula.ErrOutcomeUnknown) {
		return err
	}
	if failed, ok := errors.AsType[*net.OpError](err); ok && failed.Op == "dial" {
		return err // nothing was sent
	}
	return p.advise(&doubtful{err}, "%s", how)
}

// doubtful is an error after which nobody knows what was done. It hides what it holds:
// that would count as safe to repeat.
type doubtful struct{ cause error }

// Error says so.
func (d *doubtful) Error() string { return "it may have been taken: " + sentence(d.cause) }

// advised is an error with what to do about it, for a person.
type advised struct {
	error
	advice string
}

// Unwrap is the error without the advice.
func (a *advised) Unwrap() error { return a.error }

func (p *program) advise(err error, format string, args ...any) error {
	return &advised{err, fmt.Sprintf(format, args...)}
}
