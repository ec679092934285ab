package flow

// Agreement says how a definition's gates compare with those stamped on a run.
type Agreement uint8

// The answers of [Definition.Agrees].
const (
	GatesDiffer Agreement = iota
	GatesEqual
	// GatesUnsure is equal but for the value of a function key, which only the
	// workflow's code can compute (P82).
	GatesUnsure
)

// Agrees compares the definition's gates with a stamp (P27, P82): kinds, key sources and
// numbers. An unknown stamp equals "none declared" and differs from any gate.
func (d *Definition) Agrees(s *Stamp) Agreement {
	if len(d.Rules) != len(s.Gates) {
		return GatesDiffer
	}
	answer := GatesEqual
	for i := range d.Rules {
		r, g := &d.Rules[i], &s.Gates[i]
		if r.Kind != g.Kind || r.Key.Text() != g.KeyName || r.Max != g.Max || r.Interval != g.Interval || r.Burst != g.Burst {
			return GatesDiffer
		}
		if r.Key.IsFunction() && d.Version != s.Version {
			answer = GatesUnsure
		}
	}
	return answer
}

// Numbered says whether the version is a number, or numbers with dots between.
func (d *Definition) Numbered() bool {
	_, ok := dotted(d.Version)
	return ok
}

// NeedsCode says whether a key of the definition is a function, so that only a process
// with the workflow's code can stamp a run with it (P20).
func (d *Definition) NeedsCode() bool {
	for i := range d.Rules {
		if d.Rules[i].Key.IsFunction() {
			return true
		}
	}
	return false
}

// CompareStamp orders the definition against the version that stamped a run (P30): 1
// when the definition is newer, 0 when they rank alike. seen is the order in which the
// stamp's version was first seen, 0 when nobody remembers. An unknown stamp ranks lowest
// (P77).
func (d *Definition) CompareStamp(s *Stamp, seen int64) int {
	switch {
	case s.Unknown:
		return 1
	case s.Version == d.Version:
		return 0
	}
	return CompareVersions(d, &Definition{Version: s.Version, Seen: seen})
}
