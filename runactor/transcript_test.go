package runactor

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/pyrula/pyrula-node/flow"
)

// TestScenarios plays the transcripts of testdata: one scenario each, as far as one
// run decides it. Rewrite them with -rewrite, and commit only a change that you can
// explain. A command is one of
//
//	at T                          it is T now
//	submit | admit fence=N worker=W [lease=D] [tries=N] [backoff=D]
//	complete fence=N [result=R] | fail fence=N [retryable] | suspend fence=N until=T [date]
//	suspend fence=N moment=NAME until=T | suspend fence=N signal=NAME [timeout=D] | suspend fence=N runs=(N,...)
//	heartbeat fence=N | cancel | terminate | tick
//	steps fence=N [did=(NAME,VISIT,RESULT)] [failed=(NAME,VISIT,ERROR)] [take=(NAME,VISIT)] [state=S]
//	signal name=NAME [result=PAYLOAD] [request=ID] | start fence=N name=NAME runs=(N,...) [child]
//	watch by=N wait=N | outcome of=N wait=N status=S [result=R] | hand-on to=N | chain-over
//	history | signals             what the run has recorded, and what its body has still to handle
//	repeat N CMD ...              the same command N times; it must say the same each time
//	every D until=T CMD ...       the command and a tick every D
//	restart | restore             a crash, then replay of the log, or of a snapshot
//	stranger CMD ...              the command, meant for another run
//	new                           another run, in the same test at t=0
//	events                        the run's own journal
//
// T and D are spans; T counts from the start. Other runs have numbers; this one is 1. Each
// answer ends with the run's state.
func TestScenarios(t *testing.T) {
	paths, err := filepath.Glob("testdata/S*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			p := &player{world: newWorld(t)}
			p.reset()
			datadriven.RunTest(t, path, p.play)
		})
	}
}

// player is a world that is told what to do in words.
type player struct {
	*world
}

// epoch is t=0 of a scenario, so that no instant is the unset one.
const epoch = 1_000_000 * second

func (p *player) reset() {
	t := p.t
	p.world = newWorld(t)
	p.now = epoch
}

func (p *player) play(t *testing.T, d *datadriven.TestData) string {
	p.t = t
	return p.do(d.Cmd, d.CmdArgs)
}

// do plays one command; those that send an input to the run are in send.
func (p *player) do(cmd string, args []datadriven.CmdArg) string {
	switch cmd {
	case "new":
		p.reset()
		return ""
	case "at":
		p.now = epoch.Add(span(args[0].Key))
		return p.state()
	case "events":
		return p.events()
	case "history":
		return p.history()
	case "signals":
		return p.signals()
	case "restart":
		p.restart()
		return p.said() + p.state()
	case "restore":
		p.restore()
		return p.said() + p.state()
	case "repeat":
		return p.again(args)
	case "every":
		return p.every(args)
	case "stranger":
		return p.stranger(args)
	}
	p.send(cmd, args)
	return p.said() + p.state()
}

var inputs = map[string]flow.InputKind{
	"complete": flow.InComplete, "fail": flow.InFail, "suspend": flow.InSuspend,
	"heartbeat": flow.InHeartbeat, "cancel": flow.InCancel, "terminate": flow.InTerminate, "tick": flow.InRunTick,
	"signal": flow.InSignal, "watch": flow.InWatch, "outcome": flow.InOutcome, "hand-on": flow.InHandOn, "chain-over": flow.InChainOver,
}

func (p *player) send(cmd string, args []datadriven.CmdArg) {
	f := p.fields(args)
	switch {
	case cmd == "submit":
		p.submit()
	case cmd == "admit":
		p.out.Reset()
		p.admit(f)
	case cmd == "steps" || cmd == "start":
		p.parts(cmd, f, args)
	case inputs[cmd] != 0: // a look-up: no order is seen
		if cmd == "fail" {
			f.ErrType, f.ErrText = "E", "boom"
		}
		p.step(inputs[cmd], f)
	default:
		p.t.Fatalf("unknown command %q", cmd)
	}
}

func (p *player) fields(args []datadriven.CmdArg) flow.Fields {
	f := flow.Fields{}
	for _, a := range args {
		val := ""
		if len(a.Vals) > 0 {
			val = a.Vals[0]
		}
		switch a.Key {
		case "fence":
			f.Fence = uint64(number(val))
		case "worker":
			f.Worker, f.Lease, f.Attempts, f.Backoff = val, lease, 1, flow.Second
		case "lease":
			f.Lease = span(val)
		case "tries":
			f.Attempts = number(val)
		case "backoff":
			f.Backoff = span(val)
		case "retryable":
			f.Flags |= flow.FlagRetryable
		case "until":
			f.Until = epoch.Add(span(val))
		case "date":
			f.Flags |= flow.FlagAbsolute
		case "result":
			f.Payload = []byte(val)
		case "reason":
			f.Reason = val
		default:
			p.late(&f, a)
		}
	}
	return f
}

func (p *player) again(args []datadriven.CmdArg) string {
	first := ""
	for i := range number(args[0].Key) {
		said := p.do(args[1].Key, args[2:])
		if i == 0 {
			first = said
		}
		if said != first {
			p.t.Fatalf("time %d says\n%sthe first said\n%s", i+1, said, first)
		}
	}
	return first
}

