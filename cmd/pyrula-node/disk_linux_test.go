package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"golang.org/x/sys/unix"
)

// smallDisk mounts a file system in memory of a few MiB, so that it can be filled.
func smallDisk(t *testing.T, mib int) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=0755", mib)); err != nil {
		t.Skipf("a small disk can't be mounted here, which takes root's rights: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// fill takes all the space that is left on a disk but for some bytes, into a file whose
// path it gives.
func fill(t *testing.T, dir, name string, leave int64) string {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	name = filepath.Join(dir, name)
	size := int64(st.Bavail)*st.Bsize - leave
	if err := os.WriteFile(name, make([]byte, max(size, 0)), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestS16R7FullDisk fills the disk under a node. It fails when the node takes new work
// with less than its reserve left or doesn't say why it refuses, when work under way
// isn't served meanwhile, when it doesn't take work again once there is space, when a
// disk that is really full doesn't end it, or when anything that was acknowledged is
// gone afterwards.
func TestS16R7FullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, 64)
	dir := filepath.Join(disk, "data")
	w := newWitness(t)
	w.serve(dir)
	w.declare("free", `{"lease_seconds":60}`)
	w.submitMany(12, "free", `{}`)
	grants := w.claim(12, 30_000, "free")

	// Somebody else leaves it a little more than the reserve, and then its own work
	// fills the disk.
	nearly := fill(t, disk, "others", 1<<20)
	reserve := w.awaitReady(503)
	if err := os.Remove(nearly); err != nil {
		t.Fatal(err)
	}
	fill(t, disk, "others", reserve+3<<19)
	w.awaitReady(200)
	params := `{"text":"` + strings.Repeat("x", 512<<10) + `"}`
	var status int
	var answer gjson.Result
	for status = 202; status == 202; {
		status, answer = w.trySubmit("free", params)
	}
	w.refusesForSpace(status, answer)
	var st unix.Statfs_t
	if err := unix.Statfs(disk, &st); err != nil {
		t.Fatal(err)
	}
	if left := int64(st.Bavail) * st.Bsize; left > reserve || left < reserve/2 {
		t.Errorf("%d bytes are left when work is refused, the reserve is %d", left, reserve)
	}
	for _, g := range grants[:4] {
		if !w.beat(g) {
			t.Error("a heartbeat is refused on a disk that is nearly full")
		}
		w.complete(g)
	}

	// With space there is work again.
	if err := unix.Mount("tmpfs", disk, "", unix.MS_REMOUNT, "size=96m"); err != nil {
		t.Fatal(err)
	}
	w.awaitReady(200)
	w.submit("free", `{}`)

	// Somebody else takes all of it, the reserve too. There is room for a little more,
	// and then the node ends.
	other := fill(t, disk, "more of others", 300<<10)
	late, done := grants[4:], 0
	result := `"` + strings.Repeat("r", 100<<10) + `"`
	for _, g := range late {
		if status, _ := w.tryComplete(g, result); status != 200 {
			break
		}
		done++
	}
	if done == 0 || done == len(late) {
		t.Errorf("%d of %d large completions were acknowledged on a full disk, want some", done, len(late))
	}
	if code := w.node.exit(); code != exitOther {
		t.Errorf("a full disk ends the node with %d, want 1", code)
	}
	if last := lastLine(w.node); !regexp.MustCompile(`level=ERROR msg="the node stops: .*` + regexp.QuoteMeta(dir) + `.*no space left on device`).MatchString(last) {
		t.Errorf("the last line is %s", last)
	}

	// A start on the full disk says so, or works.
	n := spawn(t, "serve", "--data", dir, "--addr", "127.0.0.1:0")
	n.says(`msg=ready|no space left on device`)
	if strings.Contains(n.said(), "msg=ready") {
		n.kill()
	} else if code := n.exit(); code != exitOther {
		t.Errorf("a start on a full disk ends with %d: %s", code, n.said())
	}
	t.Logf("%d runs and %d completions acknowledged; a start on the full disk: %s", len(w.runs), len(w.done), lastLine(n))
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	w.serve(dir)
	w.remembers()
	w.complete(w.one("free"))
	for name := range imageOf(t, dir) {
		if strings.HasSuffix(name, ".TEMP") {
			t.Errorf("%s was left behind", name)
		}
	}
}

// refusesForSpace checks a refusal and that the node says of itself that it isn't
// ready.
func (w *witness) refusesForSpace(status int, answer gjson.Result) {
	w.t.Helper()
	const why = `disk has \d+ bytes left, the reserve is \d+`
	said := regexp.MustCompile(why)
	if (status != 503 && status != 429) || !said.MatchString(answer.Get("detail").String()) || !answer.Get("retryable").Bool() {
		w.t.Errorf("a submit on a disk that is nearly full: %d %s\n%s", status, answer, w.node.said())
	}
	if status, ready := w.send(http.MethodGet, "/readyz", ""); status != 503 || ready.Get("ready").Bool() || !said.MatchString(ready.Get("reason").String()) {
		w.t.Errorf("/readyz on a disk that is nearly full: %d %s", status, ready)
	}
	for path, body := range map[string]string{
		"/v1/claims": claimOf(1, 0, "free"), "/v1/runs:batch": `{"runs":[{"workflow":"free"}]}`,
	} {
		if status, answer := w.send(http.MethodPost, path, body); !said.MatchString(answer.Raw) {
			w.t.Errorf("POST %s on a disk that is nearly full: %d %s", path, status, answer)
		}
	}
}

// awaitReady waits until the node notices how the disk stands: /readyz answers with a
// status. It gives the reserve, in bytes, where the answer names it.
func (w *witness) awaitReady(want int) (reserve int64) {
	w.t.Helper()
	late := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		status, answer := w.send(http.MethodGet, "/readyz", "")
		if status == want {
			if hit := regexp.MustCompile(`the reserve is (\d+)`).FindStringSubmatch(answer.Get("reason").String()); hit != nil {
				if _, err := fmt.Sscan(hit[1], &reserve); err != nil {
					w.t.Fatal(err)
				}
			}
			return reserve
		}
		select {
		case <-tick.C:
		case <-late:
			w.t.Fatalf("/readyz answers %d %s, want %d", status, answer, want)
		}
	}
}

