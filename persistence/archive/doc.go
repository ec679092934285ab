// Package archive keeps ended runs on disk in bbolt files, one for each UTC day of
// end, and the idempotency keys in one more. [Archive] is an engine.Archive.
//
//	Put ──► bbolt transactions, fsync ──► 2026-11-30.db   2026-12-01.db   keys.db
//	                                            │               │            │
//	Get, Key, Scan ◄── pages, read and checked ─┴───────────────┴────────────┘
//
// What stands in a file (all numbers big-endian):
//
//	day file   meta   "format" -> u32   "name" -> file name   "owner" -> text   "counters" -> items u64 | bytes u64
//	           runs   id -> version 1 | CRC32C 4 | ended 8 | kind 1 | group length 2 | group | body
//	           lists  group length 2 | group | kind 1 | id -> nothing
//	keys.db    meta   the same, and "oldest" -> first instant of the first day that wasn't removed
//	           keys   text -> version 1 | CRC32C 4 | value
//
// The checksum covers the key of the entry and all that follows it.
//
// The invariant: what Put has acknowledged is read back as it was, or the read says
// which file is damaged. The package never hands out bytes that it didn't check.
//
// bbolt writes; it doesn't read. Its own reads trust every page: one wrong bit makes
// them panic, fault in the mapping, recurse until the stack is full or loop for
// ever, partly in goroutines where nobody can recover. History must not be able to
// take the scheduler down, so this package reads the pages with plain file reads
// and checks each of them; bbolt's read transactions only keep the pages in place
// meanwhile. Before a write, the pages that bbolt will walk are read the same way.
//
// The package must not know what a body or a group means.
package archive
