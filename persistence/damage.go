package persistence

import "fmt"

// DamageError is damage that can't be a torn write at the end of the journal: the
// bytes were on disk once. The node refuses to start with it, since going on
// would forget what was acknowledged.
type DamageError struct {
	File     string // path of the damaged file
	Offset   int64  // byte in the file where the damage begins
	Expected string // what should stand there
	Found    string // what does
}

// Error names the file and the offset.
func (e *DamageError) Error() string {
	return fmt.Sprintf("%s is damaged at offset %d: expected %s, found %s", e.File, e.Offset, e.Expected, e.Found)
}