// refusesStart fails when a node on a directory doesn't end by itself, with a code and a
// message that has all of what it should name.
func refusesStart(t *testing.T, n *child, code int, says ...string) {
	t.Helper()
	if got := n.exit(); got != code {
		t.Errorf("it ends with %d, want %d:\n%s", got, code, n.said())
	}
	for _, text := range says {
		if !strings.Contains(lastLine(n), text) {
			t.Errorf("the last line doesn't say %q: %s", text, lastLine(n))
		}
	}
	if strings.Contains(n.said(), "goroutine ") {
		t.Errorf("it ends with a stack:\n%s", n.said())
	}
}

// TestReadOnlyDisk fails when a node on a disk that can't be written doesn't end with
// the reason, or changes anything.
func TestReadOnlyDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, 32)
	dir := filepath.Join(disk, "data")
	w := newWitness(t)
	w.serve(dir)
	w.submit("free", `{}`)
	w.node.kill()
	before := imageOf(t, dir)
	if err := unix.Mount("tmpfs", disk, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	refusesStart(t, spawn(t, "serve", "--data", dir, "--addr", "127.0.0.1:0"), exitOther, dir, "read-only file system")
	fresh := filepath.Join(disk, "new")
	refusesStart(t, spawn(t, "serve", "--data", fresh, "--addr", "127.0.0.1:0"), exitOther, fresh, "read-only file system")
	sameImage(t, before, imageOf(t, dir))
	if err := unix.Mount("tmpfs", disk, "", unix.MS_REMOUNT, ""); err != nil {
		t.Fatal(err)
	}
	w.serve(dir)
	w.remembers()
}

// TestForeignDirectory fails when a node that may not write a directory, or not even
// read it, doesn't end with the reason, or changes anything.
func TestForeignDirectory(t *testing.T) {
	t.Parallel()
	setpriv, err := exec.LookPath("setpriv")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("another user is needed, which takes root's rights and setpriv")
	}
	// The program, where that user can read it.
	public := t.TempDir()
	for _, dir := range []string{filepath.Dir(public), public} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(public, longName)
	if err := os.WriteFile(program, raw, 0o755); err != nil {
		t.Fatal(err)
	}
	nobody := func(dir string) *child {
		return spawnAs(t, setpriv, "--reuid", "65534", "--regid", "65534", "--clear-groups", program, "serve", "--data", dir, "--addr", "127.0.0.1:0")
	}
	dir := filepath.Join(public, "data")
	w := newWitness(t)
	w.serve(dir)
	w.submit("free", `{}`)
	w.node.kill()
	before := imageOf(t, dir)
	for _, mode := range []os.FileMode{0o700, 0o777} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		refusesStart(t, nobody(dir), exitOther, dir, "permission denied")
	}
	refusesStart(t, nobody(filepath.Join(public, "new")), exitOther, public, "permission denied")
	sameImage(t, before, imageOf(t, dir))
	w.serve(dir)
	w.remembers()
}

// TestNoDirectory fails when a data directory that is a file isn't refused with its
// name, or one whose parents are missing isn't made.
func TestNoDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		refusesStart(t, spawn(t, "serve", "--data", dir, "--addr", "127.0.0.1:0"), exitOther, file, "not a directory")
	}
	if raw, err := os.ReadFile(file); err != nil || string(raw) != "mine" {
		t.Errorf("the file has %q, %v", raw, err)
	}
	w, dir := newWitness(t), filepath.Join(t.TempDir(), "a", "b", "c")
	w.serve(dir)
	w.submit("free", `{}`)
	w.again(dir)
	w.remembers()
}
