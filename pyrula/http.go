package pyrula

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
)

const (
	// maxAnswerBytes bounds an answer. The largest one is a claim's: 256 grants.
	maxAnswerBytes = 64 << 20
	// maxProblemBytes bounds what is read of a refusal.
	maxProblemBytes = 64 << 10
	// idleConns are kept open to the node: one for the claim that waits, one for
	// heartbeats, the others for what ends runs.
	idleConns   = 16
	idleTimeout = 90 * time.Second
)

// quoted writes a text as a structured field's string.
var quoted = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// httpTransport speaks HTTP/JSON.
type httpTransport struct {
	base   string // "http://host:port", with a prefix of the path where there is one
	client *http.Client
	owned  bool // the client was made here, so its idle connections are ours to close
}

// newHTTP reads an address: "host:port", ":port" for this machine, or a URL with
// http or https. Without a client it makes its own.
func newHTTP(addr string, client *http.Client) (*httpTransport, error) {
	text := addr
	if !strings.Contains(text, "://") {
		if strings.HasPrefix(text, ":") {
			text = "127.0.0.1" + text
		}
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%w: the address %q must be host:port or a URL with http or https", ErrConfiguration, addr)
	}
	if port := u.Port(); port != "" {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return nil, fmt.Errorf("%w: the address %q: the port must be a number from 0 to 65535", ErrConfiguration, addr)
		}
	}
	t := &httpTransport{base: strings.TrimSuffix(u.String(), "/"), client: client}
	if client == nil {
		t.owned = true
		t.client = &http.Client{Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			MaxIdleConnsPerHost: idleConns,
			IdleConnTimeout:     idleTimeout,
		}}
	}
	return t, nil
}

func (t *httpTransport) close() {
	if t.owned {
		t.client.CloseIdleConnections()
	}
}

func (t *httpTransport) send(ctx context.Context, r *request, out any) error {
	resp, err := t.do(ctx, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return problemOf(resp)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes+1))
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	case len(raw) > maxAnswerBytes:
		return fmt.Errorf("%w: it has more than %d bytes", ErrBadAnswer, maxAnswerBytes)
	case out == nil:
		return nil
	}
	if bare, ok := out.(*[]byte); ok {
		*bare = raw
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("%w: %w", ErrBadAnswer, err)
	}
	return nil
}

func (t *httpTransport) do(ctx context.Context, r *request) (*http.Response, error) {
	target := t.base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	var body io.Reader
	if r.encoded != nil {
		body = bytes.NewReader(r.encoded)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	req.Header.Set("Accept", wire.ContentJSON)
	if body != nil {
		req.Header.Set("Content-Type", cmp.Or(r.contentType, wire.ContentJSON))
	}
	if r.idempotencyKey != "" {
		req.Header.Set("Idempotency-Key", `"`+quoted.Replace(r.idempotencyKey)+`"`)
	}
	if r.eventKey != nil {
		req.Header.Set(wire.HeaderKey, url.PathEscape(*r.eventKey))
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return resp, nil
}

// problemOf reads a refusal: a problem document, or whatever stands between here
// and the node says instead.
func problemOf(resp *http.Response) error {
	e := &APIError{}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxProblemBytes))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if kind == wire.ContentProblem && json.Unmarshal(raw, &e.Problem) != nil {
		e.Problem = wire.Problem{} // not what it says it is: the status has to do
	}
	e.Problem.Status = resp.StatusCode
	after, err := strconv.ParseInt(resp.Header.Get("Retry-After"), 10, 32)
	if err == nil && after > 0 && e.Problem.RetryAfterMS == 0 {
		e.Problem.RetryAfterMS = after * 1000
	}
	return e
}
