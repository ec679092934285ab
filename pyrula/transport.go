package pyrula

import (
	"context"
	"net/url"
	"strings"
	"time"
)

// request is one request to a node, before it is encoded.
type request struct {
	method string
	path   string        // percent-encoded
	query  url.Values    // may be nil
	body   any           // encoded as JSON; nil means no body
	wait   time.Duration // how long the node is asked to hold the answer back

	encoded        []byte  // of body, made once so that repeats are the same bytes
	contentType    string  // of encoded; empty means JSON
	idempotencyKey string  // of the header, printable ASCII; empty means none
	eventKey       *string // of the header Pyrula-Key, any text; nil means none
}

// transport carries requests to one node and answers back. It doesn't repeat, and
// it bounds nothing in time but by ctx: both belong to [Client]. Errors: *[APIError]
// for a refusal, [ErrUnreachable] when no whole answer came, [ErrBadAnswer] for an
// answer that can't be read.
type transport interface {
	// send decodes the answer into out, unless out is nil; a *[]byte takes it as it is. It
	// may be called by many goroutines.
	send(ctx context.Context, r *request, out any) error
	// close lets go of idle connections. Requests under way go on.
	close()
}

// path joins percent-encoded single segments to a root. A key may be any text, so
// "." and ".." are encoded too: a path cleaner would take them for directories
// (S99).
func path(root string, segments ...string) string {
	var b strings.Builder
	b.WriteString(root)
	for _, s := range segments {
		b.WriteByte('/')
		if s == "." || s == ".." {
			b.WriteString(strings.ReplaceAll(s, ".", "%2E"))
			continue
		}
		b.WriteString(url.PathEscape(s))
	}
	return b.String()
}
