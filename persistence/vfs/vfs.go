// Package vfs is the seam between the persistence code and the file system, so
// that tests can let any operation fail and can look at what a power cut leaves.
//
//   - [OS] is the real file system.
//   - [Mem] lives in memory and knows what is synced: [Mem.CrashClone] is a disk
//     after a power cut.
//   - [Fault] wraps another FS and lets chosen operations fail.
//
// The interface has just what the persistence code calls. Names are paths; the
// package must not know what the files mean.
//
// What a program may rely on, and Mem enforces: bytes are on disk after
// File.Sync; a name is on disk after SyncDir of its directory; nothing else is.
package vfs

import (
	"errors"
	"io"
)

// ErrLocked is returned by FS.Lock when another process, or another opener in
// this one, holds the lock.
var ErrLocked = errors.New("vfs: locked")

// FS is a file system. All methods are safe for any goroutine. Errors about
// missing and existing names satisfy errors.Is with fs.ErrNotExist and
// fs.ErrExist.
type FS interface {
	// Create makes or empties a file and opens it for writing.
	Create(name string) (File, error)
	// Open opens a file for reading.
	Open(name string) (File, error)
	// OpenWrite opens an existing file for writing; the position is its end.
	OpenWrite(name string) (File, error)
	// Rename gives a file another name; a file of that name is replaced.
	Rename(from, to string) error
	// Remove deletes a file.
	Remove(name string) error
	// MkdirAll makes a directory and those above it.
	MkdirAll(dir string) error
	// ReadDir lists the files (not the directories) of a directory, sorted by name.
	ReadDir(dir string) ([]Info, error)
	// Stat describes one file.
	Stat(name string) (Info, error)
	// SyncDir makes the names in a directory durable.
	SyncDir(dir string) error
	// Lock takes the exclusive lock of a file, which it makes if it is missing.
	// It doesn't wait. Closing the result gives the lock back, and so does the end
	// of the process. Errors: ErrLocked.
	Lock(name string) (io.Closer, error)
	// Free is the number of bytes that can still be written below dir.
	Free(dir string) (uint64, error)
}

// File is an open file. Its methods must not be called at the same time.
type File interface {
	io.Reader
	io.Writer
	// WriteAt writes over what stands at off; the position stays.
	io.WriterAt
	io.Closer
	// Sync makes the bytes of the file durable, but not its name. After an error
	// the state on disk is unknown: it must not be called again on that file.
	Sync() error
	// Truncate cuts or extends the file; the position moves to the new end.
	Truncate(size int64) error
}

// Info describes a file.
type Info struct {
	Name string // without the directory
	Size int64  // bytes
}
