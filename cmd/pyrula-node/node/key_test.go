package node_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// odd are key values that look like something else (S99).
func odd() []string {
	return []string{
		"a", "*", "b", "", ":", "/", "a/b", "..", "%2F", "ключ", "a\x00b", strings.Repeat("k", 1024),
		".", " a", "a ", "A", "null", "\n", `"`, `\`, "a?b=c#d", "+", "%", "%00", "a//b", "/a", "a/", "é", "e\u0301", "\ufeffa", "🦒", "1.0",
	}
}

// S99: fails when two odd key values meet, one is trimmed, or can't be read back.
func TestS99OddKeys(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"limit":{"key":"k","max":1}}`)
	byKey := map[string]grant{}
	for _, key := range odd() {
		text, err := json.Marshal(key)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			s.submit("w", `{"k":`+string(text)+`}`)
		}
	}
	for range odd() {
		g := s.one("w1", "w")
		key := g.raw.Get("key").String()
		if _, twice := byKey[key]; twice {
			t.Fatalf("two runs of key %q execute", key)
		}
		byKey[key] = g
	}
	s.none("w1", "w")
	for _, key := range odd() {
		k, g := s.key("w", key), byKey[key]
		if k.at("key").String() != key || k.at("used").Int() != 1 || k.at("queued").Int() != 1 || k.at("holders.#").Int() != 1 ||
			k.at("holders.0.run_id").String() != g.run || k.at("max").Int() != 1 {
			t.Errorf("key %q is %v, want %s to hold it", key, k, g.run)
		}
		list := s.seen("/v1/runs?status=executing&key=" + url.QueryEscape(key)).at("runs.#.run_id").Raw
		if list != `["`+g.run+`"]` {
			t.Errorf("the executing runs of key %q are %s", key, list)
		}
		if got := s.status(g.run).at("gates.0.key").String(); got != key {
			t.Errorf("the stamp of key %q has %q", key, got)
		}
	}
	for i, key := range odd() {
		s.complete(byKey[key])
		g := s.one("w1", "w")
		if g.raw.Get("key").String() != key {
			t.Fatalf("the end of key %q starts key %q", key, g.raw.Get("key"))
		}
		byKey[key] = g
		if after := s.key("w", odd()[(i+1)%len(odd())]); after.at("used").Int() != 1 {
			t.Errorf("another key is %v", after)
		}
	}
	never := s.key("w", "never seen")
	if never.at("used").Int() != 0 || never.at("queued").Int() != 0 || never.at("oldest_wait_ms").Raw != "null" {
		t.Errorf("a key that never was is %v", never)
	}
	s.refused(s.get("/v1/keys/w/"+strings.Repeat("k", 1025)), 422, "invalid_argument")
	s.refused(s.get("/v1/keys/none/a"), 404, "unknown_workflow")
	s.refused(s.get("/v1/keys/w/a/b"), 404, "not_found")
	s.refused(s.get("/v1/keys/w"), 404, "not_found")
}

