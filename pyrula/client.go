package pyrula

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// Defaults and bounds of a client.
const (
	DefaultDialTimeout    = 10 * time.Second
	DefaultRequestTimeout = 10 * time.Second
	DefaultRetryFor       = 15 * time.Second
	// MaxRetryFor keeps repeats of a submit well inside the 10 minutes for which a node
	// remembers request ids (R10).
	MaxRetryFor = 5 * time.Minute
)

// AddrVariable is the environment variable that names the node's address.
const AddrVariable = "PYRULA_ADDR"

// Client speaks with one node. It is made by [Dial] and may be used by many
// goroutines.
//
// Every request of a Client is safe to repeat, and is repeated, with jittered
// back-off, when no answer came or the node says that it can't take it now: for
// [WithRetryFor] at most, and never past the end of its context. Errors match the
// sentinels of this package with errors.Is; a refusal is an *[APIError].
type Client struct {
	transport      transport
	requestTimeout time.Duration
	retryFor       time.Duration
	closed         atomic.Bool
	known          sync.Map // *definition -> struct{}: the node knows the workflow
}

type dialing struct {
	addr           string
	client         *http.Client
	dialTimeout    time.Duration
	requestTimeout time.Duration
	retryFor       time.Duration
}

// DialOption is a setting of [Dial].
type DialOption func(*dialing)

// WithAddr is the node's address: "host:port", ":port" on this machine, or a URL
// with http or https. Without it the environment variable PYRULA_ADDR counts, else
// 127.0.0.1:7477.
func WithAddr(addr string) DialOption { return func(d *dialing) { d.addr = addr } }

// WithHTTPClient sends the requests through a client of the program, say for its TLS
// settings. The client must have no Timeout of its own under 60 s: claims and waits
// are held open for long.
func WithHTTPClient(client *http.Client) DialOption { return func(d *dialing) { d.client = client } }

// WithDialTimeout bounds how long Dial waits for a node that is ready. Default 10 s;
// 0 means that Dial asks nobody, and the first request finds out.
func WithDialTimeout(timeout time.Duration) DialOption {
	return func(d *dialing) { d.dialTimeout = timeout }
}

// WithRequestTimeout bounds one attempt of a request, beside the time that the node
// is asked to wait. Default 10 s.
func WithRequestTimeout(timeout time.Duration) DialOption {
	return func(d *dialing) { d.requestTimeout = timeout }
}

// WithRetryFor bounds how long a request is repeated in all. Default 15 s, at most
// 5 minutes; 0 means that nothing is repeated.
func WithRetryFor(span time.Duration) DialOption { return func(d *dialing) { d.retryFor = span } }

// Dial makes a client and waits until the node is ready to serve. Errors:
// [ErrConfiguration] for a wrong setting, [ErrUnreachable] or [ErrNotReady] when the
// dial timeout is over.
func Dial(ctx context.Context, opts ...DialOption) (*Client, error) {
	d := dialing{
		addr:           cmp.Or(os.Getenv(AddrVariable), wire.DefaultAddr),
		dialTimeout:    DefaultDialTimeout,
		requestTimeout: DefaultRequestTimeout,
		retryFor:       DefaultRetryFor,
	}
	for _, set := range opts {
		set(&d)
	}
	if d.dialTimeout < 0 || d.requestTimeout <= 0 || d.retryFor < 0 || d.retryFor > MaxRetryFor {
		return nil, fmt.Errorf("dial %s: %w: timeouts must not be negative, the request timeout must be above 0, and repeats end within %v",
			d.addr, ErrConfiguration, MaxRetryFor)
	}
	t, err := newHTTP(d.addr, d.client)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	c := &Client{transport: t, requestTimeout: d.requestTimeout, retryFor: d.retryFor}
	if d.dialTimeout == 0 {
		return c, nil
	}
	if err := c.awaitReady(ctx, d.dialTimeout); err != nil {
		t.close()
		return nil, fmt.Errorf("dial %s: %w", d.addr, err)
	}
	return c, nil
}

// awaitReady asks until the node is ready or the time is over.
func (c *Client) awaitReady(ctx context.Context, timeout time.Duration) error {
	return c.callWithin(ctx, &request{method: http.MethodGet, path: wire.PathReady}, nil, &retry{until: time.Now().Add(timeout)})
}

// Close lets go of the client's connections. Later requests fail with [ErrClosed];
// those under way go on. It may be called twice, and never fails.
func (c *Client) Close() error {
	if !c.closed.Swap(true) {
		c.transport.close()
	}
	return nil
}

// call sends a request and repeats it while that can help.
func (c *Client) call(ctx context.Context, r *request, out any) error {
	return c.callWithin(ctx, r, out, c.newRetry())
}

func (c *Client) callWithin(ctx context.Context, r *request, out any, again *retry) error {
	for {
		err := c.attempt(ctx, r, out)
		if err == nil || ctx.Err() != nil {
			return err
		}
		wait, ok := again.next(err)
		if !ok {
			return err
		}
		if ended := pause(ctx, wait); ended != nil {
			return fmt.Errorf("%w; the last attempt: %w", ended, err)
		}
	}
}

// attempt sends a request once.
func (c *Client) attempt(ctx context.Context, r *request, out any) error {
	if c.closed.Load() {
		return ErrClosed
	}
	if r.body != nil && r.encoded == nil {
		raw, err := json.Marshal(r.body)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		r.encoded = raw
	}
	limit := c.requestTimeout + r.wait
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := c.transport.send(bounded, r, out)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(bounded.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%w: no answer within %v", ErrUnreachable, limit)
	}
	return err
}
