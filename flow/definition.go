package flow

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/pyrula/pyrula-node/flow/pack"
)

// Definition is one accepted declaration of a workflow: integers and strings
// only. It is never changed once made.
type Definition struct {
	Workflow  string
	Version   string
	Seen      int64 // the version is the Seen-th of its workflow, from 1
	Rules     []Rule
	Lease     Span
	Attempts  int64 // failures after which a run is failed for good
	Backoff   Span
	Topic     string   // of Kafka, whose records become runs; empty for a workflow that isn't bound to one (P40)
	Trigger   *Trigger // nil for a workflow whose runs aren't made of events
	GatesHash string
	Hash      string // of everything that shapes a run but its gates (D4.6)
	At        Instant
}

// Same says whether two definitions declare the same thing.
func (d *Definition) Same(o *Definition) bool {
	return d.Version == o.Version && d.GatesHash == o.GatesHash && d.Hash == o.Hash &&
		d.Lease == o.Lease && d.Backoff == o.Backoff
}

// Seal fills the hashes in.
func (d *Definition) Seal() {
	d.GatesHash = GatesHash(d.Rules)
	// A fixed order of fields; what isn't served yet stands as null, so that the
	// hash changes only with what is declared. A topic or a trigger stands there only where
	// one is declared: the hashes of all other workflows are older.
	fields := []any{
		"name", d.Workflow, "steps", nil, "max_attempts", d.Attempts, "definition_version", d.Version, "budget", nil,
	}
	if d.Topic != "" {
		fields = append(fields, "kafka", d.Topic)
	}
	if t := d.Trigger; t != nil {
		fields = append(fields, "trigger", t.Kind.String(), t.Key.Text(), t.MaxEvents, t.MaxBytes, t.Window, t.MaxWait)
	}
	shape, err := json.Marshal(fields)
	if err != nil {
		panic("flow: strings and integers are not JSON: " + err.Error())
	}
	sum := sha256.Sum256(shape)
	d.Hash = hex.EncodeToString(sum[:])
}

// Rank is the version_rank that people are shown: a version that is a whole number
// is its own rank, any other has the order in which it was first seen. What
// decides between two versions is CompareVersions.
func (d *Definition) Rank() int64 {
	if n, err := strconv.ParseUint(d.Version, 10, 31); err == nil {
		return int64(n)
	}
	return d.Seen
}

// CompareVersions orders two versions of a workflow: as dotted numbers when both
// are, else by the order in which they were first seen (P83).
func CompareVersions(a, b *Definition) int {
	x, okx := dotted(a.Version)
	y, oky := dotted(b.Version)
	if okx && oky {
		return slices.Compare(x, y)
	}
	return cmp.Compare(a.Seen, b.Seen)
}

func dotted(version string) ([]uint64, bool) {
	parts := strings.Split(version, ".")
	out := make([]uint64, len(parts))
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 10, 63)
		if err != nil {
			return nil, false
		}
		out[i] = n
	}
	return out, true
}

// MaxTopicBytes bounds the name of a Kafka topic, by Kafka's own rule.
const MaxTopicBytes = 249

// CheckTopic refuses what can't be the name of a Kafka topic. Error: *FieldError of
// ErrConfiguration.
func CheckTopic(field, topic string) error {
	legal := topic != "" && len(topic) <= MaxTopicBytes && topic != "." && topic != ".."
	for _, c := range []byte(topic) {
		legal = legal && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-')
	}
	if !legal {
		return misconfigured(field, "must be the name of a Kafka topic: 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', and neither \".\" nor \"..\"")
	}
	return nil
}

// CheckUnbound refuses a policy beside a Kafka topic (P40): "limit", "rate" or
// "trigger". Error: *FieldError of ErrConfiguration.
func CheckUnbound(policy string) error {
	return misconfigured(policy, "must be left out of a workflow that is bound to a Kafka topic: throttle that one with "+
		"max_concurrency of its consumers and the number of partitions of the topic")
}

// Keys are what resolves keys beside the params.
type Keys struct {
	// Limit and Rate are values that a caller resolved itself; nil means "not given".
	Limit, Rate *string
	// Eval computes keys that are expressions; nil means that none can be.
	Eval Evaluate
}

func (k Keys) of(kind GateKind) *string {
	if kind == GateLimit {
		return k.Limit
	}
	return k.Rate
}

