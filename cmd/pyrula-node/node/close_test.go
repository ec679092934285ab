package node_test

import (
	"context"
	"io"
	"net"
	"testing"
	"time"
)

// R9: fails when a client that has sent half a request keeps a node from taking its
// snapshots, or from a clean end.
func TestR9SlowClientCostsNoSnapshot(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.submit("w", `{}`)
	c, err := net.Dial("tcp", s.node.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "POST /w HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	// Two requests under way are the half one, and the one that counts them.
	for late := time.After(patience); s.metric("pyrula_http_in_flight_requests") < 2; {
		select {
		case <-late:
			t.Fatal("the node doesn't take the half request")
		default:
		}
	}
	s.pool.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
	defer cancel()
	if err := s.node.Close(ctx); err != nil {
		t.Errorf("close the node: %v", err)
	}
	s.start()
	if n := s.seen("/v1/node").at("recovery.records").Int(); n != 0 {
		t.Errorf("%d records are replayed: there were no snapshots", n)
	}
}

// R7: fails when a drain cuts what ends work, lets a claim wait on, or takes a new
// one, or the node says that it is ready.
func TestR7_P63DrainStillEndsWork(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"limit":{"key":"k","max":1}}`)
	s.submit("w", `{"k":"a"}`)
	g := s.one("w1", "w")
	next := s.submit("w", `{"k":"a"}`)
	waits := s.later(t.Context(), "/v1/claims", claim{"w2", []string{"w"}, 1, patience}.body())
	s.settles("w", 1)
	s.node.Drain()
	if got := <-waits; got.err != nil || got.status != 200 && got.status != 503 || len(grants(got.at("runs"))) != 0 {
		t.Errorf("a waiting claim answers %v, %v", got.answer, got.err)
	}
	s.refused(s.post("/v1/claims", claim{"w2", []string{"w"}, 1, patience}.body()), 503, "not_ready")
	if a := s.get("/readyz"); a.status != 503 || a.at("ready").Bool() {
		t.Errorf("/readyz answers %v", a)
	}
	if a := s.seen("/livez"); !a.at("live").Bool() {
		t.Errorf("/livez answers %v", a)
	}
	if !s.beat(g).Get("ok").Bool() {
		t.Error("a heartbeat isn't taken while draining")
	}
	s.complete(g)
	s.reopen()
	if h := s.one("w1", "w"); h.run != next {
		t.Errorf("granted %s, want %s", h.run, next)
	}
}

// Fails when requests that come while a node closes are lost after they were
// acknowledged.
func TestS08CloseUnderLoad(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"limit":{"key":"k","max":2}}`)
	acknowledged := make(chan string, 1<<14)
	running := make(chan struct{}, 8)
	enough := make(chan struct{})
	for range 8 {
		go func() {
			for n := 0; ; n++ {
				a, err := s.request(t.Context(), asked{method: "POST", path: "/w", body: `{"k":"a"}`})
				if err != nil || a.status != 202 {
					break
				}
				acknowledged <- a.at("run_id").String()
				if n == 10 {
					enough <- struct{}{}
				}
			}
			running <- struct{}{}
		}()
	}
	for range 8 {
		<-enough
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.node.Close(ctx); err != nil {
		t.Errorf("close the node: %v", err)
	}
	for range 8 {
		<-running
	}
	close(acknowledged)
	s.start()
	count := 0
	for id := range acknowledged {
		s.is(id, "queued")
		count++
	}
	if q := s.key("w", "a").at("queued").Int(); q < int64(count) {
		t.Errorf("%d runs are queued, %d were acknowledged", q, count)
	}
}
