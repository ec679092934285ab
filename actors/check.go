package actors

import "io"

// SnapshotContent counts what stands in a snapshot.
type SnapshotContent struct {
	Runs            int64
	Keys            int64 // key actors that their runs alone don't rebuild, and those of waiting runs
	Requests        int64 // request ids that are remembered
	IdempotencyKeys int64
	Letters         int64 // letters to other shards that are on their way
}

// CheckSnapshot reads a shard's snapshot as a start would, checks every invariant
// of the state that it makes, and throws it away. shards is that of the data
// directory. Errors: the family ErrSnapshot.
func CheckSnapshot(r io.Reader, shards int) (SnapshotContent, error) {
	st, err := restore(r, shards)
	if err != nil {
		return SnapshotContent{}, err
	}
	out := SnapshotContent{
		Runs: int64(len(st.runs)), Keys: int64(len(st.keys)), Requests: int64(st.requests.fifo.len()),
		IdempotencyKeys: int64(len(st.keyed.named)),
	}
	for i := range st.mail.out {
		out.Letters += int64(len(st.mail.out[i].letters))
	}
	return out, nil
}
