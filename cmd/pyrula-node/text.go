package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
	"github.com/pyrula/pyrula-node/pyrula"
)

// gateText is a gate in one line.
func gateText(g wire.Gate) string {
	text := fmt.Sprintf("%s=%s", g.KeyName, quoted(g.Key))
	if g.Max > 0 {
		return fmt.Sprintf("%s  at most %d at once", text, g.Max)
	}
	return fmt.Sprintf("%s  %s a second, burst %d", text, strconv.FormatFloat(g.PerSecond, 'g', -1, 64), g.Burst)
}

// waitsFor is what a run waits for, in one word and its facts; "" when it doesn't.
func waitsFor(w *wire.Wait) string {
	if w == nil {
		return ""
	}
	text := w.Reason
	if w.Used != nil && w.Max != nil {
		text += fmt.Sprintf(" %d/%d", *w.Used, *w.Max)
	}
	if w.Signal != nil {
		text += " " + quoted(*w.Signal)
	}
	if len(w.Runs) > 0 {
		text += " " + someRuns(w.Runs)
	}
	if w.Position != nil {
		text += fmt.Sprintf(" place %d", *w.Position)
	}
	if w.OpensAt != nil {
		text += " until " + upcoming(*w.OpensAt)
	}
	return text
}

// keyOf is the key that a run is known by: of its first gate, "-" without gates.
func keyOf(r *pyrula.RunStatus) string {
	if len(r.Gates) == 0 {
		return "-"
	}
	return quoted(r.Gates[0].Key)
}

// quoted is a text that may come from anywhere, fit for a terminal: as it is when it
// is plain, else in quotes.
func quoted(text string) string {
	if q := strconv.Quote(text); text == "" || strings.ContainsRune(text, ' ') || q[1:len(q)-1] != text {
		return q
	}
	return text
}

// clock is an instant of the API in UTC.
func clock(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// upcoming is an instant to come, with the time until then: "..., in 0.8 s".
func upcoming(ms int64) string {
	left := time.Until(time.UnixMilli(ms))
	if left < 0 {
		return clock(ms)
	}
	return clock(ms) + ", in " + spanText(left)
}

// spanText is a length of time as exact as a person wants it.
func spanText(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 3*day:
		return wholeText(d.Round(time.Second))
	}
	return fmt.Sprintf("%d days", d/day)
}

// wholeText is a length of time without the zeros at its end: 5m and not 5m0s.
func wholeText(d time.Duration) string {
	text := d.String()
	for _, zeros := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zeros) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// instants is how the API's sentences name an instant.
var instants = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// dated is a sentence of the API with the time that is left until its instants.
func dated(text string) string {
	return instants.ReplaceAllStringFunc(text, func(found string) string {
		at, err := time.Parse(time.RFC3339Nano, found)
		if err != nil {
			return found
		}
		return upcoming(at.UnixMilli())
	})
}

func clockOrNone(ms *int64) string {
	if ms == nil {
		return ""
	}
	return clock(*ms)
}

// ago is an instant of the past, with the time since then.
func ago(ms int64) string {
	since := time.Since(time.UnixMilli(ms))
	if since < time.Second {
		return clock(ms)
	}
	return clock(ms) + ", " + spanText(since) + " ago"
}

// shownRuns is how many ids stand in one line of a table.
const shownRuns = 3

// someRuns are ids in one line, and how many more there are.
func someRuns(ids []string) string {
	if len(ids) <= shownRuns {
		return strings.Join(ids, " ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(ids[:shownRuns], " "), len(ids)-shownRuns)
}

// facts are the lines of one thing: a name, and what there is to say.
type facts struct{ *tabwriter.Writer }

func (p *program) facts() facts { return facts{tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)} }

// line writes a fact, unless there is none.
func (f facts) line(name, text string) {
	if text != "" {
		fmt.Fprintf(f, "%s\t%s\n", name, text)
	}
}

// named writes a fact whose text may come from anywhere.
func (f facts) named(name string, text *string) {
	if text != nil {
		f.line(name, quoted(*text))
	}
}
