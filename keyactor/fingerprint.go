package keyactor

import (
	"bytes"
	"fmt"

	"github.com/pyrula/pyrula-node/flow"
)

// Fingerprint is the whole state in one text, the same for the same state:
// for comparing a key with its replay.
func (k *Key) Fingerprint() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "key %q kind %d bucket %d used %d shown %d/%d/%d\n",
		[]string{k.id.Workflow, k.id.Value}, k.id.Kind, k.tat, k.used,
		k.shown.rate.interval, k.shown.rate.burst, k.shown.max)
	k.waiting.each(func(w waiter) bool {
		fmt.Fprintf(&b, "waits %s\n", w.text())
		return true
	})
	k.asks.each(func(a *ask) bool {
		fmt.Fprintf(&b, "asked %s awake %t reserved %t since %d\n", a.text(), a.awake, a.reserved, a.since)
		return true
	})
	k.holders.each(func(h holder) bool {
		fmt.Fprintf(&b, "holds %s fence %d slot %t terminated %t\n", h.text(), h.fence, h.slot, h.terminated)
		return true
	})
	k.wants.each(func(w *want) bool {
		fmt.Fprintf(&b, "want %d/%v peer %q awake %t rate %d/%d\n",
			w.order, w.run, w.peer.Value, w.awake, w.rate.interval, w.rate.burst)
		return true
	})
	if c := k.batch; c != nil {
		fmt.Fprintf(&b, "batch %v opened %d deadline %d due %t count %d bytes %d events %s ids %q\n",
			c.run, c.opened, c.deadline, c.due, c.count, c.size, c.events, c.ids)
	}
	return b.Bytes()
}

func (w *waiter) text() string {
	var s flow.Stamp
	if w.stamp != nil {
		s = *w.stamp
	}
	return fmt.Sprintf("%d/%v started %t stamp %+v", w.order, w.run, w.started, s)
}
