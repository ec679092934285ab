package persistence

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/pyrula/pyrula-node/persistence/enginetest"
	"github.com/pyrula/pyrula-node/persistence/vfs"
)

// modelRun drives an engine with random operations and knows what must be there.
type modelRun struct {
	rt      *rapid.T
	disk    *vfs.Mem
	engine  *Local
	ledgers []*enginetest.Ledger
	lines   int
}

// TestModelOfEngineLives fails when a random history of appends, snapshots, clean
// closes and power cuts loses an acknowledged line, brings back one that was never
// appended, or breaks a law.
func TestModelOfEngineLives(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &modelRun{rt: rt, disk: vfs.NewMem()}
		m.start()
		rt.Repeat(map[string]func(*rapid.T){
			"append":   m.append,
			"barrier":  m.barrier,
			"snapshot": m.snapshot,
			"round":    m.round,
			"restart":  m.restart,
			"crash":    m.crash,
			"":         func(*rapid.T) { m.lawful() },
		})
		m.close()
	})
}

func (m *modelRun) start() {
	cfg := onDisk(m.disk, 2)
	cfg.OnFatal = func(err error) { m.rt.Errorf("journal stopped: %v", err) }
	l, err := Open(cfg)
	if err != nil {
		m.rt.Fatal(err)
	}
	m.engine, m.ledgers = l, nil
	for i := range l.shards {
		ledger := enginetest.NewLedger()
		log, err := l.Open(l.shards[i].id, ledger)
		if err != nil {
			m.rt.Fatal(err)
		}
		ledger.Use(log)
		m.ledgers = append(m.ledgers, ledger)
	}
	if err := l.Start(m.rt.Context()); err != nil {
		m.rt.Fatal(err)
	}
}

func (m *modelRun) lawful() {
	for i, l := range m.ledgers {
		for _, b := range l.Broken() {
			m.rt.Errorf("shard %d: %s", i, b)
		}
	}
}

func (m *modelRun) append(rt *rapid.T) {
	s := rapid.IntRange(0, 1).Draw(rt, "shard")
	if m.engine.shards[s].Room() == 0 {
		rt.Skip("no room")
	}
	m.lines++
	size := rapid.IntRange(1, 1500).Draw(rt, "bytes")
	if _, err := m.ledgers[s].Append(int64(m.lines), fmt.Sprintf("%0*d", size, m.lines)); err != nil {
		rt.Fatal(err)
	}
}

func (m *modelRun) barrier(rt *rapid.T) {
	s := rapid.IntRange(0, 1).Draw(rt, "shard")
	if err := m.engine.shards[s].ReadBarrier(rt.Context(), m.ledgers[s].Epoch(), true); err != nil {
		rt.Fatal(err)
	}
	if all, acked := m.ledgers[s].Lines(); acked != len(all) {
		rt.Fatalf("shard %d: %d of %d lines acknowledged behind a barrier", s, acked, len(all))
	}
}

func (m *modelRun) snapshot(rt *rapid.T) {
	s := rapid.IntRange(0, 1).Draw(rt, "shard")
	if err := m.engine.shards[s].Snapshot(rt.Context()); err != nil {
		rt.Fatal(err)
	}
}

// round writes the shards that have changed and confirms the others.
func (m *modelRun) round(rt *rapid.T) {
	if !m.engine.round(rt.Context()) {
		rt.Fatal("a round has failed")
	}
}

func (m *modelRun) close() {
	if err := m.engine.Close(m.rt.Context()); err != nil {
		m.rt.Fatal(err)
	}
}

// restart closes: everything comes back.
func (m *modelRun) restart(rt *rapid.T) {
	m.close()
	known := witnesses(m.ledgers)
	for i := range known {
		if known[i].acked != len(known[i].lines) {
			rt.Fatalf("shard %d: %d of %d lines acknowledged by a close", i, known[i].acked, len(known[i].lines))
		}
	}
	m.start()
	m.compare(rt, known)
}

// crash cuts the power; the old engine goes on unseen.
func (m *modelRun) crash(rt *rapid.T) {
	var rng *rand.Rand
	if number := rapid.Uint64().Draw(rt, "what the disk keeps"); number != 0 {
		rng = rand.New(rand.NewPCG(number, 1))
	}
	known := witnesses(m.ledgers)
	next := m.disk.CrashClone(rng)
	more := witnesses(m.ledgers) // appended by now, so perhaps on the disk
	for i := range known {
		known[i].lines = more[i].lines
	}
	m.close()
	m.disk = next
	m.start()
	m.compare(rt, known)
}

func (m *modelRun) compare(rt *rapid.T, known []witness) {
	for i, w := range known {
		got, _ := m.ledgers[i].Lines()
		if len(got) < w.acked || len(got) > len(w.lines) {
			rt.Fatalf("shard %d: %d lines came back, %d acknowledged, %d appended", i, len(got), w.acked, len(w.lines))
		}
		for n, line := range got {
			if line != w.lines[n] {
				rt.Fatalf("shard %d line %d is %v, was %v", i, n, line, w.lines[n])
			}
		}
	}
}
