package node_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/goleak"

	"github.com/pyrula/pyrula-node/cmd/pyrula-node/node"
	"github.com/pyrula/pyrula-node/transport/apitest"
)

// patience is how long a test waits for what must come. It decides nothing but
// when a test that hangs gives up.
const patience = 20 * time.Second

// TestMain fails when a node that was closed leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served is a whole node and a client that knows it by HTTP alone. Each exchange
// is held against the node's OpenAPI document.
type served struct {
	t      *testing.T
	node   *node.Node
	client *http.Client
	pool   *http.Transport // under client
	dir    string
}

// answer is what came back over the wire.
type answer struct {
	status int
	header http.Header
	text   string
}

// at reads a field of the answer by its gjson path.
func (a answer) at(path string) gjson.Result { return gjson.Get(a.text, path) }

func (a answer) String() string { return fmt.Sprintf("%d %s", a.status, a.text) }

// serve starts a node of its own for a test.
func serve(t *testing.T) *served {
	t.Helper()
	return serveIn(t, t.TempDir())
}

// serveIn starts a node on a data directory, and closes it when the test ends.
func serveIn(t *testing.T, dir string) *served {
	t.Helper()
	s := &served{t: t, dir: dir, pool: &http.Transport{MaxIdleConnsPerHost: 64}}
	s.client = checked(t, s.pool)
	n, err := startIn(dir)
	if err != nil {
		t.Fatalf("start a node: %v", err)
	}
	s.node = n
	t.Cleanup(s.close)
	return s
}

func startIn(dir string) (*node.Node, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return node.Start(ctx, node.Config{
		DataDir: dir, Addr: "127.0.0.1:0",
		Fatal: func(err error) { panic(fmt.Sprintf("the node stops itself: %v", err)) },
	})
}

// document compiles the document once for all tests; it is never changed.
var document = sync.OnceValues(apitest.New)

// checked is a client that reports each exchange that isn't in the document.
func checked(t *testing.T, pool *http.Transport) *http.Client {
	t.Helper()
	checker, err := document()
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{
		Transport: checker.Transport(pool, func(err error) { t.Errorf("against the document: %v", err) }),
		Timeout:   patience + 40*time.Second,
	}
}

func (s *served) close() {
	// A server waits for a connection that was opened and never used.
	s.pool.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.node.Close(ctx); err != nil {
		s.t.Errorf("close the node: %v", err)
	}
}

// reopen closes the node and starts another one on its directory.
func (s *served) reopen() {
	s.t.Helper()
	s.close()
	s.start()
}

// start starts a node on the directory of one that was closed.
func (s *served) start() {
	s.t.Helper()
	n, err := startIn(s.dir)
	if err != nil {
		s.t.Fatalf("start a node again: %v", err)
	}
	s.node = n
}

// request sends one request and gives the answer; it may be called by any
// goroutine.
func (s *served) request(ctx context.Context, r asked) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, s.node.URL()+r.path, strings.NewReader(r.body))
	if err != nil {
		return answer{}, err
	}
	if r.body != "" {
		req.Header.Set("Content-Type", cmp.Or(r.mediaType, "application/json"))
	}
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
	}
	client := s.client
	if r.huge {
		client = &http.Client{Transport: s.pool, Timeout: patience}
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(text)}, err
}

// asked is a request: path is percent-encoded, key goes into Idempotency-Key. What
// is huge isn't held against the document, which takes longer than all the rest.
type asked struct {
	method, path, body, mediaType, key string

	huge bool
}

func (s *served) do(r asked) answer {
	s.t.Helper()
	a, err := s.request(s.t.Context(), r)
	if err != nil {
		s.t.Fatalf("%s %s: %v", r.method, r.path, err)
	}
	return a
}

func (s *served) get(path string) answer {
	s.t.Helper()
	return s.do(asked{method: "GET", path: path})
}

func (s *served) post(path, body string) answer {
	s.t.Helper()
	return s.do(asked{method: "POST", path: path, body: body})
}

// must is post that has to answer with a status.
func (s *served) must(status int, path, body string) answer {
	s.t.Helper()
	a := s.post(path, body)
	if a.status != status {
		s.t.Fatalf("POST %s %s answers %v, want %d", path, brief(body), a, status)
	}
	return a
}

// seen is get that has to answer 200.
func (s *served) seen(path string) answer {
	s.t.Helper()
	a := s.get(path)
	if a.status != 200 {
		s.t.Fatalf("GET %s answers %v, want 200", path, a)
	}
	return a
}

