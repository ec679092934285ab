package flow

// EffectKind says what is owed once the records of a turn are durable.
type EffectKind uint8

// The effects.
const (
	_ EffectKind = iota
	// EffGrant: the claim gets the run. Run, Fence, Claim, Lease.
	EffGrant
	// EffAnswer: the sender of the input gets its answer. Run, Flags (FlagOK,
	// FlagCancel, FlagRepeat).
	EffAnswer
	// EffSend: an input goes to the key actor Key, wherever it lives: through the
	// outbox to another shard, in the same entry within this one. Input is the letter.
	EffSend
)

// Effect is one thing owed to the outside.
type Effect struct {
	Kind  EffectKind
	Input InputKind // of the letter, for EffSend
	Fields
}

// String is the kind's name in logs and transcripts.
func (k EffectKind) String() string {
	return nameOf(map[int]string{int(EffGrant): "grant", int(EffAnswer): "answer", int(EffSend): "send"}, int(k))
}

// Letter is the input that an EffSend carries.
func (e *Effect) Letter() Input { return Input{Kind: e.Input, Fields: e.Fields} }

// Deadline is the next instant at which a state machine wants a tick. An absolute
// one is a date: it has come when both shard time and the wall clock have reached
// it (R2). Any other is counted in shard time alone.
type Deadline struct {
	At       Instant
	Absolute bool
}

// Out collects what one Step decided. The caller owns it and reuses it: Reset it
// before each Step. Err refuses the input; then Records and Effects are as they
// were before the Step.
type Out struct {
	Records []Record
	Effects []Effect
	Err     error
}

// Reset empties o and keeps its memory.
func (o *Out) Reset() {
	clear(o.Records)
	clear(o.Effects)
	o.Records, o.Effects, o.Err = o.Records[:0], o.Effects[:0], nil
}

// Record appends a fact and returns it for its fields to be filled in. The
// pointer is good until the next append.
func (o *Out) Record(k RecordKind, at Instant) *Record {
	o.Records = append(o.Records, Record{Kind: k, At: at})
	return &o.Records[len(o.Records)-1]
}

// Effect appends an effect and returns it for its fields to be filled in. The
// pointer is good until the next append.
func (o *Out) Effect(k EffectKind) *Effect {
	o.Effects = append(o.Effects, Effect{Kind: k})
	return &o.Effects[len(o.Effects)-1]
}

// Send appends a letter to another key actor.
func (o *Out) Send(k InputKind) *Effect {
	e := o.Effect(EffSend)
	e.Input = k
	return e
}
