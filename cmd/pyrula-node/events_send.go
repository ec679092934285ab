package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/pyrula"
)

func (p *program) sendingCommand() *cobra.Command {
	events := &cobra.Command{
		Use: "events", Aliases: []string{"event"},
		Short: "Send events to workflows whose runs are made of them",
		Args:  noArgs,
		RunE:  help,
	}
	p.declareAsking(events)
	events.AddCommand(p.sendCommand())
	return events
}

// sending is what the arguments and flags of a send say.
type sending struct {
	workflow, source string
	key, id          string
	lines            bool // the source has one event a line
	options          []pyrula.TriggerOption
}

func (p *program) sendCommand() *cobra.Command {
	var s sending
	send := &cobra.Command{
		Use:   "send WORKFLOW [EVENT]",
		Short: "Send an event, or a file of them, to a workflow with a Collect or a Debounce",
		Long: `Send an event to a workflow whose runs are made of events. EVENT is a JSON object, @FILE
reads it from a file, and - or nothing reads standard input. A file whose name ends in
.ndjson or .jsonl, standard input, and what --ndjson is said of have one event a line;
empty lines don't count.

An event is taken when it is on disk. Where it fills a batch, the run that this makes is
printed. Many events go in requests of up to 500, in their order. A request that is refused
as a whole ends the command, and it says from which line to go on; an event that is refused
alone, say since its batch is full, is told of, and the others go on: the exit code is 1
then, or 2 if every refusal is of an event or key that can't be right.

With -o json each answer is printed as it came: for many events one line for each, in
order. After an interrupt the request under way is still answered, so the count is right.

Nothing makes a repeat of this command known: what it has sent counts again, unless one
event is sent with --id.`,
		Example: `  pyrula-node events send digest '{"user_id":"ada","text":"hi"}' --id delivery-17
  pyrula-node events send digest @comments.ndjson
  jq -c '.comments[]' export.json | pyrula-node events send digest`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 || args[0] == "" {
				return &usageError{c.CommandPath(), fmt.Errorf("want the name of a workflow and an event, got %d arguments", len(args))}
			}
			return nil
		},
		Annotations: printsIDs,
	}
	send.Example = strings.ReplaceAll(send.Example, longName, p.name)
	flags := send.Flags()
	flags.StringVar(&s.key, "key", "", "the `KEY` of the events, for a workflow whose key is a function of its code")
	flags.StringVar(&s.id, "id", "", "the `ID` of one event: sent again with it, the event counts once")
	flags.BoolVar(&s.lines, "ndjson", false, "one event a line")
	send.RunE = p.asking(func(ctx context.Context, a *asker, args []string) error {
		s.workflow, s.source = args[0], "-"
		if len(args) == 2 {
			s.source = args[1]
		}
		s.lines = s.lines || ofLines(s.source)
		if flags.Changed("key") {
			s.options = append(s.options, pyrula.EventKey(s.key))
		}
		if flags.Changed("id") {
			s.options = append(s.options, pyrula.EventID(s.id))
		}
		switch {
		case !s.lines:
			return p.sendOne(ctx, a, &s)
		case flags.Changed("id"):
			return &usageError{send.CommandPath(), errors.New("--id is of one event, and there is one on each line")}
		}
		return p.sendLines(ctx, a, &s)
	})
	return send
}

// ofLines says whether a source has one event a line.
func ofLines(source string) bool {
	isFile := strings.HasPrefix(source, "@")
	return source == "-" || isFile && slices.ContainsFunc([]string{".ndjson", ".jsonl"}, func(end string) bool { return strings.HasSuffix(source, end) })
}

func (p *program) sendOne(ctx context.Context, a *asker, s *sending) error {
	text, err := p.readText(s.source)
	if err != nil {
		return &usageError{err: fmt.Errorf("the event %s: %w", s.source, err)}
	}
	event, err := readEvent(text)
	if err != nil {
		return &usageError{err: fmt.Errorf("the event: %w", err)}
	}
	run, err := a.Trigger(ctx, s.workflow, event, s.options...)
	if err != nil && s.id == "" {
		err = p.unsure(err, fmt.Sprintf("Look with %s keys show %s KEY before you send it again, or use --id.", p.name, quoted(s.workflow)))
	}
	if err != nil {
		return p.adviseSender(err, s)
	}
	var made []string
	if run != nil {
		made = append(made, run.ID)
	}
	if !p.asJSON {
		defer p.tellCounts(&counts{taken: 1, made: len(made)})
	}
	return p.printOr(a, made, func() error {
		if run == nil {
			return nil
		}
		_, err := fmt.Fprintf(p.stdout, "%s filled by the event\n", run.ID)
		return err
	})
}

// readEvent reads one event: a JSON object of legal size, compact.
func readEvent(text []byte) (json.RawMessage, error) {
	var raw json.RawMessage
	err := json.Unmarshal(text, &raw)
	wrong, isSyntax := errors.AsType[*json.SyntaxError](err)
	switch {
	case len(strings.TrimSpace(string(text))) == 0:
		return nil, errors.New("it is empty, want a JSON object")
	case isSyntax && len(text) == 1: // the first line of one that was written for people
		return nil, errors.New("not JSON: an event stands on one line, as jq -c writes it")
	case isSyntax:
		return nil, fmt.Errorf("not JSON at byte %d: %w", wrong.Offset, wrong)
	case err != nil:
		return nil, fmt.Errorf("not JSON: %w", err)
	case !utf8.Valid(text):
		return nil, errors.New("not UTF-8")
	case raw[0] != '{':
		return nil, errors.New("want a JSON object")
	}
	if raw, err = json.Marshal(raw); err == nil && len(raw) > flow.MaxEventBytes {
		err = fmt.Errorf("it is longer than %d bytes", flow.MaxEventBytes)
	}
	return raw, err
}

// adviseSender adds to a refusal what to do about it.
func (p *program) adviseSender(err error, s *sending) error {
	refused, ok := errors.AsType[*pyrula.APIError](err)
	switch {
	case !ok:
	case errors.Is(err, pyrula.ErrUnknownWorkflow):
		return p.advise(err, "A worker declares it when it starts: see %s workflows list", p.name)
	case errors.Is(err, pyrula.ErrConfiguration) && refused.Problem.Field == "key" && len(s.options) == 0:
		return p.advise(err, "Say the key with --key.")
	case errors.Is(err, pyrula.ErrBufferFull):
		return p.advise(err, "See the batch: %s keys show %s %s", p.name, quoted(s.workflow), quoted(refused.Problem.Key))
	}
	return err
}

// counts is what became of events so far.
type counts struct{ taken, made, refused int }

func (p *program) tellCounts(c *counts) {
	text := fmt.Sprintf("%s taken, %s made", counted(c.taken, "event"), counted(c.made, "run"))
	if c.refused > 0 {
		text += fmt.Sprintf(", %d refused", c.refused)
	}
	fmt.Fprintln(p.stderr, text)
}

// counted is a number of things: "no event", "1 event", "2 events".
func counted(n int, thing string) string {
	switch n {
	case 0:
		return "no " + thing
	case 1:
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
