package flow

import "github.com/vmihailenco/msgpack/v5"

// writer chains encoder calls and keeps the first error.
type writer struct {
	e   *msgpack.Encoder
	err error
}

func (w *writer) array(n int) {
	if w.err == nil {
		w.err = w.e.EncodeArrayLen(n)
	}
}

func (w *writer) number(v int64) {
	if w.err == nil {
		w.err = w.e.EncodeInt(v)
	}
}

func (w *writer) text(s string) {
	if w.err == nil {
		w.err = w.e.EncodeString(s)
	}
}

func (w *writer) bytes(b []byte) {
	if w.err == nil {
		w.err = w.e.EncodeBytes(b)
	}
}

func (w *writer) flag(yes bool) {
	if w.err == nil {
		w.err = w.e.EncodeBool(yes)
	}
}

func (w *writer) key(k *KeyID) {
	w.array(3)
	w.text(k.Workflow)
	w.text(k.Value)
	w.number(int64(k.Kind))
}

func (w *writer) stamp(s *Stamp) {
	w.array(4)
	w.text(s.Version)
	w.number(s.VersionRank)
	w.flag(s.Unknown)
	w.array(len(s.Gates))
	for i := range s.Gates {
		g := &s.Gates[i]
		w.array(6)
		w.number(int64(g.Kind))
		w.text(g.KeyName)
		w.text(g.Key)
		w.number(g.Max)
		w.number(int64(g.Interval))
		w.number(g.Burst)
	}
}