// declare declares a workflow and gives the answer of a declaration that was taken.
func (s *served) declare(name, body string) answer {
	s.t.Helper()
	a := s.put(name, body)
	if a.status != 200 {
		s.t.Fatalf("declare %s %s answers %v, want 200", name, body, a)
	}
	return a
}

func (s *served) put(name, body string) answer {
	s.t.Helper()
	return s.do(asked{method: "PUT", path: "/v1/workflows/" + url.PathEscape(name), body: body})
}

// submit makes one run with params, and gives its id.
func (s *served) submit(name, params string) string {
	s.t.Helper()
	a := s.must(202, "/v1/workflows/"+url.PathEscape(name)+"/runs", `{"params":`+params+`}`)
	if !a.at("created").Bool() {
		s.t.Fatalf("submit of %s makes no run: %v", name, a)
	}
	return a.at("run_id").String()
}

// grant is a run that a worker holds.
type grant struct {
	run   string
	fence uint64
	raw   gjson.Result
}

// claim asks for runs of workflows of the version "".
type claim struct {
	worker string
	names  []string
	credit int
	wait   time.Duration
}

func (c claim) body() string {
	type pair struct {
		Name string `json:"name"`
	}
	out := struct {
		Worker    string `json:"worker"`
		Workflows []pair `json:"workflows"`
		Credit    int    `json:"credit"`
		Wait      int64  `json:"wait_ms"`
	}{Worker: cmp.Or(c.worker, "w1"), Credit: c.credit, Wait: c.wait.Milliseconds()}
	for _, name := range c.names {
		out.Workflows = append(out.Workflows, pair{name})
	}
	b, err := json.Marshal(out)
	if err != nil {
		panic(err) // it has strings and numbers only
	}
	return string(b)
}

func grants(list gjson.Result) []grant {
	var out []grant
	for _, r := range list.Array() {
		out = append(out, grant{r.Get("run_id").String(), r.Get("fence").Uint(), r})
	}
	return out
}

func (s *served) claim(c claim) []grant {
	s.t.Helper()
	return grants(s.must(200, "/v1/claims", c.body()).at("runs"))
}

// one claims a single run of a workflow, and waits for it.
func (s *served) one(worker, name string) grant {
	s.t.Helper()
	got := s.claim(claim{worker, []string{name}, 1, patience})
	if len(got) != 1 {
		s.t.Fatalf("%s claims %s and gets %d runs, want 1", worker, name, len(got))
	}
	return got[0]
}

// none claims without a wait and must get nothing.
func (s *served) none(worker string, names ...string) {
	s.t.Helper()
	if got := s.claim(claim{worker, names, 10, 0}); len(got) != 0 {
		s.t.Errorf("%s claims %v and gets %v, want nothing", worker, names, got[0].raw)
	}
}

// end posts to one of a grant's own paths with its fence; more is added to the body.
func (s *served) end(g grant, verb, more string) answer {
	s.t.Helper()
	return s.post("/v1/runs/"+g.run+"/"+verb, fmt.Sprintf(`{"fence":%d%s}`, g.fence, more))
}

func (s *served) complete(g grant) {
	s.t.Helper()
	if a := s.end(g, "complete", ""); a.status != 200 || a.at("status").String() != "completed" {
		s.t.Fatalf("complete %s: %v", g.run, a)
	}
}

// status reads the status object of a run.
func (s *served) status(run string) answer {
	s.t.Helper()
	return s.seen("/v1/runs/" + run)
}

// is fails when a run has another status.
func (s *served) is(run, want string) {
	s.t.Helper()
	if a := s.status(run); a.at("status").String() != want {
		s.t.Errorf("%s is %v, want %s", run, a, want)
	}
}

// key reads how a key stands.
func (s *served) key(workflow, key string) answer {
	s.t.Helper()
	return s.seen("/v1/keys/" + segment(workflow) + "/" + segment(key))
}

// segment escapes a text as one segment of a path. A key may be "." or "..", which
// clients clean away unless they are escaped too.
func segment(text string) string { return strings.ReplaceAll(url.PathEscape(text), ".", "%2E") }

// refused fails when an answer isn't a problem with a status and a code.
func (s *served) refused(a answer, status int, code string) {
	s.t.Helper()
	if a.status != status || a.at("code").String() != code {
		s.t.Errorf("answer %v, want %d %s", a, status, code)
	}
}

// brief is a body short enough for a message.
func brief(body string) string {
	if len(body) > 200 {
		return body[:200] + "..."
	}
	return body
}
