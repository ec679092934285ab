package keyactor

import "github.com/pyrula/pyrula-node/flow"

// Load is what a key adds to the node's gauges.
type Load struct {
	Used    int64 // slots taken or set aside
	Max     int64 // of the Limit that was seen last; zero when none was
	Waiting int64 // runs in the queue
	Reason  flow.WaitReason
	Asked   int64        // runs whose token of another key is under way
	Oldest  flow.Instant // submit instant of the run that waits longest; zero without one
}

// Load is cheap: it asks the gates for the head alone, and whoever stands behind
// waits for the same reason. It changes nothing.
func (k *Key) Load(now flow.Instant) Load {
	l := Load{Used: k.used, Max: k.shown.max, Waiting: int64(k.waiting.len()), Asked: k.asks.underWay()}
	if a := k.asks.oldestAwake(); a != nil {
		l.Oldest = a.order
	}
	head, ok := k.head()
	if !ok {
		return l
	}
	if l.Oldest == 0 || head.order < l.Oldest {
		l.Oldest = head.order
	}
	switch k.check(&head, now).answer {
	case byLimit:
		l.Reason = flow.WaitLimit
	case byRate, byWants:
		l.Reason = flow.WaitRate
	case admitted, mustAsk:
		l.Reason = flow.WaitWorkerBusy
	}
	return l
}
