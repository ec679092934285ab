package flow

import "github.com/pyrula/pyrula-node/flow/pack"

// Ids, keys and stamps are written the same way in records, letters and snapshots.

const (
	keyParts   = 3
	stampParts = 4
	gateParts  = 6
	maxGates   = 2
	// maxNameText bounds names, and the text of a key's source, which is a name or an
	// expression with a word before it.
	maxNameText = MaxExpressionBytes + 16
)

// WriteRunID writes an id as 16 bytes.
func WriteRunID(w *pack.Writer, id *RunID) { w.Bytes(id[:]) }

// ReadRunID reads what WriteRunID wrote.
func ReadRunID(r *pack.Reader, id *RunID) { r.Exactly(id[:]) }

func writeKey(w *pack.Writer, k *KeyID) {
	w.Array(keyParts)
	w.Text(k.Workflow)
	w.Text(k.Value)
	w.Number(int64(k.Kind))
}

// WriteStamp writes a stamp; nil stands for itself.
func WriteStamp(w *pack.Writer, s *Stamp) {
	if s == nil {
		w.Nil()
		return
	}
	w.Array(stampParts)
	w.Text(s.Version)
	w.Number(s.VersionRank)
	w.Flag(s.Unknown)
	w.Array(len(s.Gates))
	for i := range s.Gates {
		g := &s.Gates[i]
		w.Array(gateParts)
		w.Number(int64(g.Kind))
		w.Text(g.KeyName)
		w.Text(g.Key)
		w.Number(g.Max)
		w.Number(int64(g.Interval))
		w.Number(g.Burst)
	}
}

func readStamp(r *pack.Reader, shared *Shared) *Stamp {
	if _, ok := r.Optional(stampParts, stampParts); !ok {
		return nil
	}
	s := &Stamp{Version: shared.Name(r, maxNameText), VersionRank: r.Number(), Unknown: r.Flag()}
	n := r.Array(0, maxGates)
	if n == 0 || r.Failed() {
		return s
	}
	s.Gates = make([]Gate, n)
	for i := range s.Gates {
		g := &s.Gates[i]
		r.Array(gateParts, gateParts)
		g.Kind, g.KeyName, g.Key = GateKind(r.Between(0, 0xFF)), shared.Name(r, maxNameText), r.Text(MaxKeyBytes)
		g.Max, g.Interval, g.Burst = r.Number(), Span(r.Number()), r.Number()
		if g.Key == s.Gates[0].Key {
			g.Key = s.Gates[0].Key // the usual case: one text for both
		}
	}
	return s
}
