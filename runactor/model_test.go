package runactor

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pyrula/pyrula-node/flow"
)

// oracle is the rules again, written as plainly as they can be said and without
// the machine's own words.
type oracle struct {
	ended, cancelAsked bool
	stopped            bool   // ended by a cancel or terminate
	terminated         bool   // ended, but its holder may still work
	holder             uint64 // fence of who holds the run, 0 for nobody
	nextFence          uint64
	gone               []uint64 // fences that held the run once and don't any more
	leaseEnds          flow.Instant
	suspended          bool
	wakes              flow.Instant
	takenKind          flow.InputKind // last ending request that was taken
	takenFence         uint64
	tries, failures    int64
	backoff            flow.Span
	attempt            int64
	sameAttempt        bool
	recorded
}

func (o *oracle) lose(taken flow.InputKind) {
	o.gone = append(o.gone, o.holder)
	if taken != 0 {
		o.takenKind, o.takenFence = taken, o.holder
	}
	o.holder = 0
}

// runModel drives one run with all inputs in any order, with right, late and
// invented fences, over jumps of time, restarts and snapshots.
type runModel struct {
	*world
	o         oracle
	submitted bool
}

func TestP8P23P24P26P28P29P50P51P54P63P64P76R13R15R20S88S92S96S100S106RunModel(t *testing.T) {
	for name, begin := range map[string]func(*runModel, *rapid.T){
		"from nothing": func(*runModel, *rapid.T) {},
		"queued":       (*runModel).Submit,
		"handed on": func(m *runModel, t *rapid.T) {
			m.Submit(t)
			m.Signal(t)
			m.Watch(t)
			m.handedOn(t)
		},
		"executing": func(m *runModel, t *rapid.T) { m.Submit(t); m.Admit(t) },
		"suspended": func(m *runModel, t *rapid.T) {
			m.Submit(t)
			m.Admit(t)
			m.Start(t)
			m.Signal(t)
			m.Wait(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				m := &runModel{world: newWorld(t)}
				m.now = 1000 * second
				begin(m, t)
				t.Repeat(m.actions())
				m.replayed(len(m.log))
			})
		})
	}
}

func (m *runModel) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"submit": m.Submit, "admit": m.Admit, "complete": m.Complete, "fail": m.Fail,
		"suspend": m.Suspend, "heartbeat": m.Heartbeat, "cancel": m.Cancel, "terminate": m.Terminate,
		"tick": m.Tick, "pass": m.Pass, "restart": m.Restart, "restore": m.Restore,
		"steps": m.Steps, "signal": m.Signal, "wait": m.Wait, "start": m.Start, "watch": m.Watch,
		"outcome": m.Outcome, "hand on": m.HandOn, "chain over": m.ChainOver,
		// What leads deep into a life comes more often.
		"admit 2": m.Admit, "admit 3": m.Admit, "wait 2": m.Wait, "wait 3": m.Wait, "outcome 2": m.Outcome,
		"signal 2": m.Signal, "steps 2": m.Steps,
		"": m.Invariants,
	}
}

func (m *runModel) want(t *rapid.T, kinds ...flow.RecordKind) {
	t.Helper()
	if m.out.Err != nil || !slices.Equal(m.kinds(), kinds) {
		t.Fatalf("decided %v (error %v), want %v; oracle %+v", m.kinds(), m.out.Err, kinds, m.o)
	}
}

func (m *runModel) refused(t *rapid.T, want error) {
	t.Helper()
	if !errors.Is(m.out.Err, want) {
		t.Fatalf("refused with %v, want %v; decided %v; oracle %+v", m.out.Err, want, m.kinds(), m.o)
	}
}

func (m *runModel) need(t *rapid.T, yes bool) {
	if !yes {
		t.Skip("not in this state")
	}
}

// rare keeps most lives from ending before much has happened to them.
func (m *runModel) rare(t *rapid.T) {
	m.need(t, m.o.ended || rapid.IntRange(0, 3).Draw(t, "really") == 0)
}

