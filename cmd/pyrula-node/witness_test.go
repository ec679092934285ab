package main

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// witness speaks with one node after another over the same data, and remembers what
// they acknowledged. It is of one goroutine.
type witness struct {
	t    *testing.T
	node *child
	url  string
	runs []string          // acknowledged submits, in their order
	done map[string]string // run -> result, of acknowledged completions
}

func newWitness(t *testing.T) *witness { return &witness{t: t, done: map[string]string{}} }

// serve starts a node and waits until it is ready.
func (w *witness) serve(dir string, more ...string) {
	w.t.Helper()
	w.attend(spawn(w.t, append([]string{"serve", "--data", dir, "--addr", "127.0.0.1:0"}, more...)...))
}

// attend waits until a node that was started is ready.
func (w *witness) attend(n *child) {
	w.t.Helper()
	w.node, w.url = n, n.url()
}

// again kills the node and starts another one on the directory.
func (w *witness) again(dir string) {
	w.t.Helper()
	w.node.kill()
	w.serve(dir)
}

// send makes one request. Status 0 means that there is no answer.
func (w *witness) send(method, path, body string) (int, gjson.Result) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, gjson.Result{}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, gjson.Result{}
	}
	return resp.StatusCode, gjson.Parse(strings.TrimSpace(string(text)))
}

// must is send that has to answer with a status.
func (w *witness) must(want int, method, path, body string) gjson.Result {
	w.t.Helper()
	status, answer := w.send(method, path, body)
	if status != want {
		w.t.Fatalf("%s %s: %d %s, want %d\n%s", method, path, status, answer, want, w.node.said())
	}
	return answer
}

func (w *witness) declare(name, text string) {
	w.t.Helper()
	w.must(200, http.MethodPut, "/v1/workflows/"+name, text)
}

// trySubmit submits a run and notes it if it is acknowledged.
func (w *witness) trySubmit(workflow, params string) (int, gjson.Result) {
	w.t.Helper()
	status, answer := w.send(http.MethodPost, "/v1/workflows/"+workflow+"/runs", `{"params":`+params+`}`)
	if status == 202 {
		w.runs = append(w.runs, answer.Get("run_id").String())
	}
	return status, answer
}

// submit makes one run, and gives its id.
func (w *witness) submit(workflow, params string) string {
	w.t.Helper()
	if status, answer := w.trySubmit(workflow, params); status != 202 {
		w.t.Fatalf("submit to %s: %d %s", workflow, status, answer)
	}
	return w.runs[len(w.runs)-1]
}

// submitMany makes runs in batches, and gives their ids in order.
func (w *witness) submitMany(n int, workflow, params string) []string {
	w.t.Helper()
	from := len(w.runs)
	for n > 0 {
		size := min(n, 250)
		n -= size
		entry := fmt.Sprintf(`,{"workflow":%q,"params":%s}`, workflow, params)
		answer := w.must(202, http.MethodPost, "/v1/runs:batch", `{"runs":[`+strings.Repeat(entry, size)[1:]+`]}`)
		for _, run := range answer.Get("runs.#.run_id").Array() {
			w.runs = append(w.runs, run.String())
		}
	}
	return w.runs[from:]
}

// claim claims runs of workflows, and waits for the first.
func (w *witness) claim(credit int, waitMS int64, names ...string) []gjson.Result {
	w.t.Helper()
	return w.must(200, http.MethodPost, "/v1/claims", claimOf(credit, waitMS, names...)).Get("runs").Array()
}

func claimOf(credit int, waitMS int64, names ...string) string {
	var list []string
	for _, name := range names {
		list = append(list, fmt.Sprintf(`{"name":%q,"version":""}`, name))
	}
	return fmt.Sprintf(`{"worker":"w","workflows":[%s],"credit":%d,"wait_ms":%d}`, strings.Join(list, ","), credit, waitMS)
}

// one claims the one run that must come.
func (w *witness) one(name string) gjson.Result {
	w.t.Helper()
	got := w.claim(1, 30_000, name)
	if len(got) != 1 {
		w.t.Fatalf("a claim of %s gets %d runs, want 1", name, len(got))
	}
	return got[0]
}

// beat renews a grant's lease.
func (w *witness) beat(grant gjson.Result) bool {
	w.t.Helper()
	body := fmt.Sprintf(`{"worker":"w","runs":[{"run_id":%q,"fence":%d}]}`, grant.Get("run_id").String(), grant.Get("fence").Uint())
	return w.must(200, http.MethodPost, "/v1/heartbeats", body).Get("runs.0.ok").Bool()
}

// tryComplete completes a grant and notes it if it is acknowledged.
func (w *witness) tryComplete(grant gjson.Result, result string) (int, gjson.Result) {
	w.t.Helper()
	id := grant.Get("run_id").String()
	status, answer := w.send(http.MethodPost, "/v1/runs/"+id+"/complete", fmt.Sprintf(`{"fence":%d,"result":%s}`, grant.Get("fence").Uint(), result))
	if status == 200 {
		w.done[id] = result
	}
	return status, answer
}

func (w *witness) complete(grant gjson.Result) {
	w.t.Helper()
	if status, answer := w.tryComplete(grant, `"done"`); status != 200 || answer.Get("status").String() != "completed" {
		w.t.Fatalf("complete %s: %d %s", grant.Get("run_id"), status, answer)
	}
}

// run reads a run's status object.
func (w *witness) run(id string) gjson.Result {
	w.t.Helper()
	return w.must(200, http.MethodGet, "/v1/runs/"+id, "")
}

// is fails when a run has another status.
func (w *witness) is(id, want string) {
	w.t.Helper()
	if run := w.run(id); run.Get("status").String() != want {
		w.t.Errorf("run %s is %s, want %s", id, run, want)
	}
}

// count is how many events of a type a run has.
func (w *witness) count(id, kind string) int64 {
	w.t.Helper()
	return w.must(200, http.MethodGet, "/v1/runs/"+id+"/events", "").Get(`events.#(type=="` + kind + `")#|#`).Int()
}

// key reads how a key stands.
func (w *witness) key(workflow, key string) gjson.Result {
	w.t.Helper()
	return w.must(200, http.MethodGet, "/v1/keys/"+workflow+"/"+key, "")
}

// remembers fails when something that was acknowledged is gone or otherwise.
func (w *witness) remembers() {
	w.t.Helper()
	for _, id := range w.runs {
		status, run := w.send(http.MethodGet, "/v1/runs/"+id, "")
		result, completed := w.done[id]
		switch {
		case status != 200:
			w.t.Errorf("run %s was acknowledged, and now: %d %s", id, status, run)
		case completed && (run.Get("status").String() != "completed" || run.Get("result").Raw != result):
			w.t.Errorf("the completion of run %s was acknowledged, and it is %.300s", id, run.Raw)
		}
	}
}

// archived is how many runs a node has in its archive; -1 when it doesn't answer.
func archived(t *testing.T, url string) int64 {
	t.Helper()
	resp, err := http.Get(url + "/metrics")
	if err != nil {
		return -1
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return -1
	}
	hit := regexp.MustCompile(`(?m)^pyrula_archive_runs (\S+)$`).FindSubmatch(text)
	if hit == nil {
		t.Fatalf("/metrics doesn't tell of the archive:\n%s", text)
	}
	n, err := strconv.ParseFloat(string(hit[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return int64(n)
}

// lastLine is the last thing that a process has said.
func lastLine(n *child) string {
	lines := strings.Split(strings.TrimSpace(n.said()), "\n")
	return lines[len(lines)-1]
}
