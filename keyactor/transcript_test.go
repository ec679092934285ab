package keyactor

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/pyrula/pyrula-node/flow"
)

// TestTranscripts plays testdata/S*.txt, one file for a scenario. What a host does
// beside the keys is played too: a claim leaves its credit, and credit that waits
// is offered to the keys that are ready, in rotation.
//
//	submit A limit=1 rate=5/s burst=10 key=a   A1..A200 are two hundred
//	claim credit=4        credit that waits until it is used
//	at 13s                the clock goes there; nothing else happens
//	until 10s             the clock goes there by way of everything that is due
//	complete A, fail, retry, suspend, wake, expire, cancel, terminate, hold-freed
//	stream every=1s until=30s rate=1/3s     each time one submit and one claim
//	show key=a            the key as it is shown
//	why A                 why it waits
//	read A every=100ms until=10s    all answers to why, each once
//	passivate, restore    idle keys are forgotten; keys come from a snapshot
//	reset                 a new world
//
// Those of events stand in transcript_events_test.go.
func TestTranscripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/S*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d transcripts: %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			p := newPlayer(t)
			datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
				p.fail = func(format string, args ...any) { td.Fatalf(t, format, args...) }
				return p.command(t, td)
			})
		})
	}
}

// player is a world with names for runs and with credit.
type player struct {
	*world
	names  map[flow.RunID]string
	ids    map[string]flow.RunID
	credit int
	turn   int  // of the rotation over keys
	alone  bool // no worker is alive

	batchCount int
}

func newPlayer(t testing.TB) *player {
	p := &player{names: make(map[flow.RunID]string), ids: make(map[string]flow.RunID)}
	p.world = newWorld(t.Fatalf)
	p.light = true
	return p
}

func (p *player) command(t *testing.T, td *datadriven.TestData) string {
	from := len(p.log)
	switch td.Cmd {
	case "submit":
		p.submitNamed(t, td)
	case "keys":
		return p.keys(t, td)
	case "claim":
		p.credit += number(td, "credit", 1)
	case "at":
		p.advance(instant(t, td.CmdArgs[0].Key))
	case "until":
		return p.until(instant(t, td.CmdArgs[0].Key), from)
	case "stream":
		every, to := instant(t, text(td, "every", ""))-start, instant(t, text(td, "until", ""))
		for ; p.now < to; p.until(p.now+every, from) {
			p.submitNamed(t, td)
			p.credit++
		}
	case "show":
		return p.show(text(td, "key", "a"))
	case "why":
		return p.why(td.CmdArgs[0].Key)
	case "read":
		return p.read(t, td)
	case "due":
		at, ok := p.due()
		return fmt.Sprintf("%s %t\n", p.clock(at), ok)
	case "log":
		from = 0
	case "passivate":
		(&model{world: p.world}).passivate(nil)
	case "restore":
		p.restoreAll(t)
	case "reset":
		*p = *newPlayer(t)
		return ""
	default:
		if verb, ok := eventVerbs[td.Cmd]; ok {
			return p.events(t, td, verb)
		}
		kind, ok := endings[td.Cmd]
		if !ok {
			td.Fatalf(t, "no command %q", td.Cmd)
		}
		for _, name := range expand(t, td.CmdArgs[0].Key) {
			p.end(kind, p.ids[name])
		}
	}
	p.dispatch()
	return p.records(from)
}

var endings = map[string]flow.RecordKind{
	"complete": flow.RecCompleted, "fail": flow.RecFailed, "retry": flow.RecRetrying, "suspend": flow.RecSuspended,
	"wake": flow.RecWoken, "expire": flow.RecExpired, "cancel": flow.RecCancelled, "terminate": flow.RecTerminated,
	"hold-freed": flow.RecHoldFreed,
}

func (p *player) end(kind flow.RecordKind, id flow.RunID) {
	switch r := p.run(id); {
	case kind == flow.RecWoken:
		p.record(kind, flow.Fields{Run: id})
	case r.fence == 0:
		p.leave(id, kind)
	default:
		p.ends(kind, id)
	}
}

