package flow

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
)

// GateKind is one of the two gates a run can have.
type GateKind uint8

// The gates, in the order in which admission asks them.
const (
	GateLimit GateKind = iota + 1
	GateRate
)

// String is the gate's name on the wire.
func (k GateKind) String() string {
	switch k {
	case GateLimit:
		return "limit"
	case GateRate:
		return "rate"
	}
	return "gate(" + strconv.Itoa(int(k)) + ")"
}

// Rule is a declared gate: integers only, so that it can be state. A Limit uses
// Max, a Rate uses Interval and Burst.
type Rule struct {
	Kind     GateKind
	Key      KeySource
	Max      int64
	Interval Span
	Burst    int64
}

// RuleOfLimit and RuleOfRate turn a valid policy into its rule.
func RuleOfLimit(l Limit) Rule { return Rule{Kind: GateLimit, Key: l.Key, Max: l.Max} }

// RuleOfRate turns a valid policy into its rule, with the default burst filled in.
func RuleOfRate(r Rate) Rule {
	return Rule{Kind: GateRate, Key: r.Key, Interval: r.Interval(), Burst: r.burst()}
}

// Gate is a rule with its key resolved, as it is stamped on a run. KeyName is the
// text of the rule's key source.
type Gate struct {
	Kind     GateKind
	KeyName  string
	Key      string
	Max      int64
	Interval Span
	Burst    int64
}

// Stamp is what a run is judged by for life (P16): its gates with their keys and
// the version that declared them. A run that was submitted before anybody
// declared the workflow has Unknown set and no gates (P22). A Stamp is never
// changed once made; it may be shared.
type Stamp struct {
	Gates       []Gate // at most one Limit, then at most one Rate
	Version     string
	VersionRank int64
	Unknown     bool
}

// Equal says whether two stamps judge a run alike, so that one may stand for both.
// No stamp equals only no stamp.
func (s *Stamp) Equal(o *Stamp) bool {
	if s == nil || o == nil {
		return s == o
	}
	return s.Version == o.Version && s.VersionRank == o.VersionRank && s.Unknown == o.Unknown &&
		slices.Equal(s.Gates, o.Gates)
}

// Limit is the stamped Limit, or nil.
func (s *Stamp) Limit() *Gate { return s.gate(GateLimit) }

// Rate is the stamped Rate, or nil.
func (s *Stamp) Rate() *Gate { return s.gate(GateRate) }

func (s *Stamp) gate(k GateKind) *Gate {
	for i := range s.Gates {
		if s.Gates[i].Kind == k {
			return &s.Gates[i]
		}
	}
	return nil
}

// Home is the key actor that decides over a run of the workflow: the key of its
// Limit, else of its Rate, else a queue without gates of the shard that holds its id.
func (s *Stamp) Home(workflow string) KeyID {
	if l := s.Limit(); l != nil {
		return KeyID{Workflow: workflow, Value: l.Key}
	}
	if r := s.Rate(); r != nil {
		return KeyID{Workflow: workflow, Value: r.Key}
	}
	if s.Unknown {
		return KeyID{Workflow: workflow, Kind: KeyUnknown}
	}
	return KeyID{Workflow: workflow, Kind: KeyUngated}
}

// Remote is the key actor of a Rate that is keyed on another value than the
// Limit, and whether there is one (R4).
func (s *Stamp) Remote(workflow string) (KeyID, bool) {
	l, r := s.Limit(), s.Rate()
	if l == nil || r == nil || l.Key == r.Key {
		return KeyID{}, false
	}
	return KeyID{Workflow: workflow, Value: r.Key}, true
}

// GatesHash is a short fingerprint of declared gates: kinds, key sources and
// numbers (P82). Declarations of one version with different gates are told apart
// by it.
func GatesHash(rules []Rule) string {
	h := sha256.New()
	for _, r := range rules {
		for _, part := range []string{
			r.Kind.String(), r.Key.Text(), strconv.FormatInt(r.Max, 10),
			strconv.FormatInt(int64(r.Interval), 10), strconv.FormatInt(r.Burst, 10),
		} {
			h.Write([]byte(strconv.Itoa(len(part)) + ":" + part))
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
