package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// answering is a connection to a peer that reads one request and answers with a text.
func answering(t *testing.T, answer string) *conn {
	t.Helper()
	here, there := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer there.Close()
		r, err := http.ReadRequest(bufio.NewReader(there))
		if err != nil {
			return
		}
		io.Copy(io.Discard, r.Body)
		io.WriteString(there, answer)
	}()
	c := newConn(here, "h:1")
	t.Cleanup(func() { c.Close(); <-done })
	return c
}

// Fails when net/http doesn't read what is sent, a connection isn't kept, or a body
// isn't read whole.
func TestConnAgainstNetHTTP(t *testing.T) {
	connections := map[string]bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connections[r.RemoteAddr] = true
		b, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Content-Type") != "application/json" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		text := fmt.Sprintf("%s %s %d", r.Method, r.URL.Path, len(b))
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		if strings.HasPrefix(r.URL.Path, "/no") {
			w.WriteHeader(http.StatusConflict)
		}
		io.WriteString(w, text)
	}))
	defer s.Close()
	c, err := dial(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, size := range []int{0, 1, 5000, 200_000} {
		got, err := c.do("POST", "/v1/runs:batch", make([]byte, size))
		if want := fmt.Sprintf("POST /v1/runs:batch %d", size); err != nil || string(got) != want {
			t.Fatalf("answer is %q, %v; want %q", got, err, want)
		}
	}
	if _, err := c.do("PUT", "/no", nil); err == nil || err.Error() != "status 409: PUT /no 0" {
		t.Errorf("error is %v", err)
	}
	if _, err := c.do("GET", "/yes", nil); err != nil {
		t.Errorf("after a refusal: %v", err)
	}
	if len(connections) != 1 {
		t.Errorf("%d connections were used, want 1", len(connections))
	}
}

// Fails when an answer that can't be right is taken for one.
func TestConnRefusesWhatItCannotRead(t *testing.T) {
	for name, answer := range map[string]string{
		"no length":    "HTTP/1.1 200 OK\r\n\r\n",
		"chunked":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"other":        "SMTP\r\n\r\n",
		"no status":    "HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n",
		"bad length":   "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"large length": "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
		"many headers": "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", maxHeaders+1) + "\r\n",
	} {
		if _, err := answering(t, answer).do("GET", "/", nil); !errors.Is(err, errAnswer) {
			t.Errorf("%s: error is %v", name, err)
		}
	}
	for name, answer := range map[string]string{
		"cut head": "HTTP/1.1 200 OK\r\nContent-Le", "cut body": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", "nothing": "",
	} {
		if _, err := answering(t, answer).do("GET", "/", nil); err == nil || errors.Is(err, errAnswer) {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}

// Fails when the length isn't found whatever its name's case and its place.
func TestConnReadsHeadersInAnyCase(t *testing.T) {
	got, err := answering(t, "HTTP/1.1 202 Accepted\r\nX: y\r\ncontent-LENGTH:  3 \r\nZ: \r\n\r\nabcd").do("GET", "/", nil)
	if err != nil || string(got) != "abc" {
		t.Errorf("answer is %q, %v", got, err)
	}
}
