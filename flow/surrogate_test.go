package flow

import (
	"errors"
	"testing"
)

// Fails when two values that are no text meet in one key, or when the character that
// stands for such a value is refused where it is meant.
func TestS99P60HalfSurrogatesAreNoKeys(t *testing.T) {
	for _, raw := range []string{`"\ud800"`, `"a\udc00b"`, `"\ud800\ud801"`, `"\ufffd\ud800"`, `"\ud800\\ufffd"`, `["\ud800"]`, `{"a\udc00":1}`} {
		if key, err := KeyText([]byte(raw)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s is key %q, error %v", raw, key, err)
		}
	}
	for _, raw := range []string{`"\ufffd"`, `"\uFFFD"`, "\"\ufffd\"", `"\ud83d\ude00"`} {
		if _, err := KeyText([]byte(raw)); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
}
