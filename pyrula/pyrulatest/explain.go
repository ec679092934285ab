package pyrulatest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pyrula/pyrula-node/pyrula"
)

// Explain is a run for a person: what it waits for, who holds what it waits for, and its
// journal with the virtual time since the test began.
func (e *Env) Explain(runID string) string {
	ctx := context.WithoutCancel(e.t.Context())
	st, err := e.Client.Status(ctx, runID)
	if err != nil {
		return fmt.Sprintf("\trun %s: %v", runID, err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\trun %s of workflow %q is %s at %v", runID, st.Workflow, st.Status, e.Elapsed())
	if st.Error != nil {
		fmt.Fprintf(&b, ": %s: %s", st.Error.Type, st.Error.Message)
	}
	b.WriteByte('\n')
	e.explainWait(ctx, &b, runID)
	events, err := e.Client.Events(ctx, runID)
	if err != nil {
		fmt.Fprintf(&b, "\tits journal: %v\n", err)
	}
	for i := range events {
		fmt.Fprintf(&b, "\t%12v  %s\n", time.UnixMilli(events[i].At).Sub(e.began), eventText(&events[i]))
	}
	return b.String()
}

func (e *Env) explainWait(ctx context.Context, b *strings.Builder, runID string) {
	why, err := e.Client.Why(ctx, runID)
	if err != nil {
		fmt.Fprintf(b, "\twhy: %v\n", err)
		return
	}
	if why.Wait == nil {
		return
	}
	fmt.Fprintf(b, "\twhy: %s\n", why.Text)
	for _, h := range why.Holders {
		fmt.Fprintf(b, "\theld by run %s, %s\n", h.RunID, h.State)
	}
}

// eventText is one entry of a journal: its type, and what it has to say.
func eventText(ev *pyrula.Event) string {
	text := []string{ev.Type}
	say := func(told bool, format string, args ...any) {
		if told {
			text = append(text, fmt.Sprintf(format, args...))
		}
	}
	say(ev.Attempt > 0, "attempt %d", ev.Attempt)
	say(ev.Name != "", "%q", ev.Name)
	say(ev.Visit > 1, "visit %d", ev.Visit)
	say(ev.Until > 0, "until %s", time.UnixMilli(ev.Until).UTC().Format(time.RFC3339))
	say(len(ev.Runs) > 0, "%s", strings.Join(ev.Runs, " "))
	say(ev.Reason != "", "reason %q", ev.Reason)
	if ev.Error != nil {
		say(true, "%s: %s", ev.Error.Type, ev.Error.Message)
	}
	return strings.Join(text, ", ")
}
