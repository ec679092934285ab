package actors

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/keyactor"
	"github.com/pyrula/pyrula-node/persistence/engine"
	"github.com/pyrula/pyrula-node/runactor"
)

// ErrSnapshot is the family of snapshots that can't be read: damage, or a format
// that is newer than this build.
var ErrSnapshot = errors.New("actors: can't read the snapshot")

func badSnapshot(what string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrSnapshot, what, err)
}

// restore builds a state from what a capture wrote.
func restore(r io.Reader, shards int) (*state, error) {
	dec := msgpack.NewDecoder(bufio.NewReaderSize(r, 1<<16))
	version, err := dec.DecodeInt()
	if err != nil {
		return nil, badSnapshot("version", err)
	}
	if version != snapshotVersion {
		return nil, badSnapshot("version", fmt.Errorf("format %d, this build knows %d", version, snapshotVersion))
	}
	st := newState(shards)
	shared := new(flow.Shared)
	for {
		part, err := dec.DecodeInt()
		if err != nil {
			return nil, badSnapshot("part", err)
		}
		if part == partEnd {
			break
		}
		if err := st.restorePart(part, dec, shared); err != nil {
			return nil, badSnapshot("part "+fmt.Sprint(part), err)
		}
	}
	if err := st.rejoin(); err != nil {
		return nil, badSnapshot("state", err)
	}
	return st, nil
}

func (st *state) restorePart(part int, dec *msgpack.Decoder, shared *flow.Shared) error {
	switch part {
	case partRecord:
		var rec flow.Record
		if err := rec.DecodeMsgpack(dec); err != nil {
			return err
		}
		return st.restoreShard(&rec)
	case partRun:
		run := new(runactor.Run)
		if err := run.DecodeShared(dec, shared); err != nil {
			return err
		}
		if st.runs[run.ID()] != nil {
			return fmt.Errorf("run %s stands twice", run.ID())
		}
		st.addRun(run)
		return nil
	case partKey:
		key := new(keyactor.Key)
		if err := key.DecodeMsgpack(dec); err != nil {
			return err
		}
		if st.keys[key.ID()] != nil {
			return fmt.Errorf("%s stands twice", key.ID())
		}
		slot := &keySlot{id: key.ID(), key: key}
		slot.seat = st.keySlab.add(slot)
		st.keys[slot.id] = slot
		return nil
	case partRequest, partKeyed, partEvent:
		var rec flow.Record
		if err := rec.DecodeMsgpack(dec); err != nil {
			return err
		}
		rec.At = rec.Order
		switch part {
		case partKeyed:
			return st.restoreKeyed(&rec)
		case partEvent:
			if len(rec.Payload) != len(eventID{}) {
				return fmt.Errorf("an event is known by %d bytes, not by %d", len(rec.Payload), len(eventID{}))
			}
			st.cutEvents.remember(eventID(rec.Payload), rec.Run, rec.At)
		default:
			st.requests.remember(rec.RequestID, rec.Run, rec.At)
		}
		return nil
	}
	return errors.New("unknown to this build")
}

// restoreShard reads a record of shardRecords: counters are told as they stand,
// not step by step.
func (st *state) restoreShard(rec *flow.Record) error {
	if int(rec.Shard) >= len(st.mail.in) {
		return fmt.Errorf("shard %d of %d", rec.Shard, len(st.mail.in))
	}
	if err := legible(rec); err != nil {
		return err
	}
	switch rec.Kind {
	case flow.RecReceived:
		st.mail.in[rec.Shard] = rec.Number
	case flow.RecDelivered:
		st.mail.out[rec.Shard].done = rec.Number
	case flow.RecKeyArchived:
		st.archived.keys = rec.Number
	case flow.RecArchived:
		st.archived.add(int64(rec.Order), rec.Number)
	case flow.RecScheduled:
		return st.restoreSchedule(rec)
	case flow.RecPromoted, flow.RecSent, flow.RecDeclared, flow.RecSeeking:
		st.applyShard(rec)
	default:
		return fmt.Errorf("record %s is not a shard's", rec.Kind)
	}
	return nil
}

func (st *state) restoreKeyed(rec *flow.Record) error {
	if rec.Kind != flow.RecKeyed || int(rec.Shard) >= len(st.mail.out) {
		return fmt.Errorf("record %s of shard %d is no idempotency key", rec.Kind, rec.Shard)
	}
	if st.keyed.named[rec.IdempotencyKey] != nil {
		return fmt.Errorf("idempotency key %q stands twice", rec.IdempotencyKey)
	}
	st.applyShard(rec)
	return nil
}

// rejoin gives every key its runs back, and rebuilds what is derived from runs.
func (st *state) rejoin() error {
	for slot := range st.runSlab.all() {
		run := slot.run
		if run.Status() != flow.StatusQueued && !run.Held() {
			continue
		}
		key := st.touchKey(run.Stamp().Home(run.Workflow()))
		if key.stamp == nil {
			key.stamp = run.Stamp()
		}
		run.Share(key.id.Workflow, key.stamp)
		key.key.Adopt(keyactor.Adopted{
			Run: run.ID(), Order: run.Order(), Stamp: run.Stamp(), Started: run.Started(),
			Fence: run.Fence(), Status: run.Status(),
		})
	}
	return st.check()
}

// Restore implements engine.Machine.
func (m *machine) Restore(r io.Reader, at engine.Pos) error {
	st, err := restore(r, len(m.shard.node.shards))
	if err != nil {
		return fmt.Errorf("shard %d at %d: %w", m.shard.id, at, err)
	}
	m.st = st
	return nil
}

// snapshot is a capture as the engine sees it: it pulls slices out of the shard's
// goroutine.
type snapshot struct {
	shard *shard
	cap   *capture
}

var _ engine.Snapshot = (*snapshot)(nil)

// Boundary implements engine.Snapshot.
func (s *snapshot) Boundary() (engine.Epoch, engine.Seq) { return s.cap.epoch, s.cap.seq }

// WriteTo implements engine.Snapshot.
func (s *snapshot) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for {
		reply := make(chan sliceReply, 1)
		s.shard.box.tell(sliceMsg{s.cap, reply})
		select {
		case r := <-reply:
			if r.err != nil {
				return total, r.err
			}
			n, err := w.Write(r.bytes)
			total += int64(n)
			if err != nil {
				return total, fmt.Errorf("write a snapshot slice: %w", err)
			}
			if !r.more {
				return total, nil
			}
		case <-s.shard.box.stopped:
			return total, flow.ErrNotReady
		}
	}
}

// Release implements engine.Snapshot.
func (s *snapshot) Release() { s.shard.box.tell(releaseMsg{s.cap}) }
