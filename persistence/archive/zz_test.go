package archive
import ("testing";"os";"strings";"runtime/debug";"time";"math/rand/v2";"runtime")
func rss(t *testing.T, what string) {
	runtime.GC(); debug.FreeOSMemory()
	b, _ := os.ReadFile("/proc/self/status")
	var out []string
	for _, l := range strings.Split(string(b), "\n") { if strings.HasPrefix(l,"VmRSS")||strings.HasPrefix(l,"RssAnon")||strings.HasPrefix(l,"RssFile")||strings.HasPrefix(l,"VmSize")||strings.HasPrefix(l,"VmHWM") { out = append(out, strings.Join(strings.Fields(l)," ")) } }
	t.Log(what, out)
}
func TestZZRSS(t *testing.T) {
	a := mustOpen(t, quiet(t.TempDir()))
	rss(t, "empty")
	s := time.Now()
	for d := range 8 { for k := range 25 {
		mustPut(t, a, benchItems(d*125000+k*5000, 5000, noon.Add(time.Duration(d-7)*day)))
	} }
	el := time.Since(s)
	st := a.Stats()
	t.Log(el, float64(st.Runs)/el.Seconds(), "runs/s", float64(st.Bytes)/float64(st.Runs), st)
	rss(t, "after puts")
	items := benchItems(0, 5000, noon)
	s = time.Now()
	for range 100000 { a.Get(items[rand.IntN(5000)].ID) }
	t.Log("get", time.Since(s)/100000)
	rss(t, "after gets")
	mustClose(t, a)
	s = time.Now()
	a = mustOpen(t, a.cfg)
	t.Log("open", time.Since(s))
	rss(t, "after reopen")
}