func (m *runModel) Submit(t *rapid.T) {
	first := m.run.Status() == 0
	f := flow.Fields{
		Order: m.now - flow.Instant(rapid.Int64Range(0, 5).Draw(t, "late")), Workflow: "sync",
		Payload:        rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "params"),
		Stamp:          rapid.SampledFrom([]*flow.Stamp{testStamp, {Unknown: true}, {}}).Draw(t, "stamp"),
		Trigger:        rapid.SampledFrom([]string{"client", "case", "odd", ""}).Draw(t, "trigger"),
		IdempotencyKey: rapid.SampledFrom([]string{"", "k"}).Draw(t, "key"),
	}
	if rapid.Bool().Draw(t, "successor") {
		from := successorFields()
		f.Other, f.Root, f.Parent, f.Origin, f.Extra = from.Other, from.Root, from.Parent, from.Origin, from.Extra
	}
	if m.step(flow.InSubmit, f); first {
		m.want(t, flow.RecSubmitted)
		m.submitted = true
		m.o.begin(&f)
		return
	}
	m.want(t)
	if m.flags() != flow.FlagRepeat {
		t.Fatalf("a repeated submit is answered %b", m.flags())
	}
}

func (m *runModel) Admit(t *rapid.T) {
	m.need(t, m.submitted && !m.o.ended && m.o.holder == 0 && !m.o.suspended)
	m.o.nextFence += rapid.Uint64Range(1, 1<<24).Draw(t, "fence step")
	f := flow.Fields{
		Fence: m.o.nextFence, Worker: rapid.SampledFrom([]string{"w1", "w2"}).Draw(t, "worker"),
		Version:  rapid.SampledFrom([]string{"", "2", "3"}).Draw(t, "version"),
		Lease:    flow.Span(rapid.Int64Range(int64(flow.MinLease), int64(flow.MaxLease)).Draw(t, "lease")),
		Attempts: rapid.Int64Range(0, 4).Draw(t, "tries"),
		Backoff:  rapid.SampledFrom([]flow.Span{0, flow.Second, flow.MaxBackoff}).Draw(t, "backoff"),
	}
	started := m.run.Started()
	if started != (len(m.o.gone) > 0) {
		t.Fatalf("started is %t after %d holds", started, len(m.o.gone))
	}
	m.admit(f)
	m.o.untouched = false
	m.o.holder, m.o.leaseEnds = f.Fence, m.now.Add(f.Lease+f.Lease/5+flow.Second)
	m.o.tries, m.o.backoff = f.Attempts, f.Backoff
	if !m.o.sameAttempt {
		m.o.attempt++
	}
	m.o.sameAttempt = false
}

// fence draws one that holds, held, or was never given.
func (m *runModel) fence(t *rapid.T) uint64 {
	pool := append([]uint64{m.o.holder, m.o.holder, m.o.holder, m.o.holder, m.o.holder, m.o.holder, 0, m.o.nextFence + 1, m.o.takenFence}, m.o.gone...)
	return rapid.SampledFrom(pool).Draw(t, "fence")
}

// ending sends a complete, fail or suspend and settles all of it but what the
// holder's own message does to a run that nobody asked to stop. bad says that a holder
// would be refused.
func (m *runModel) ending(t *rapid.T, k flow.InputKind, f flow.Fields, bad bool) (live bool) {
	t.Helper()
	f.Fence = m.fence(t)
	m.step(k, f)
	holds := f.Fence != 0 && f.Fence == m.o.holder
	switch {
	case m.submitted && holds && bad && !m.o.terminated && !m.o.cancelAsked:
		m.refused(t, flow.ErrInvalid)
	case !m.submitted:
		m.refused(t, flow.ErrUnknownRun)
	case holds:
		want := flow.FlagOK
		switch {
		case m.o.terminated:
			m.want(t, flow.RecHoldFreed)
			want |= flow.FlagCancel
		case m.o.cancelAsked:
			var children []flow.RunID
			if k == flow.InSuspend && f.Flags.Has(flow.FlagRuns) {
				children = m.o.childrenOf(flow.DecodeRunIDs(f.Extra))
			}
			m.wantEnd(t, flow.RecCancelled, children)
			m.o.stopped = true
			want |= flow.FlagCancel
		default:
			live = true
		}
		if m.flags() != want {
			t.Fatalf("%v is answered %b, want %b", k, m.flags(), want)
		}
		m.o.lose(k)
	case f.Fence != 0 && f.Fence == m.o.takenFence && k == m.o.takenKind:
		m.want(t)
		if !m.flags().Has(flow.FlagRepeat) || m.flags().Has(flow.FlagOK) {
			t.Fatalf("a repeat is answered %b", m.flags())
		}
	case m.o.ended:
		m.refused(t, flow.ErrRunEnded)
	default:
		m.refused(t, flow.ErrStaleFence)
	}
	return live
}

