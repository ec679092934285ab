package flow

// Fields is the flat union of what inputs, records and effects carry. Each kind
// says which fields it uses; all others are zero. A flat struct costs no
// allocation where a sealed interface costs one for each record.
//
// Strings, Payload and Stamp are shared, never changed in place.
type Fields struct {
	Run   RunID
	Key   KeyID   // the key actor that is addressed or concerned
	Peer  KeyID   // the other key actor of a run with gates in two places (R4)
	Order Instant // the run's submit instant: with the id its place in every queue

	Fence  uint64  // orders the holders of a run (R18)
	Until  Instant // a deadline: end of a back-off, a suspension, a hold
	Before Instant // bucket before a token was taken (R3)
	After  Instant // bucket after it was taken; zero when no token was taken

	Interval Span  // of the run's Rate, for a want
	Burst    int64 // of the run's Rate, for a want
	Lease    Span
	Backoff  Span
	Attempts int64  // most failures before a run is failed for good
	Claim    uint64 // the offer's own number; never in a record

	Shard  uint16 // the other shard of an outbox record
	Number uint64 // number of a letter in the outbox of a pair of shards (R6)

	Flags          Flags
	Workflow       string
	Version        string
	Worker         string
	Trigger        string
	IdempotencyKey string
	RequestID      string
	Reason         string // why cancelled or terminated
	ErrType        string
	ErrText        string
	Payload        []byte // params, a result, a letter or a definition, encoded
	Stamp          *Stamp
}

// Flags are the yes-or-no facts of an input, record or effect.
type Flags uint32

// The flags.
const (
	FlagRetryable Flags = 1 << iota // a failure may be tried again
	FlagToken                       // an admission took, or brings, the run's Rate token
	FlagOK                          // a heartbeat was taken
	FlagCancel                      // the holder is asked to stop
	FlagRepeat                      // the answer repeats an earlier one: nothing changed
	FlagForfeited                   // a returned token could not be put back (R3)
	FlagDropped                     // an unused want doesn't go back into the queue
	FlagAbsolute                    // Until is a date, not the end of a span (R2)
	FlagStarted                     // the run was admitted earlier in its life (P53)
	FlagCredit                      // a unit of credit is at hand with a token
)

// Has says whether all of f are set.
func (s Flags) Has(f Flags) bool { return s&f == f }
