package keyactor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/pyrula/pyrula-node/flow"
)

// eventVerbs are the commands of events. A batch is called R1, R2, ... when it is opened, and
// so is its run.
//
//	collect max=10 window=5s bytes=30 limit=1 rate=1/s       the declaration from now on
//	debounce window=5s max-wait=10s
//	event e1..e9 key=a id=7 size=100      one after another, and what each is answered
//	lost e1               the key decides, and its entry is never written
//	timer worker=no       the key looks at its batch once; "until" does it when it is due
//	worker gone, worker back
//	kill                  the node starts again from its log
//	positions             all prefixes of the log are restored
//	buffer key=a          what waits
//	runs                  the runs that were made, with their parameters
var eventVerbs = map[string]func(*player, *testing.T, *datadriven.TestData) string{
	"collect": (*player).declare, "debounce": (*player).declare, "event": (*player).sendNamed, "lost": (*player).loseNamed,
	"timer": (*player).timer, "worker": (*player).worker, "kill": (*player).kill,
	"positions": (*player).prefixes, "buffer": (*player).buffer, "runs": (*player).runsMade,
}

// events plays a command of events; what it says stands behind the records.
func (p *player) events(t *testing.T, td *datadriven.TestData, verb func(*player, *testing.T, *datadriven.TestData) string) string {
	from := len(p.log)
	said := verb(p, t, td)
	for key := range p.ledger.taken {
		p.ledger.state(key)
	}
	p.dispatch()
	return p.records(from) + said
}

func (p *player) declare(t *testing.T, td *datadriven.TestData) string {
	window := instant(t, text(td, "window", "")).Sub(start)
	if td.Cmd == "collect" {
		p.def = collect(int64(number(td, "max", 0)), window, int64(number(td, "bytes", 0)))
	} else {
		p.def = debounce(window, instant(t, text(td, "max-wait", "0s")).Sub(start))
	}
	var rules []flow.Rule
	if td.HasArg("limit") {
		rules = append(rules, flow.Rule{Kind: flow.GateLimit, Max: int64(number(td, "limit", 1))})
	}
	if td.HasArg("rate") {
		rules = append(rules, flow.RuleOfRate(flow.Rate{PerSecond: perSecond(t, text(td, "rate", ""))}))
	}
	gated(p.def, rules...)
	return ""
}

func (p *player) sendNamed(t *testing.T, td *datadriven.TestData) string {
	key := keyOf(text(td, "key", "a"))
	var b strings.Builder
	var alike []string
	last := ""
	flush := func() {
		if len(alike) > 0 {
			fmt.Fprintf(&b, "%s: %s\n", folded(alike), last)
		}
		alike = nil
	}
	for _, name := range expand(t, td.CmdArgs[0].Key) {
		log := len(p.log)
		run, err := p.send(key, padded(name, number(td, "size", 0)), text(td, "id", ""))
		p.nameRuns(log)
		answer := "taken"
		full, refused := errors.AsType[*flow.BufferFull](err)
		switch {
		case refused:
			answer = fmt.Sprintf("buffer full with %d events of %d bytes, %v before its deadline", full.Events, full.Bytes, time.Duration(full.Room))
		case !run.IsZero():
			answer = p.names[run]
		case len(p.log) == log:
			answer = "taken before"
		}
		if answer != last {
			flush()
		}
		last = answer
		alike = append(alike, name)
	}
	flush()
	return b.String()
}

func (p *player) loseNamed(_ *testing.T, td *datadriven.TestData) string {
	p.lose(keyOf(text(td, "key", "a")), padded(td.CmdArgs[0].Key, 0), text(td, "id", ""))
	return ""
}

func (p *player) timer(_ *testing.T, td *datadriven.TestData) string {
	p.fire(keyOf(text(td, "key", "a")), text(td, "worker", "yes") == "yes")
	return ""
}

func (p *player) worker(_ *testing.T, td *datadriven.TestData) string {
	if p.alone = td.CmdArgs[0].Key == "gone"; !p.alone {
		p.fireAll(true) // it is announced
	}
	return ""
}

func (p *player) kill(*testing.T, *datadriven.TestData) string {
	p.crash()
	return ""
}

func (p *player) prefixes(*testing.T, *datadriven.TestData) string {
	all, buffers := p.positions()
	return fmt.Sprintf("%d positions, %d buffers with events, each with a deadline\n", all, buffers)
}

func (p *player) buffer(_ *testing.T, td *datadriven.TestData) string {
	key := keyOf(text(td, "key", "a"))
	v := p.live.key(key).ViewBatch()
	if v.Events == 0 {
		return "empty\n"
	}
	params, ids, _ := p.live.key(key).Batch()
	events, _ := p.ledger.read(params)
	due := ""
	if v.Due {
		due = ", due"
	}
	return fmt.Sprintf("%s %s, %d bytes, ids %q, opened %s, until %s%s\n",
		p.names[v.Run], eventNames(events), v.Bytes, ids, p.clock(v.Opened), p.clock(v.Deadline), due)
}

func (p *player) runsMade(*testing.T, *datadriven.TestData) string {
	var b strings.Builder
	for _, id := range p.ledger.made {
		r := p.run(id)
		events, t := p.ledger.read(r.params)
		fmt.Fprintf(&b, "%s of key %q: %d events %s, %v\n", p.names[id], t.Key, t.Count, eventNames(events), r.status)
	}
	return b.String()
}

// nameRuns names the batches that were opened since a place in the log.
func (p *player) nameRuns(from int) {
	for _, rec := range p.log[from:] {
		if rec.Kind == flow.RecBatchOpened {
			p.batchCount++
			p.name(fmt.Sprintf("R%d", p.batchCount), rec.Run)
		}
	}
}

// label is what a record is about, in a word.
func (p *player) label(rec *flow.Record) string {
	switch rec.Kind {
	case flow.RecEvent:
		return nameOf(string(rec.Payload))
	case flow.RecBatchOpened:
		return p.names[rec.Run] + " until " + p.clock(rec.Until)
	case flow.RecBatchCut:
		events, _ := p.ledger.read(p.run(rec.Run).params)
		return p.names[rec.Run] + " " + eventNames(events)
	default:
		return p.names[rec.Run]
	}
}

// eventNames are the names of padded events: "[a b]".
func eventNames(events []string) string {
	all := slices.Clone(events)
	for i, e := range all {
		all[i] = nameOf(e)
	}
	return "[" + folded(all) + "]"
}

func nameOf(event string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(event, `{"e":"`), `"`)
	return name
}
