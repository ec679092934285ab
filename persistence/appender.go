package persistence

import (
	"fmt"

	"github.com/tidwall/wal"
)

// appender is the append side of the journal: all that is left of the library.
// After an error it is not used again but for Close. One goroutine uses it.
type appender interface {
	// Append writes frame number index. It is durable when Append returns, unless
	// the appender was opened lazily; then a full segment is synced before the next
	// is made, and the rest by Sync. The frame is not kept.
	Append(index uint64, frame []byte) error
	// Sync makes everything durable.
	Sync() error
	// Close syncs and closes.
	Close() error
}

// appenderConfig is what an appender is opened with.
type appenderConfig struct {
	dir          string
	segmentBytes int
	lazy         bool
	// last is the index of the last frame on disk, as the scan has found it.
	last uint64
}

// openAppender opens an appender over a scanned and repaired directory.
type openAppender func(appenderConfig) (appender, error)

// walAppender appends with tidwall/wal.
type walAppender struct{ log *wal.Log }

// openWAL opens the library. It would accept much that the scan refuses, so it is
// opened after the scan, and has to come to the same end.
func openWAL(cfg appenderConfig) (appender, error) {
	log, err := wal.Open(cfg.dir, &wal.Options{
		NoSync:           cfg.lazy,
		SegmentSize:      cfg.segmentBytes,
		LogFormat:        wal.Binary,
		SegmentCacheSize: 1,    // sealed segments are never read through it
		AllowEmpty:       true, // a journal may be empty behind a snapshot
		NoCopy:           true,
	})
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	last, err := log.LastIndex()
	if err == nil && last != cfg.last {
		err = fmt.Errorf("the library ends at frame %d, the scan at %d", last, cfg.last)
	}
	if err != nil {
		// The first error is the one that counts; nothing was written.
		cerr := log.Close()
		return nil, fmt.Errorf("open journal: %w", firstError(err, cerr))
	}
	return &walAppender{log: log}, nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *walAppender) Append(index uint64, frame []byte) error { return a.log.Write(index, frame) }

func (a *walAppender) Sync() error { return a.log.Sync() }

func (a *walAppender) Close() error { return a.log.Close() }