func (m *runModel) Complete(t *rapid.T) {
	m.rare(t)
	body := rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "result")
	if m.ending(t, flow.InComplete, flow.Fields{Payload: body}, false) {
		m.wantEnd(t, flow.RecCompleted, nil)
	}
}

func (m *runModel) Fail(t *rapid.T) {
	f := flow.Fields{ErrType: rapid.SampledFrom([]string{"", "E"}).Draw(t, "type"), ErrText: "boom"}
	if rapid.Bool().Draw(t, "retryable") {
		f.Flags = flow.FlagRetryable
	}
	if !m.ending(t, flow.InFail, f, false) {
		return
	}
	m.o.failures++
	switch {
	case f.Flags == 0 || m.o.failures >= m.o.tries:
		m.wantEnd(t, flow.RecFailed, nil)
	case m.o.backoff == 0:
		m.want(t, flow.RecRetrying, flow.RecWoken)
	default:
		m.want(t, flow.RecRetrying)
		m.o.suspended, m.o.wakes = true, m.now.Add(m.o.backoff)
	}
}

func (m *runModel) Suspend(t *rapid.T) {
	f := flow.Fields{Until: rapid.SampledFrom([]flow.Instant{
		0, m.now - 1, m.now, m.now + 1, m.now.Add(flow.Minute), m.now.Add(3650 * flow.Day), flow.MaxInstant,
	}).Draw(t, "until")}
	if rapid.Bool().Draw(t, "absolute") {
		f.Flags = flow.FlagAbsolute
	}
	if !m.ending(t, flow.InSuspend, f, false) {
		return
	}
	m.o.sameAttempt = true
	if f.Until <= m.now && f.Flags == 0 {
		m.want(t, flow.RecSuspended, flow.RecWoken)
		return
	}
	m.want(t, flow.RecSuspended)
	m.o.suspended, m.o.wakes = true, max(f.Until, 1)
}

func (m *runModel) Heartbeat(t *rapid.T) {
	f := m.fence(t)
	m.step(flow.InHeartbeat, flow.Fields{Fence: f})
	switch {
	case !m.submitted:
		m.refused(t, flow.ErrUnknownRun)
	case f == 0 || f != m.o.holder || m.o.terminated:
		m.want(t)
		if stop := m.o.cancelAsked || m.o.stopped; m.flags()&^flow.FlagCancel != 0 || m.flags().Has(flow.FlagCancel) != stop {
			t.Fatalf("a heartbeat of nobody who may go on is answered %b", m.flags())
		}
	default:
		m.want(t, flow.RecRenewed)
		if m.flags().Has(flow.FlagCancel) != m.o.cancelAsked || !m.flags().Has(flow.FlagOK) {
			t.Fatalf("a heartbeat is answered %b", m.flags())
		}
		m.o.leaseEnds = Expiry(m.now, m.run.Lease())
	}
}

func (m *runModel) Cancel(t *rapid.T) {
	m.rare(t)
	m.step(flow.InCancel, flow.Fields{Reason: rapid.SampledFrom([]string{"", "why"}).Draw(t, "reason")})
	switch {
	case !m.submitted:
		m.refused(t, flow.ErrUnknownRun)
	case m.o.ended || m.o.cancelAsked:
		m.want(t)
	case m.o.holder != 0:
		m.want(t, flow.RecCancelAsked)
		m.o.cancelAsked = true
	default:
		m.wantEnd(t, flow.RecCancelled, m.o.childrenOf(m.o.open()))
		m.o.stopped = true
	}
}