// every sends a command each step of time and a tick before and after it: none of
// the ticks may decide anything.
func (p *player) every(args []datadriven.CmdArg) string {
	step, until := span(args[0].Key), p.fields(args[1:2]).Until
	n := 0
	for p.now.Add(step) <= until {
		p.now = p.now.Add(step)
		if p.tick(); len(p.out.Records) > 0 {
			return p.said() + p.state()
		}
		p.send(args[2].Key, args[3:])
		n++
	}
	return fmt.Sprintf("%d times, no tick decides anything; the last:\n", n) + p.said() + p.state()
}

func (p *player) stranger(args []datadriven.CmdArg) string {
	before := p.state()
	in := flow.Input{Kind: inputs[args[0].Key], Fields: p.fields(args[1:])}
	in.Run = testID(2)
	p.out.Reset()
	p.run.Step(p.now, &in, &p.out)
	if p.state() != before {
		p.t.Fatalf("a stranger's input changed the run")
	}
	return p.said() + p.state()
}

// said tells what the last turn decided.
func (p *player) said() string {
	var b strings.Builder
	if p.out.Err != nil {
		fmt.Fprintf(&b, "refused: %v\n", p.out.Err)
	}
	for i := range p.out.Records {
		rec := &p.out.Records[i]
		fmt.Fprintf(&b, "record %v", rec.Kind)
		word(&b, "fence", rec.Fence != 0, rec.Fence)
		word(&b, "until", rec.Until != 0, at(rec.Until))
		word(&b, "error", rec.ErrType != "", rec.ErrType)
		word(&b, "reason", rec.Reason != "", rec.Reason)
		lateWords(&b, &rec.Fields, !endsRun(rec.Kind) && rec.Kind != flow.RecHoldFreed)
		word(&b, "body", len(rec.Payload) > 0, string(rec.Payload))
		b.WriteByte('\n')
	}
	for i := range p.out.Effects {
		eff := &p.out.Effects[i]
		fmt.Fprintf(&b, "%v", eff.Kind)
		if eff.Kind == flow.EffSend {
			sent(&b, eff)
			continue
		}
		for _, f := range []struct {
			flag flow.Flags
			name string
		}{{flow.FlagOK, " ok"}, {flow.FlagCancel, " cancel"}, {flow.FlagRepeat, " repeat"}} {
			if eff.Flags.Has(f.flag) {
				b.WriteString(f.name)
			}
		}
		word(&b, "number", eff.Number != 0, eff.Number)
		word(&b, "runs", len(eff.Extra) > 0, numbers(flow.DecodeRunIDs(eff.Extra)))
		b.WriteByte('\n')
	}
	return b.String()
}

func word(b *strings.Builder, name string, there bool, val any) {
	if there {
		fmt.Fprintf(b, " %s=%v", name, val)
	}
}

// state is one line: status, attempt, holder, what is due.
func (p *player) state() string {
	var b strings.Builder
	v := p.run.View()
	fmt.Fprintf(&b, "= %v", v.Status)
	word(&b, "attempt", v.Attempt != 0, v.Attempt)
	word(&b, "held-by", v.Held, fmt.Sprintf("%s/%d", v.Worker, v.Fence))
	word(&b, "waits-for", v.Waiting != "", v.Waiting)
	word(&b, "signal", v.Signal != "", v.Signal)
	word(&b, "awaits", len(v.Awaits) > 0, numbers(v.Awaits))
	word(&b, "kept", len(p.run.peek().signals) > 0, len(p.run.peek().signals))
	word(&b, "to", !v.ContinuedTo.IsZero(), v.ContinuedTo[15])
	word(&b, "stop", v.CancelRequested, "asked")
	word(&b, "result", len(v.Result) > 0, string(v.Result))
	word(&b, "error", v.ErrType != "", v.ErrType)
	if due, ok := p.run.Due(); ok {
		word(&b, "due", true, at(due.At))
		word(&b, "date", due.Absolute, "yes")
	}
	return b.String() + "\n"
}

func (p *player) events() string {
	var b strings.Builder
	for _, e := range p.run.Events() {
		fmt.Fprintf(&b, "%d %s at=%s", e.Seq, e.Type, at(e.At))
		word(&b, "attempt", e.Attempt != 0, e.Attempt)
		word(&b, "fence", e.Fence != 0, e.Fence)
		word(&b, "worker", e.Worker != "", e.Worker)
		word(&b, "until", e.Until != 0, at(e.Until))
		word(&b, "error", e.ErrType != "", e.ErrType)
		word(&b, "reason", e.Reason != "", e.Reason)
		word(&b, "name", e.Name != "", e.Name)
		word(&b, "visit", e.Visit != 0, e.Visit)
		word(&b, "runs", len(e.Runs) > 0, numbers(e.Runs))
		b.WriteByte('\n')
	}
	return b.String()
}

func at(i flow.Instant) string {
	if i == flow.MaxInstant {
		return "never"
	}
	return time.Duration(i.Sub(epoch)).String()
}

func span(s string) flow.Span {
	if s == "never" {
		return flow.Span(flow.MaxInstant)
	}
	for unit, size := range map[string]flow.Span{"y": 365 * flow.Day, "d": flow.Day} {
		if n, ok := strings.CutSuffix(s, unit); ok {
			if n := number(n); n <= math.MaxInt64/int64(size) {
				return flow.Span(n) * size
			}
			return math.MaxInt64
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		panic("transcript: " + err.Error())
	}
	return flow.Span(d)
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic("transcript: " + err.Error())
	}
	return n
}