// dispatch lends the waiting credit, one unit at a time, to the ready keys in turn.
func (p *player) dispatch() {
	for refused := 0; p.credit > 0; {
		ids := p.keyIDs()
		if refused >= len(ids) {
			return
		}
		p.turn++
		id := ids[p.turn%len(ids)]
		if p.live.key(id).Ready(p.now) == 0 {
			refused++
			continue
		}
		refused = 0
		if _, admitted := p.offer(id); admitted {
			p.credit--
		}
	}
}

func (p *player) until(to flow.Instant, from int) string {
	for {
		p.fireAll(!p.alone)
		p.dispatch()
		due, ok := p.due()
		if !ok || due > to {
			break
		}
		p.advance(due)
	}
	p.advance(to)
	p.fireAll(!p.alone)
	p.dispatch()
	return p.records(from)
}

func (p *player) restoreAll(t *testing.T) {
	for _, id := range p.keyIDs() {
		k, err := p.live.restored(id)
		if err != nil {
			t.Fatal(err)
		}
		p.live.keys[id] = k
	}
}

func (p *player) submitNamed(t *testing.T, td *datadriven.TestData) {
	s := &flow.Stamp{Version: text(td, "version", "1")}
	key := text(td, "key", "a")
	if td.HasArg("limit") {
		s.Gates = append(s.Gates, flow.Gate{Kind: flow.GateLimit, KeyName: "k", Key: text(td, "limit-key", key), Max: int64(number(td, "limit", 1))})
	}
	if td.HasArg("rate") {
		r := flow.RuleOfRate(flow.Rate{PerSecond: perSecond(t, text(td, "rate", "")), Burst: int64(number(td, "burst", 0))})
		s.Gates = append(s.Gates, flow.Gate{Kind: flow.GateRate, KeyName: "k", Key: text(td, "rate-key", key), Interval: r.Interval, Burst: r.Burst})
	}
	names := []string{fmt.Sprintf("S%d", len(p.ids)+1)} // of a stream
	if td.Cmd == "submit" {
		names = expand(t, td.CmdArgs[0].Key)
	}
	for _, name := range names {
		p.name(name, p.submit(s))
	}
}

func (p *player) name(name string, id flow.RunID) { p.names[id], p.ids[name] = name, id }

// keys submits one run for each key of the input, each a JSON string, lets all start
// and shows each key, then ends them one by one.
func (p *player) keys(t *testing.T, td *datadriven.TestData) string {
	var b strings.Builder
	lines := strings.Split(td.Input, "\n")
	values := make([]string, len(lines))
	for i, line := range lines {
		if err := json.Unmarshal([]byte(line), &values[i]); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(values[i], "long ") {
			values[i] = strings.Repeat("x", flow.MaxKeyBytes)
		}
		p.name(strconv.Itoa(i+1), p.submit(limited(values[i], 1)))
		p.credit++
	}
	p.dispatch()
	for ended := 0; ended <= len(values); ended++ {
		var used []string
		for _, v := range values {
			view := p.live.key(keyOf(v)).View(p.now)
			for _, h := range view.Holders {
				used = append(used, p.names[h.Run])
			}
			if int(view.Used) != len(view.Holders) {
				t.Fatalf("key %q: used %d, holders %v", v, view.Used, view.Holders)
			}
		}
		fmt.Fprintf(&b, "%d keys, %d execute: %s\n", len(p.live.keys), len(used), strings.Join(append(used, "end"), " "))
		if ended < len(values) {
			p.end(flow.RecCompleted, p.ids[strconv.Itoa(ended+1)])
		}
	}
	return b.String()
}

func (p *player) show(key string) string {
	v := p.live.key(keyOf(key)).View(p.now)
	var b strings.Builder
	fmt.Fprintf(&b, "used %d", v.Used)
	if v.Max > 0 {
		fmt.Fprintf(&b, " of %d", v.Max)
	}
	b.WriteString(p.holders(v.Holders))
	if v.Burst > 0 {
		fmt.Fprintf(&b, ", tokens %d of %d", v.Tokens, v.Burst)
	}
	fmt.Fprintf(&b, ", queue %d", v.Queue)
	if v.Wants > 0 {
		fmt.Fprintf(&b, ", wants %d", v.Wants)
	}
	return b.String() + "\n"
}

