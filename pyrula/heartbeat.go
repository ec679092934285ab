package pyrula

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// againShare is the share of a lease, a twelfth, after which a heartbeat that failed
// is sent again: some eight attempts fit between the first failure and the end of
// the lease.
const againShare = 12

// heartbeats sends heartbeats for every hold until the shift ends, each third of the
// lease, up to 256 in one request. Requests don't wait for each other: one that
// hangs must not keep the next from being sent.
func (s *shift) heartbeats() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		list, next := s.holds.due(s.w.now())
		for some := range slices.Chunk(list, wire.MaxBatch) {
			go s.beat(some)
		}
		timer.Stop()
		if !next.IsZero() {
			timer.Reset(next.Sub(s.w.now()))
		}
		select {
		case <-timer.C:
		case <-s.holds.wake:
		case <-s.base.Done():
			return
		}
	}
}

// beat sends one request with the heartbeats of the holds that are still ours.
func (s *shift) beat(list []*hold) {
	list = slices.DeleteFunc(list, func(h *hold) bool { return !h.lease.held() })
	if len(list) == 0 {
		return
	}
	span := list[0].lease.span
	beats := make([]wire.Beat, len(list))
	for i, h := range list {
		span = min(span, h.lease.span)
		beats[i] = wire.Beat{RunID: h.run.ID, Fence: h.run.Fence}
	}
	// The answer to a request that hangs for as long is worth less than a new request.
	ctx, cancel := context.WithTimeout(s.base, min(span/startShare, s.w.client.requestTimeout))
	defer cancel()
	sent := s.w.now() // before the request leaves: the lease counts from here (R1)
	var out wire.HeartbeatResult
	err := s.send(ctx, wire.PathHeartbeats, wire.Heartbeat{Worker: s.w.cfg.Name, Runs: beats}, &out)
	if err == nil && len(out.Runs) != len(list) {
		err = fmt.Errorf("%w: %d heartbeats answered of %d", ErrBadAnswer, len(out.Runs), len(list))
	}
	if err != nil {
		if s.base.Err() == nil {
			s.log.warn("send heartbeats again", err)
			wait := max(span/againShare, min(retryAfter(err), span/startShare))
			s.holds.beatBy(list, s.w.now().Add(wait))
		}
		return
	}
	for i, r := range out.Runs {
		s.confirm(list[i], r, sent)
	}
}

// confirm takes one answer. A run that isn't ours any more but whose end was asked
// for was terminated: its body is told to stop, and what it says at its end frees
// the slot, if the lease lasts that long.
func (s *shift) confirm(h *hold, r wire.BeatResult, sent time.Time) {
	switch {
	case r.RunID != h.run.ID:
		s.log.error("a heartbeat was answered for another run", ErrBadAnswer, "run_id", h.run.ID, "answered", r.RunID)
	case r.OK:
		h.lease.confirm(sent)
	case !r.CancelRequested:
		h.lease.refuse()
	}
	if r.CancelRequested {
		h.stop(ErrCancelRequested)
	}
}