// P12, P13, P60: fails when a value doesn't become the text that the rule says, so
// that runs share a key that shouldn't, or don't share one that they should.
func TestP12_P13_P60KeyTexts(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"limit":{"key":"k","max":1}}`)
	for key, params := range map[string][]string{
		"1":              {`{"k":1}`, `{"k":"1"}`, `{"k":1.0}`, `{"k":1e0}`, `{"\u006b":1}`},
		"":               {`{}`, `{"k":null}`, `{"k":""}`, `{"K":"x"}`},
		"true":           {`{"k":true}`, `{"k":"true"}`},
		"-7":             {`{"k":-7}`, `{"k":"-7"}`},
		"0":              {`{"k":0}`, `{"k":-0}`},
		`{"a":1,"b":[]}`: {`{"k":{"b":[],"a":1}}`, `{"k":{"a":1,"b":[]}}`, `{"k":"{\"a\":1,\"b\":[]}"}`},
		"[1,2]":          {`{"k":[1,2]}`, `{"k":[ 1 , 2 ]}`},
		"[2,1]":          {`{"k":[2,1]}`},
		"0.5":            {`{"k":0.5}`, `{"k":5e-1}`, `{"k":0.50}`},
	} {
		for _, p := range params {
			id := s.submit("w", p)
			if got := s.status(id).at("gates.0.key").String(); got != key {
				t.Errorf("params %s have key %q, want %q", p, got, key)
			}
		}
		if got := s.key("w", key).at("queued").Int(); got != int64(len(params)) {
			t.Errorf("key %q has %d runs, want %d", key, got, len(params))
		}
	}
	got := s.claim(claim{names: []string{"w"}, credit: 256, wait: patience})
	for n := 0; n < 9 && len(got) < 9; n++ {
		got = append(got, s.claim(claim{names: []string{"w"}, credit: 256})...)
	}
	if len(got) != 9 {
		t.Errorf("%d runs of 9 keys execute", len(got))
	}
	tooLong := s.post("/v1/workflows/w/runs", `{"params":{"k":"`+strings.Repeat("k", 1025)+`"}}`)
	if tooLong.status < 400 || tooLong.status >= 500 || tooLong.at("field").String() == "" {
		t.Errorf("a key of 1025 bytes answers %v", tooLong)
	}
	if n := len(s.seen("/v1/runs?workflow=w&limit=500&status=queued").at("runs").Array()); n != 24-9 {
		t.Errorf("%d runs are queued, want 15", n)
	}
}

// P12: fails when the name of a parameter is taken for a path or a pattern, or not
// the last of two parameters of one name counts, which is what workers read.
func TestP12NamesAreLiteral(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for i, name := range []string{"a.b", "x*", "@this", "#", "a|b", "0", `a\\b`, "!x", "?", "K", " ", "é", "{", "..0", "@values", `"`} {
		workflow := fmt.Sprintf("w%d", i)
		quoted, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		s.declare(workflow, fmt.Sprintf(`{"limit":{"key":%s,"max":1}}`, quoted))
		id := s.submit(workflow, fmt.Sprintf(`{"a":{"b":"wrong"},%s:"first","k":"wrong","x1":"wrong",%s:"hit","b":"wrong"}`, quoted, quoted))
		if got := s.status(id).at("gates.0.key").String(); got != "hit" {
			t.Errorf("the parameter %q gives key %q", name, got)
		}
		if got := s.status(s.submit(workflow, `{"a":{"b":"wrong"},"x1":"wrong"}`)).at("gates.0.key").String(); got != "" {
			t.Errorf("without the parameter %q the key is %q", name, got)
		}
	}
}

// Fails when a number that a float can't hold is taken for another.
func TestP60BigNumbersAreKeysOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.declare("w", `{"limit":{"key":"k","max":1}}`)
	for _, n := range []string{"9007199254740993", "9007199254740992", "9223372036854775807", "9223372036854775806", "18446744073709551615"} {
		id := s.submit("w", `{"k":`+n+`}`)
		if got := s.status(id).at("gates.0.key").String(); got != n {
			t.Errorf("the number %s has key %q", n, got)
		}
	}
	got := s.claim(claim{names: []string{"w"}, credit: 256})
	if len(got) != 5 {
		t.Errorf("%d of 5 keys execute", len(got))
	}
}

// P3: fails when more than max runs of a key execute, for several sizes.
func TestP3NeverMoreThanMax(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, limit := range []int{1, 2, 5} {
		name := fmt.Sprintf("w%d", limit)
		s.declare(name, fmt.Sprintf(`{"limit":{"key":"k","max":%d}}`, limit))
		for range 12 {
			s.submit(name, `{"k":"a"}`)
		}
		var held []grant
		for done := range 12 {
			held = append(held, s.claim(claim{names: []string{name}, credit: 100})...)
			want := min(limit, 12-done)
			if len(held) != want || s.key(name, "a").at("used").Int() != int64(want) {
				t.Fatalf("%d runs of a key with max %d execute, want %d: %v", len(held), limit, want, s.key(name, "a"))
			}
			s.complete(held[0])
			held = held[1:]
		}
	}
}