func (p *player) holders(list []flow.Holder) string {
	var b strings.Builder
	for _, h := range list {
		b.WriteString(" " + p.names[h.Run])
		if h.Terminated {
			b.WriteString("(terminated)")
		}
		if h.Reserved {
			b.WriteString("(reserved)")
		}
	}
	return b.String()
}

func (p *player) why(name string) string {
	r := p.run(p.ids[name])
	e := p.live.key(r.home()).Explain(p.now, r.order, r.id)
	if e.Reason == "" {
		return name + " is " + r.status.String() + "\n"
	}
	s := fmt.Sprintf("%s waits at place %d: %s", name, e.Position, e.Reason)
	switch e.Gate {
	case flow.GateLimit:
		s += fmt.Sprintf(" of key %q, used %d of %d:%s", e.Key, e.Used, e.Max, p.holders(e.Holders))
	case flow.GateRate:
		s += fmt.Sprintf(" of key %q, %d tokens of %d, opens at %s", e.Key, e.Tokens, e.Burst, p.clock(e.OpensAt))
	}
	return s + "\n"
}

func (p *player) read(t *testing.T, td *datadriven.TestData) string {
	every, to := instant(t, text(td, "every", ""))-start, instant(t, text(td, "until", ""))
	log, n, last := len(p.log), 0, ""
	var b strings.Builder
	for ; p.now < to; n++ {
		if answer := p.why(td.CmdArgs[0].Key); answer != last {
			b.WriteString(answer)
			last = answer
		}
		p.show("a")
		p.advance(min(to, p.now+every))
	}
	fmt.Fprintf(&b, "%d reads, %d records\n", n, len(p.log)-log)
	return b.String()
}

// records lists what happened, runs of one kind and instant in one line.
func (p *player) records(from int) string {
	var b strings.Builder
	for i := from; i < len(p.log); {
		rec, j := p.log[i], i+1
		names := []string{p.label(&rec)}
		for ; j < len(p.log) && p.log[j].Kind == rec.Kind && p.log[j].At == rec.At; j++ {
			names = append(names, p.label(&p.log[j]))
		}
		fmt.Fprintf(&b, "%s %v %s\n", p.clock(rec.At), rec.Kind, folded(names))
		i = j
	}
	return b.String()
}

// folded writes A1 A2 A3 A4 as A1..A4.
func folded(names []string) string {
	if n := len(names); n > 3 && strings.TrimRight(names[0], "0123456789") == strings.TrimRight(names[n-1], "0123456789") {
		return fmt.Sprintf("%s..%s (%d)", names[0], names[n-1], n)
	}
	return strings.Join(names, " ")
}

func (p *player) clock(i flow.Instant) string {
	if i == 0 {
		return "no instant"
	}
	return time.Duration(i - start).String()
}

func instant(t *testing.T, s string) flow.Instant {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return start.Add(flow.Span(d))
}

// perSecond reads "5/s" and "1/60s".
func perSecond(t *testing.T, s string) float64 {
	n, per, _ := strings.Cut(strings.TrimSuffix(s, "s"), "/")
	tokens, err := strconv.ParseFloat(n, 64)
	if err != nil {
		t.Fatal(err)
	}
	if per == "" {
		return tokens
	}
	seconds, err := strconv.ParseFloat(per, 64)
	if err != nil {
		t.Fatal(err)
	}
	return tokens / seconds
}

// expand turns "A1..A9" into nine names.
func expand(t *testing.T, s string) []string {
	from, to, ok := strings.Cut(s, "..")
	if !ok {
		return []string{s}
	}
	prefix := strings.TrimRight(from, "0123456789")
	low, err := strconv.Atoi(strings.TrimPrefix(from, prefix))
	high, err2 := strconv.Atoi(strings.TrimPrefix(to, prefix))
	if err != nil || err2 != nil {
		t.Fatalf("%s: no names", s)
	}
	var names []string
	for i := low; i <= high; i++ {
		names = append(names, prefix+strconv.Itoa(i))
	}
	return names
}

func text(td *datadriven.TestData, key, without string) string {
	for _, a := range td.CmdArgs {
		if a.Key == key && len(a.Vals) > 0 {
			return a.Vals[0]
		}
	}
	return without
}

func number(td *datadriven.TestData, key string, without int) int {
	if n, err := strconv.Atoi(text(td, key, "")); err == nil {
		return n
	}
	return without
}
