package flow

import (
	"bytes"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/pyrula/pyrula-node/flow/pack"
)

// Signal is a signal that a run keeps until a wait gets it.
type Signal struct {
	Number    uint64 // counts the run's signals from 1
	Name      string
	Payload   []byte
	RequestID string // of the sender's request; may be empty
	At        Instant
}

// Waiter is a run that waits for another's end: the wait of that number of run Waits,
// which asked for it by the id Asked.
type Waiter struct {
	Waits  RunID
	Asked  RunID
	Number uint64
}

// Luggage is what a successor takes over beside the fields of its submit (P76).
type Luggage struct {
	Signals []Signal // that no wait has got
	Last    uint64   // number of the last signal that came
	Waiters []Waiter
}

const (
	luggageParts = 4
	signalParts  = 5
	waiterParts  = 3
)

// Empty says that there is nothing to take over.
func (l *Luggage) Empty() bool { return l.Last == 0 && len(l.Waiters) == 0 }

// Encode returns the luggage in bytes; nil when there is none.
func (l *Luggage) Encode() []byte {
	if l.Empty() {
		return nil
	}
	return packed(func(w *pack.Writer) {
		w.Array(luggageParts)
		w.Number(codecVersion)
		w.Number(int64(l.Last))
		w.Array(len(l.Signals))
		for i := range l.Signals {
			WriteSignal(w, &l.Signals[i])
		}
		w.Array(len(l.Waiters))
		for i := range l.Waiters {
			WriteWaiter(w, &l.Waiters[i])
		}
	})
}

// DecodeLuggage reads what Encode wrote. Error: ErrCodec.
func DecodeLuggage(b []byte) (Luggage, error) {
	var l Luggage
	if len(b) == 0 {
		return l, nil
	}
	r := unpacked(b)
	r.Array(luggageParts, luggageParts)
	if v := r.Number(); !r.Failed() && v != codecVersion {
		return l, undecodable("luggage has version %d, this build knows %d", v, codecVersion)
	}
	l.Last = uint64(r.Number())
	for n := r.Array(0, MaxSignals); n > 0 && !r.Failed(); n-- {
		l.Signals = append(l.Signals, ReadSignal(&r))
	}
	for n := r.Array(0, MaxWaiters); n > 0 && !r.Failed(); n-- {
		l.Waiters = append(l.Waiters, ReadWaiter(&r))
	}
	if r.Failed() {
		return l, undecodable("luggage: %v", r.Err())
	}
	return l, nil
}

// WriteSignal writes a signal.
func WriteSignal(w *pack.Writer, s *Signal) {
	w.Array(signalParts)
	w.Number(int64(s.Number))
	w.Text(s.Name)
	w.Bytes(s.Payload)
	w.Text(s.RequestID)
	w.Number(int64(s.At))
}

// ReadSignal reads what WriteSignal wrote.
func ReadSignal(r *pack.Reader) Signal {
	r.Array(signalParts, signalParts)
	return Signal{
		Number: uint64(r.Number()), Name: r.Text(maxNameText), Payload: r.Bytes(nil, MaxRecordBytes),
		RequestID: r.Text(MaxKeyBytes), At: Instant(r.Number()),
	}
}

// WriteWaiter writes a waiter.
func WriteWaiter(w *pack.Writer, v *Waiter) {
	w.Array(waiterParts)
	WriteRunID(w, &v.Waits)
	WriteRunID(w, &v.Asked)
	w.Number(int64(v.Number))
}

// ReadWaiter reads what WriteWaiter wrote.
func ReadWaiter(r *pack.Reader) (v Waiter) {
	r.Array(waiterParts, waiterParts)
	ReadRunID(r, &v.Waits)
	ReadRunID(r, &v.Asked)
	v.Number = uint64(r.Number())
	return v
}

// EncodeRunIDs returns a list of ids in bytes, 16 for each.
func EncodeRunIDs(ids []RunID) []byte {
	b := make([]byte, 0, len(ids)*len(RunID{}))
	for i := range ids {
		b = append(b, ids[i][:]...)
	}
	return b
}

// DecodeRunIDs reads what EncodeRunIDs wrote; what is left over at the end is no id.
func DecodeRunIDs(b []byte) []RunID {
	var size = len(RunID{})
	ids := make([]RunID, 0, len(b)/size)
	for ; len(b) >= size; b = b[size:] {
		ids = append(ids, RunID(b[:size]))
	}
	return ids
}

func packed(write func(*pack.Writer)) []byte {
	var buf bytes.Buffer
	enc := msgpack.NewEncoder(&buf)
	enc.UseCompactInts(true)
	w := pack.NewWriter(enc)
	write(&w)
	must(w.Err())
	return buf.Bytes()
}

func unpacked(b []byte) pack.Reader {
	return pack.NewReader(msgpack.NewDecoder(bytes.NewReader(b)), nil)
}