// Stamp resolves the definition's keys over params (P12, P13, P16). A function
// key must come in given: without it a submit by name can't know the key (P20).
// Error: *FieldError.
func (d *Definition) Stamp(params []byte, given Keys) (*Stamp, error) {
	s := &Stamp{Version: d.Version, VersionRank: d.Rank()}
	if len(d.Rules) > 0 {
		s.Gates = make([]Gate, 0, len(d.Rules))
	}
	for _, r := range d.Rules {
		key, err := r.resolve(params, given.of(r.Kind), given.Eval)
		if err != nil {
			return nil, err
		}
		if n := len(s.Gates); n > 0 && s.Gates[n-1].Key == key {
			key = s.Gates[n-1].Key // one copy of the text
		}
		s.Gates = append(s.Gates, r.gate(key))
	}
	return s, nil
}

// gate is the rule with its key resolved.
func (r *Rule) gate(key string) Gate {
	return Gate{Kind: r.Kind, KeyName: r.Key.Text(), Key: key, Max: r.Max, Interval: r.Interval, Burst: r.Burst}
}

func (r *Rule) resolve(params []byte, given *string, eval Evaluate) (string, error) {
	kind := r.Kind.String()
	asked := keyAsked{field: "stamp.keys." + kind, owner: kind, what: "params", policy: kind + ".key"}
	return r.Key.resolve(asked, params, given, eval)
}

// Parts of a definition, of a rule and of a trigger, as msgpack arrays. Payload of
// RecDeclared holds a definition. One without topic and trigger ends before them, and one
// with a topic alone behind it, as all did before triggers.
const (
	definitionParts = 10
	topicParts      = definitionParts + 1
	triggerParts    = topicParts + 1
	ruleParts       = 6
	policyParts     = 7
	hashBytes       = 64
)

// Definition appends one definition; a body of them is read with
// Reader.Definition.
func (w *Writer) Definition(d *Definition) {
	p := pack.NewWriter(w.enc)
	switch {
	case d.Trigger != nil:
		p.Array(triggerParts)
	case d.Topic != "":
		p.Array(topicParts)
	default:
		p.Array(definitionParts)
	}
	p.Number(codecVersion)
	p.Text(d.Workflow)
	p.Text(d.Version)
	p.Number(d.Seen)
	p.Number(int64(d.Lease))
	p.Number(d.Attempts)
	p.Number(int64(d.Backoff))
	p.Number(int64(d.At))
	p.Text(d.Hash)
	p.Array(len(d.Rules))
	for i := range d.Rules {
		r := &d.Rules[i]
		p.Array(ruleParts)
		p.Number(int64(r.Kind))
		p.Text(r.Key.Name)
		p.Text(r.Key.Function)
		p.Number(r.Max)
		p.Number(int64(r.Interval))
		p.Number(r.Burst)
	}
	if d.Topic != "" || d.Trigger != nil {
		p.Text(d.Topic)
	}
	if t := d.Trigger; t != nil {
		p.Array(policyParts)
		p.Number(int64(t.Kind))
		p.Text(t.Key.Name)
		p.Text(t.Key.Function)
		p.Number(t.MaxEvents)
		p.Number(t.MaxBytes)
		p.Number(int64(t.Window))
		p.Number(int64(t.MaxWait))
	}
	must(p.Err())
}

// Definition reads the next definition. Error: ErrCodec.
func (r *Reader) Definition() (*Definition, error) {
	p := &r.pack
	parts := p.Array(definitionParts, triggerParts)
	if v := p.Number(); !p.Failed() && v != codecVersion {
		return nil, undecodable("a definition has version %d, this build knows %d", v, codecVersion)
	}
	d := &Definition{
		Workflow: r.name(), Version: r.name(), Seen: p.Number(), Lease: Span(p.Number()),
		Attempts: p.Number(), Backoff: Span(p.Number()), At: Instant(p.Number()), Hash: p.Text(hashBytes),
	}
	d.Rules = make([]Rule, p.Array(0, maxGates))
	for i := range d.Rules {
		k := &d.Rules[i]
		p.Array(ruleParts, ruleParts)
		k.Kind, k.Key.Name, k.Key.Function = GateKind(p.Between(0, 0xFF)), r.name(), r.name()
		k.Max, k.Interval, k.Burst = p.Number(), Span(p.Number()), p.Number()
	}
	if parts >= topicParts {
		d.Topic = p.Text(MaxTopicBytes)
	}
	if parts == triggerParts {
		p.Array(policyParts, policyParts)
		d.Trigger = &Trigger{
			Kind: TriggerKind(p.Between(0, 0xFF)), Key: KeySource{Name: r.name(), Function: r.name()},
			MaxEvents: p.Number(), MaxBytes: p.Number(), Window: Span(p.Number()), MaxWait: Span(p.Number()),
		}
	}
	d.GatesHash = GatesHash(d.Rules)
	return d, r.failure()
}
