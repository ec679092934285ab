package actors

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/anthdm/hollywood/actor"
)

// handler is what a mailbox feeds: batches of messages, one call at a time.
type handler interface {
	// receive handles a batch in order.
	receive(msgs []any)
	// position says what is being handled, for the last words of a panic.
	position() string
	// stopped is called once, after the last message.
	stopped()
}

// mailbox is a hollywood process of our own kind: a hollywood inbox in front of a
// handler. It has none of hollywood's restarts: a panic is told to fatal with
// its position, and fatal ends the process.
//
// A message is either handled or, after stop, dropped; callers learn of a drop by
// the answer that never comes, so every wait on an answer is bounded.
type mailbox struct {
	pid     *actor.PID
	inbox   *actor.Inbox
	handler handler
	fatal   func(error)
	batch   []any
	stopped chan struct{}
}

// inboxSize is the first size of a ring that grows; what may lie in it is bounded
// by the admission counters of its senders.
const inboxSize = 1024

// ErrDuplicateActor says that a name is taken; hollywood itself would silently
// return the other actor.
var ErrDuplicateActor = errors.New("actors: an actor of this name exists")

// spawn starts a mailbox under a name that nobody else has. Error:
// ErrDuplicateActor.
func spawn(e *actor.Engine, kind, id string, m *mailbox) error {
	if e.Registry.GetPID(kind, id) != nil {
		return fmt.Errorf("spawn %s/%s: %w", kind, id, ErrDuplicateActor)
	}
	m.pid = actor.NewPID(e.Address(), kind+"/"+id)
	m.inbox = actor.NewInbox(inboxSize)
	m.stopped = make(chan struct{})
	e.SpawnProc(m)
	return nil
}

// Start begins to hand messages over; hollywood calls it.
func (m *mailbox) Start() { m.inbox.Start(m) }

// PID is the mailbox's address.
func (m *mailbox) PID() *actor.PID { return m.pid }

// Send takes a message from the engine.
func (m *mailbox) Send(_ *actor.PID, msg any, sender *actor.PID) {
	m.inbox.Send(actor.Envelope{Msg: msg, Sender: sender})
}

// tell puts a message into the mailbox without the look-up in the registry. It
// never blocks.
func (m *mailbox) tell(msg any) { m.inbox.Send(actor.Envelope{Msg: msg, Sender: m.pid}) }

// Shutdown is hollywood's; our own stop is by message, so that nothing that was
// told before it is lost.
func (m *mailbox) Shutdown() {}

// stopMsg is the last message of a mailbox.
type stopMsg struct{}

// stop handles everything told before it and ends the mailbox. Error when it
// doesn't end within the given time.
func (m *mailbox) stop(within time.Duration) error {
	m.tell(stopMsg{})
	select {
	case <-m.stopped:
		return nil
	case <-time.After(within):
		return fmt.Errorf("actors: %s did not stop within %s", m.pid.ID, within)
	}
}

// Invoke hands one batch to the handler; hollywood calls it, one call at a time.
func (m *mailbox) Invoke(envelopes []actor.Envelope) {
	defer func() {
		if r := recover(); r != nil {
			m.fatal(fmt.Errorf("%s: %v at %s\n%s", m.pid.ID, r, m.handler.position(), debug.Stack()))
		}
	}()
	stopping := false
	m.batch = m.batch[:0]
	for i := range envelopes {
		if _, ok := envelopes[i].Msg.(stopMsg); ok {
			stopping = true
			break
		}
		m.batch = append(m.batch, envelopes[i].Msg)
	}
	if len(m.batch) > 0 {
		m.handler.receive(m.batch)
		clear(m.batch)
	}
	if stopping {
		m.end()
	}
}

func (m *mailbox) end() {
	select {
	case <-m.stopped: // a second stop message
		return
	default:
	}
	if err := m.inbox.Stop(); err != nil {
		m.fatal(fmt.Errorf("stop %s: %w", m.pid.ID, err))
	}
	m.handler.stopped()
	close(m.stopped)
}