func (m *runModel) Terminate(t *rapid.T) {
	m.rare(t)
	m.step(flow.InTerminate, flow.Fields{Reason: "enough"})
	switch {
	case !m.submitted:
		m.refused(t, flow.ErrUnknownRun)
	case m.o.ended:
		m.want(t)
	default:
		m.wantEnd(t, flow.RecTerminated, m.o.childrenOf(m.o.open()))
		m.o.terminated, m.o.stopped = m.o.holder != 0, true
	}
}

func (m *runModel) Tick(t *rapid.T) {
	m.tick()
	switch {
	case !m.submitted:
		m.refused(t, flow.ErrUnknownRun)
	case m.o.holder != 0 && m.now >= m.o.leaseEnds:
		switch {
		case m.o.terminated:
			m.want(t, flow.RecHoldFreed)
		case m.o.cancelAsked:
			m.wantEnd(t, flow.RecCancelled, nil)
			m.o.stopped = true
		default:
			m.want(t, flow.RecExpired)
		}
		m.o.lose(0)
	case m.o.suspended && m.o.wakes != 0 && m.now >= m.o.wakes:
		m.want(t, flow.RecWoken)
		m.woken(0)
	default:
		m.want(t)
	}
}

// Pass lets time pass: a little, just short of the deadline, to it, or far.
func (m *runModel) Pass(t *rapid.T) {
	to := m.now.Add(flow.Span(rapid.Int64Range(0, int64(20*flow.Second)).Draw(t, "pass")))
	if due, ok := m.run.Due(); ok && due.At > m.now && due.At.Sub(m.now) < 31*flow.Day && rapid.Bool().Draw(t, "to the deadline") {
		to = due.At - flow.Instant(rapid.Int64Range(0, 1).Draw(t, "short by"))
	}
	m.now = max(m.now, to)
}

func (m *runModel) Restart(t *rapid.T) {
	m.restart()
	m.resumed()
}

func (m *runModel) Restore(t *rapid.T) {
	m.need(t, m.submitted)
	m.restore()
	m.resumed()
}

func (m *runModel) resumed() {
	if m.o.holder != 0 {
		m.o.leaseEnds = Expiry(m.now, m.run.Lease())
	}
}

func (m *runModel) Invariants(t *rapid.T) {
	due, ok := m.run.Due()
	switch {
	case m.o.holder != 0:
		if !ok || due.At != m.o.leaseEnds || due.Absolute {
			t.Fatalf("due %v %t, want the lease's end %d", due, ok, m.o.leaseEnds)
		}
	case m.o.suspended && m.o.wakes != 0:
		if !ok || due.At != m.o.wakes {
			t.Fatalf("due %v %t, want the end of the suspension %d", due, ok, m.o.wakes)
		}
	case ok:
		t.Fatalf("due %v, and nothing is to come", due)
	}
	if m.run.Attempt() != m.o.attempt || m.run.Held() != (m.o.holder != 0) {
		t.Fatalf("attempt %d, held %t; oracle %+v", m.run.Attempt(), m.run.Held(), m.o)
	}
	if m.run.Status().Ended() != m.o.ended || m.run.CancelAsked() != m.o.cancelAsked {
		t.Fatalf("status %v, cancel asked %t; oracle %+v", m.run.Status(), m.run.CancelAsked(), m.o)
	}
	if m.submitted {
		m.journal(t)
		m.books(t)
	}
}

// journal holds that the run's own events tell its records, in order, without a
// gap as long as none had to be dropped (P26).
func (m *runModel) journal(t *rapid.T) {
	var told []*flow.Record
	for i := range m.log {
		if rec := m.log[i].record(t); i == 0 || eventType(rec.Kind) != "" {
			told = append(told, rec)
		}
	}
	events := m.run.Events()
	if len(events) != len(told) || events[0].Type != flow.EventInit {
		t.Fatalf("%d events of %d records, the first %q", len(events), len(told), events[0].Type)
	}
	for i := range events[1:] {
		e, rec := events[i+1], told[i+1]
		want := eventType(rec.Kind)
		if rec.Kind == flow.RecStep && rec.ErrType != "" {
			want = flow.EventStepFailed
		}
		if e.Type != want || e.At != rec.At || e.Fence != rec.Fence || e.Seq != int64(i)+2 || e.Visit != rec.Visit {
			t.Fatalf("event %d is %+v of record %v", i+1, e, rec.Kind)
		}
	}
}
