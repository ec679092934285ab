package transport

import (
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

const headerKey = "Idempotency-Key"

// checkMediaType takes JSON, no type at all, and from this machine also what curl
// -d sends when it isn't told otherwise. A browser can send such a form for any
// page, which is why origins are checked before.
func (x *exchange) checkMediaType() error {
	if err := x.checkEncoding(); err != nil {
		return err
	}
	sent := x.r.Header.Get("Content-Type")
	if sent == "" || sent == wire.ContentJSON || x.r.ContentLength == 0 {
		return nil
	}
	mediaType, _, err := mime.ParseMediaType(sent)
	if err == nil && x.isPlain(mediaType) {
		return nil
	}
	return problem(wire.CodeMediaType, "the Content-Type of a body must be application/json")
}

func (x *exchange) checkEncoding() error {
	if e := x.r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return problem(wire.CodeMediaType, "a body must not have a content encoding")
	}
	return nil
}

// isPlain says whether a media type means JSON and nothing more.
func (x *exchange) isPlain(mediaType string) bool {
	return mediaType == "" || mediaType == wire.ContentJSON || isForm(mediaType) && isLoopback(x.r.RemoteAddr)
}

// isLoopback says whether an address with a port is of this machine.
func isLoopback(addr string) bool {
	a, err := netip.ParseAddrPort(addr)
	return err == nil && a.Addr().Unmap().IsLoopback()
}

// keyOf merges the header Idempotency-Key with the body's field of the given name, ""
// when there is none. The two are the same thing; when both stand they must agree.
func (x *exchange) keyOf(name string, field *string) (*string, error) {
	for _, v := range x.r.Header[headerKey] {
		key, ok := headerText(v)
		switch {
		case !ok:
			return nil, flow.Invalid(headerKey, `must be a text, or a text in double quotes with \" and \\ for these two`)
		case field != nil && *field != key && name != "":
			return nil, flow.Invalid(headerKey, "must equal "+name+", and not stand twice with different values")
		case field != nil && *field != key:
			return nil, flow.Invalid(headerKey, "must not stand twice with different values")
		}
		field = &key
	}
	return field, nil
}

// requestID is keyOf for what makes a repeat known, where none is the empty text. An
// empty header would read as none, so it is refused.
func (x *exchange) requestID(name, id string) (string, error) {
	var field *string
	if id != "" {
		field = &id
	}
	key, err := x.keyOf(name, field)
	switch {
	case err != nil || key == nil:
		return "", err
	case *key == "":
		return "", flow.Invalid(headerKey, "must not be empty")
	}
	return *key, nil
}

// refuseKeyHeader refuses the header where one key can't be meant: ignored, it
// would promise a safety that isn't there.
func (x *exchange) refuseKeyHeader() error {
	if len(x.r.Header[headerKey]) == 0 {
		return nil
	}
	return flow.Invalid(headerKey, "must be left out here: each run in the body has its own idempotency_key")
}

// headerText reads a header's value: as it stands, or between the quotes of a
// structured field's string.
func headerText(v string) (string, bool) {
	v = strings.Trim(v, " \t")
	if !strings.HasPrefix(v, `"`) {
		return v, utf8.ValidString(v)
	}
	var text []byte
	for i := 1; i < len(v); i++ {
		switch c := v[i]; {
		case c == '"':
			return string(text), i == len(v)-1
		case c == '\\':
			i++
			if i == len(v) || (v[i] != '"' && v[i] != '\\') {
				return "", false
			}
			text = append(text, v[i])
		case c < 0x20 || c > 0x7E:
			return "", false
		default:
			text = append(text, c)
		}
	}
	return "", false
}

// percentDecoded undoes one round of percent-encoding. It is false for an escape that is
// none, and for what isn't UTF-8.
func percentDecoded(s string) (string, bool) {
	text, err := url.PathUnescape(s)
	return text, err == nil && utf8.ValidString(text)
}

// unquoted undoes the double quotes of a header's value, which older senders use. It is
// false where a quote isn't closed, or something follows it.
func unquoted(v string) (string, bool) {
	if !strings.HasPrefix(v, `"`) {
		return v, true
	}
	var text []byte
	for i := 1; i < len(v); i++ {
		switch c := v[i]; c {
		case '"':
			return string(text), i == len(v)-1
		case '\\':
			i++
			if i == len(v) {
				return "", false
			}
			text = append(text, v[i])
		default:
			text = append(text, c)
		}
	}
	return "", false
}

// checkHost refuses a name that isn't this machine's, on a connection to a
// loopback address: a web page whose name was rebound to 127.0.0.1 counts as the
// same origin to its browser, and only the name gives it away. Addresses are never
// refused, since a page can't be served under one it doesn't own. Where the node
// listens on other addresses, names are checked only once some are configured.
func (s *Server) checkHost(r *http.Request) error {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if len(s.hosts) == 0 && (!ok || !isLoopback(local.String())) {
		return nil
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") || slices.Contains(s.hosts, host) {
		return nil
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return nil
	}
	return problem(wire.CodeHost, "this node doesn't answer to the name in the header Host")
}
