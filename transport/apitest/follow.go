package apitest

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
)

// Report takes what a Checker found. In a test it is t.Error.
type Report func(err error)

// Transport is a http.RoundTripper that checks every exchange that goes through
// base; nil means http.DefaultTransport. Bodies are read whole.
func (c *Checker) Transport(base http.RoundTripper, report Report) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &follower{checker: c, base: base, report: report}
}

type follower struct {
	checker *Checker
	base    http.RoundTripper
	report  Report
}

// RoundTrip sends a request and checks its answer.
func (f *follower) RoundTrip(r *http.Request) (*http.Response, error) {
	sent, err := take(&r.Body)
	if err != nil {
		return nil, fmt.Errorf("read the request's body: %w", err)
	}
	resp, err := f.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	got, err := take(&resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read the answer's body: %w", err)
	}
	err = f.checker.Check(Exchange{
		Method: r.Method, Path: r.URL.EscapedPath(), Request: sent, RequestType: r.Header.Get("Content-Type"),
		Status: resp.StatusCode, ContentType: resp.Header.Get("Content-Type"), Body: got,
	})
	if err != nil {
		f.report(err)
	}
	return resp, nil
}

// take reads a body whole and leaves one that can be read again.
func take(body *io.ReadCloser) ([]byte, error) {
	if *body == nil || *body == http.NoBody {
		return nil, nil
	}
	all, err := io.ReadAll(*body)
	if err == nil {
		err = (*body).Close()
	}
	*body = io.NopCloser(bytes.NewReader(all))
	return all, err
}

// Handler checks every exchange that h serves, for tests without a listener.
func (c *Checker) Handler(h http.Handler, report Report) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var sent bytes.Buffer
		if r.Body != nil {
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.TeeReader(r.Body, &sent), r.Body}
		}
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		err := c.Check(Exchange{
			Method: r.Method, Path: r.URL.EscapedPath(), Request: sent.Bytes(), RequestType: r.Header.Get("Content-Type"),
			Status: rec.Code, ContentType: rec.Header().Get("Content-Type"), Body: rec.Body.Bytes(),
		})
		if err != nil && r.Context().Err() == nil {
			report(err)
		}
		maps.Copy(w.Header(), rec.Header())
		w.WriteHeader(rec.Code)
		if _, err := w.Write(rec.Body.Bytes()); err != nil {
			report(fmt.Errorf("pass the answer on: %w", err))
		}
	})
}
