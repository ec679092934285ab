// Package persistence makes opaque bytes durable: one journal for all shards of a
// node, snapshots, recovery, and [Local], the engine of a node that stands alone.
//
//	Local ── shard ─┐                         ┌─ snapshot files (one writer at a time)
//	         shard ─┼─► journal ─► one frame ─┤
//	         shard ─┘   (one goroutine,       └─ segment files (tidwall/wal appends)
//	                     one fsync for all)
//
// The invariant: whatever was acknowledged comes back, whole and in order, or the
// package refuses to start and says which file and offset is damaged. It never
// hands out bytes that it didn't check, and after a failed write, fsync or
// truncation it acknowledges nothing more (fail-stop).
//
// tidwall/wal only appends and cycles segments. Framing, checksums, the scan and
// repair before opening, the lock, directory fsyncs, deleting old segments and the
// error policy are ours, and but for the file layout they know nothing of the
// library.
//
// The package must not know what an entry means: it sees shard numbers, positions
// and bytes.
package persistence
