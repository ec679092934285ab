package loopback_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pyrula/pyrula-node/pyrula/inline/internal/loopback"
)

func fetch(t *testing.T, c *http.Client, r *http.Request) (status int, header http.Header, body string) {
	t.Helper()
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.ContentLength != int64(len(raw)) {
		t.Errorf("the length is told as %d, it is %d", resp.ContentLength, len(raw))
	}
	return resp.StatusCode, resp.Header, string(raw)
}

// TestRequestAndAnswerAreWhole fails when a part of a request or of an answer gets lost,
// or when the handler can change the client's request.
func TestRequestAndAnswerAreWhole(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("X-Answer", r.Header.Get("X-Ask"))
		r.Header.Set("X-Ask", "changed")
		w.WriteHeader(http.StatusAccepted)
		w.WriteHeader(http.StatusTeapot)
		w.Header().Set("X-Answer", "too late")
		fmt.Fprintf(w, "%s %s %s %d %s", r.Method, r.Host, r.RequestURI, r.ContentLength, raw)
	})
	c := loopback.New(handler).Client()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://inline/v1/a%2Fb?x=1", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Ask", "hello")
	status, header, body := fetch(t, c, r)
	if status != http.StatusAccepted || header.Get("X-Answer") != "hello" || body != "POST inline /v1/a%2Fb?x=1 4 body" {
		t.Errorf("%d %q %q", status, header.Get("X-Answer"), body)
	}
	if got := r.Header.Get("X-Ask"); got != "hello" {
		t.Errorf("the client's request has the header %q", got)
	}
}

// TestSilentHandler fails when a handler that writes nothing doesn't answer 200, as it
// would over a network.
func TestSilentHandler(t *testing.T) {
	c := loopback.New(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := r.Body.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the body of a request without one gives %v", err)
		}
	})).Client()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://inline/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if status, _, body := fetch(t, c, r); status != http.StatusOK || body != "" {
		t.Errorf("%d %q", status, body)
	}
}

// TestCloseWaits fails when a close doesn't wait for what is under way, or lets
// something in after it.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside := 0
		tr := loopback.New(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			inside++
			<-r.Context().Done()
			inside--
		}))
		ctx, cancel := context.WithCancel(t.Context())
		get := func() error {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://inline/", nil)
			if err != nil {
				return err
			}
			resp, err := tr.Client().Do(r)
			if err != nil {
				return err
			}
			return resp.Body.Close()
		}
		answered := make(chan error, 1)
		go func() { answered <- get() }()
		synctest.Wait()
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			tr.Close()
			if inside != 0 {
				t.Errorf("closed with %d requests under way", inside)
			}
		}()
		synctest.Wait()
		if err := get(); !errors.Is(err, loopback.ErrClosed) {
			t.Errorf("a request while closing: %v", err)
		}
		cancel()
		if err := <-answered; err != nil {
			t.Errorf("the request that was under way: %v", err)
		}
		<-closed
	})
}
