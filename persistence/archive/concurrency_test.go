package archive

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/persistence/engine"
)

// TestR14ReadersAndWritersAtOnce puts, reads, scans, expires and closes at the same
// time. It fails when a reader sees wrong bytes, or misses what was there before it
// began and isn't expired.
func TestR14ReadersAndWritersAtOnce(t *testing.T) {
	now := clockAt(noon)
	cfg := quiet(t.TempDir())
	cfg.Now, cfg.Retention = now.now, day
	a := mustOpen(t, cfg)
	const lasting = 300
	mustPut(t, a, itemsOf(0, lasting, noon.Add(20*day)), engine.ArchivedKey{Text: "k", Value: []byte("v")})

	var readers, writers sync.WaitGroup
	stop := make(chan struct{})
	loop := func(work func(n int) error) {
		readers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := work(n); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	loop(func(n int) error { return getOne(a, n%lasting) })
	loop(func(int) error { return scanLasting(a, lasting) })
	loop(func(int) error {
		if v, err := a.Key("k"); err != nil || string(v) != "v" {
			return errors.New("the key is gone")
		}
		a.Stats()
		a.NextExpiry()
		return nil
	})
	// Two writers: the second repeats what the first puts. Days come and go.
	for range 2 {
		writers.Go(func() {
			for n := range 8 {
				ended := noon.Add(time.Duration(n/2) * day)
				if err := a.Put(context.Background(), itemsOf(1000+100*n, 1100+100*n, ended), nil); err != nil {
					t.Error(err)
				}
				now.set(ended)
				if _, err := a.Expire(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	if s := a.Stats(); s.Days != 3 || s.Runs != 700 { // two of the four short ones are over
		t.Errorf("stats = %+v", s)
	}
	mustClose(t, a)
	wantSound(t, cfg.Dir)
}

func getOne(a *Archive, n int) error {
	body, err := a.Get(idOf(n))
	if err == nil && !bytes.Equal(body, itemOf(n, noon).Body) {
		return errors.New("wrong bytes")
	}
	return err
}

func scanLasting(a *Archive, lasting int) error {
	n := 0
	err := a.Scan(engine.ArchiveQuery{Before: idOf(lasting)}, func(engine.ArchiveID, []byte) bool {
		n++
		return true
	})
	if err == nil && n != lasting {
		err = errors.New("a scan misses items")
	}
	return err
}

// TestR14CloseEndsAPut fails when Close waits for all of a long Put, or a Put that it
// cuts short leaves half a transaction.
func TestR14CloseEndsAPut(t *testing.T) {
	cfg := quiet(t.TempDir())
	between, closed := make(chan struct{}), make(chan struct{})
	cfg.Yield = func() {
		close(between)
		<-closed
	}
	a := mustOpen(t, cfg)
	put := make(chan error)
	go func() {
		put <- a.Put(context.Background(), []engine.Archived{itemOf(1, noon), itemOf(2, noon.Add(day))}, nil)
	}()
	<-between
	done := make(chan error)
	go func() { done <- a.Close() }()
	for !a.closing.Load() {
		runtime.Gosched() // Close has only to get to its first line
	}
	close(closed)
	if err := <-put; !errors.Is(err, ErrClosed) {
		t.Errorf("put = %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	a = mustOpen(t, quiet(cfg.Dir))
	wantGet(t, a, itemOf(1, noon))
	wantGone(t, a, idOf(2))
}
