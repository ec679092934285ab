package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
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
	flags.VarP((*format)(&p.asJSON), "output", "o", "table, or json: the answer of the API as it came, and an error as a problem document")
}

// format is the value of -o.
type format bool

const (
	asTable = "table"
	asJSON  = "json"
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

// asking wraps what a command does with a node.
func (p *program) asking(do func(context.Context, *asker, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		a, err := p.ask(c)
		if err != nil {
			return err
		}
		defer a.Close() // it never fails
		return do(c.Context(), a, args)
	}
}
