// Package engine holds the words that a shard host and whatever makes its log
// durable speak with each other. It has types only: a shard host imports it
// without importing an engine, and an engine implements it without knowing what
// the bytes mean.
//
// # Who calls whom
//
// The host opens each shard once with [Engine.Open]. When all are open the engine
// is started; it then rebuilds each shard ([Machine.Restore] at most once, then [Machine.Apply] for every
// entry after it, in log order) and makes it owner with [Machine.Promote]. From
// then on the host appends with [Log.Append] and is told with
// [Machine.Committed] how far its entries are durable. When ownership or the
// outcome of an append is lost the engine calls [Machine.Demote], and the whole
// circle starts again: Restore, Apply, Promote.
//
// # Laws
//
//  1. Committed(ep, n) is called only after every entry of epoch ep up to n is
//     durable, and n never falls within an epoch.
//  2. An entry is whole: all of its bytes come back from a crash, or none.
//  3. Epochs of a shard strictly rise from Promote to Promote.
//  4. After Demote no Committed of the old epoch arrives, and Append with the
//     old epoch answers ErrNotOwner.
//  5. A published snapshot never holds state that the durable log lacks.
package engine

import (
	"context"
	"errors"
	"io"
)

// ShardID numbers the shards of a cluster from 0.
type ShardID uint16

// NodeID names a node; it is fixed when the data directory is made.
type NodeID string

// Epoch orders the owners of a shard; it strictly rises with every Promote.
// Zero means "no owner".
type Epoch uint64

// Seq numbers the entries of one epoch of one shard: 1, 2, 3, ... It is known
// when Append returns.
type Seq uint64

// Pos is the place of an entry in the durable log of its shard; it rises by one
// with each entry over the whole life of the shard. Zero means "before the
// first".
type Pos uint64

// Entry is one batch of records of one shard, as it comes back from the log.
type Entry struct {
	Pos   Pos
	Epoch Epoch
	Seq   Seq
	Wall  int64  // shard time in Unix nanoseconds, as given to Append
	Body  []byte // valid during the call that hands it over; copy what is kept
}

// Machine is the shard host as an engine sees it. For one shard the engine never
// calls two of these methods at the same time.
type Machine interface {
	// Restore replaces the whole state by a snapshot that stands at at. After an error
	// the machine keeps the state that it had: the engine may restore an older snapshot,
	// or none and apply from the beginning.
	Restore(r io.Reader, at Pos) error
	// Apply takes a committed entry: at start, as a follower, and after Demote.
	// An error is damage or a newer format: the engine fails stop with it.
	Apply(e Entry) error
	// Promote makes the shard owner: every entry up to at is applied. wall is the
	// Wall of the last entry (0 when there is none). Append with ep is allowed
	// from the moment of the call.
	Promote(ep Epoch, at Pos, wall int64)
	// Committed says that the shard's own entries up to upto are durable.
	Committed(ep Epoch, upto Seq)
	// Demote ends ownership. The outcome of entries after the last Committed is
	// unknown. The state is to be thrown away; Restore and Apply follow.
	Demote(ep Epoch, reason error)
	// Capture marks a boundary behind everything appended so far and returns the
	// state as of that boundary. It may wait for the shard's goroutine, so it is
	// never called from the goroutine that calls Committed.
	Capture() (Snapshot, error)
}

// Snapshot is the state of one shard at one boundary.
type Snapshot interface {
	// Boundary is the last own entry that the snapshot holds, with its epoch. The
	// engine publishes the snapshot only when that entry is durable.
	Boundary() (Epoch, Seq)
	// WriteTo writes the snapshot; it may be called once.
	WriteTo(w io.Writer) (int64, error)
	// Release frees what the snapshot holds; it is called exactly once, also
	// after an error.
	Release()
}

// Log is the log of one shard for its owner. Append and Room are called from the
// shard's goroutine only; the other methods are safe for any goroutine.
type Log interface {
	// Room says how many entries Append takes now without ErrBusy. It falls by
	// one with each Append and rises only before a Committed.
	Room() int
	// Append hands over one entry; it never blocks and keeps body. The order of
	// calls is the order of the log. Errors: ErrNotOwner, ErrBusy, ErrTooLarge,
	// and ErrStopped after a fail-stop.
	Append(ep Epoch, wall int64, body []byte) (Seq, error)
	// ReadBarrier waits until everything appended before the call is durable, the
	// machine has been told so, and ep still owns the shard.
	ReadBarrier(ctx context.Context, ep Epoch, strict bool) error
	// Snapshot takes, publishes and truncates; one at a time per engine.
	Snapshot(ctx context.Context) error
	// Owner says who owns the shard, as far as this node knows.
	Owner() (NodeID, Epoch, bool)
}

// Member is one node of a cluster.
type Member struct {
	ID         NodeID
	Addr       string // node to node
	ClientAddr string // HTTP
	Version    string
	Voter      bool
}

// Engine makes the logs of a node's shards durable.
type Engine interface {
	// Open registers a shard and returns its log, which answers ErrNotOwner until the
	// engine, once it is started, has rebuilt and promoted the shard. Each shard is
	// opened once, before the start.
	Open(s ShardID, m Machine) (Log, error)
	// Shards is the number of shards of the cluster.
	Shards() int
	// Watch calls f at every change of an owner, also for those known already.
	Watch(f func(s ShardID, owner NodeID, ep Epoch))
	// Transfer moves a shard to another node. Errors: ErrSingleNode.
	Transfer(ctx context.Context, s ShardID, to NodeID) error
	// Members lists the nodes.
	Members() []Member
	// Add and Remove change the membership. Errors: ErrSingleNode.
	Add(ctx context.Context, m Member) error
	Remove(ctx context.Context, id NodeID) error
	// Close takes no more appends, makes the last ones durable and closes.
	Close(ctx context.Context) error
}

// MaxEntryBytes bounds the body of one entry.
const MaxEntryBytes = 2 << 20

// Sentinels of Log and Engine.
var (
	ErrNotOwner   = errors.New("engine: not the owner of the shard")
	ErrBusy       = errors.New("engine: append window is full")
	ErrTooLarge   = errors.New("engine: entry is larger than MaxEntryBytes")
	ErrStopped    = errors.New("engine: stopped after a failed write")
	ErrSingleNode = errors.New("engine: a single node has no members to change")
)
