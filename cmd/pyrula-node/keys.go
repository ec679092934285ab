package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pyrula/pyrula-node/pyrula"
)

// shownHolders is how many of those who hold slots stand in a table.
const shownHolders = 20

func (p *program) keysCommand() *cobra.Command {
	keys := &cobra.Command{
		Use: "keys", Aliases: []string{"key"},
		Short: "Show keys: slots, tokens, queue, and events that are gathered",
		Args:  noArgs,
		RunE:  help,
	}
	p.declareAsking(keys)
	show := &cobra.Command{
		Use:   "show WORKFLOW KEY",
		Short: "Show a key of a workflow as it stands",
		Long: `Show a key of a workflow as it stands: who holds its slots, how many tokens its bucket has,
how many runs wait, and the batch of events that isn't a run yet, with the id of the run
that it will be. The empty key is one too, and is written ''. A key that nobody uses has
nothing of all this, which is no error.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 || args[0] == "" {
				return &usageError{c.CommandPath(), fmt.Errorf("want the name of a workflow and a key, got %d arguments", len(args))}
			}
			return nil
		},
		RunE: p.asking(func(ctx context.Context, a *asker, args []string) error {
			view, err := a.Key(ctx, args[0], args[1])
			if err != nil {
				return err
			}
			return p.print(a, func() error { return p.keyTable(view) })
		}),
	}
	keys.AddCommand(show)
	return keys
}

func (p *program) keyTable(k *pyrula.KeyView) error {
	table := p.facts()
	table.line("workflow", quoted(k.Workflow))
	table.line("key", quoted(k.Key))
	table.line("slots", slotsText(k))
	for i, h := range k.Holders {
		if i == shownHolders {
			table.line("held by", fmt.Sprintf("%d more", len(k.Holders)-i))
			break
		}
		table.line("held by", h.RunID+" "+h.State)
	}
	table.line("tokens", tokensText(k))
	table.line("queued", queuedText(k))
	if b := k.Batch; b != nil {
		table.line("batch", fmt.Sprintf("%s, %d bytes", counted(int(b.Events), "event"), b.Bytes))
		table.line("will be", b.RunID)
		table.line("opened", ago(b.OpenedAt))
		if b.Due {
			table.line("fires", "due: waits for a worker")
		} else {
			table.line("fires at", upcoming(b.FiresAt))
		}
	}
	return table.Flush()
}

// slotsText is how many slots are taken; "" of a key without a Limit.
func slotsText(k *pyrula.KeyView) string {
	switch {
	case k.Max != nil:
		return fmt.Sprintf("%d of %d used", k.Used, *k.Max)
	case k.Used > 0:
		return fmt.Sprintf("%d used, under a limit that isn't declared any more", k.Used)
	}
	return ""
}

// tokensText is how a bucket stands; "" of a key without a Rate.
func tokensText(k *pyrula.KeyView) string {
	r := k.Rate
	if r == nil {
		return ""
	}
	text := fmt.Sprintf("%d of %d, %s a second", r.Tokens, r.Burst, strconv.FormatFloat(r.PerSecond, 'g', -1, 64))
	if r.OpensAt != nil {
		text += ", the next " + upcoming(*r.OpensAt)
	}
	return text
}

func queuedText(k *pyrula.KeyView) string {
	text := counted(int(k.Queued), "run")
	if k.OldestWaitMS != nil && k.Queued > 0 {
		text += ", the oldest for " + spanText(time.Duration(*k.OldestWaitMS)*time.Millisecond)
	}
	return text
}
