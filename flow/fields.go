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
	Number uint64 // of a letter in the outbox of a pair of shards (R6), of a signal, or of a wait

	Other  RunID  // another run that is concerned: successor, predecessor, waiter, awaited run
	Root   RunID  // the first run of a chain, or the id under which a run is awaited
	Parent RunID  // the run whose body started this one
	Visit  int64  // the n-th call of Name in a body
	Cost   int64  // cost units of a step
	Status Status // how an awaited run ended; zero when no run has the id
	Name   string // of a step, a signal or a wait
	Origin string // the schedule, or the retried run, that a run comes from
	Extra  []byte // a list that belongs to the kind, encoded: see Luggage and EncodeRunIDs

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
	FlagSignal                      // a suspension waits for the signal Name
	FlagRuns                        // a suspension waits for the runs in Extra
	FlagRecorded                    // a suspension until a moment stands in the history afterwards
	FlagPosted                      // a letter goes through the outbox within a shard too, so that what it leads to is an entry of its own
	FlagChild                       // the runs that are started are children: a cancel may reach them
	FlagDebounce                    // each event of a batch starts its window again
)

// Has says whether all of f are set.
func (s Flags) Has(f Flags) bool { return s&f == f }
