package flow

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// FuzzReader holds that no body makes the Reader panic, that every refusal is of the
// family, and that what is read is written and read again the same.
func FuzzReader(f *testing.F) {
	f.Fuzz(func(t *testing.T, body []byte) {
		records(t, body)
		twice(t, body)
		inputs(t, body)
		definitions(t, body)
	})
}

// parts reads as many parts of a body as there are; each must use up some of it.
func parts(t *testing.T, body []byte, next func(*Reader) error) {
	t.Helper()
	r := NewReader()
	err := r.Reset(body)
	for n := 0; err == nil && r.More(); n++ {
		if n > len(body) {
			t.Fatalf("%d parts of %d bytes", n, len(body))
		}
		err = next(r)
	}
	if err != nil && !errors.Is(err, ErrCodec) {
		t.Fatalf("error %v is of no family", err)
	}
}

func records(t *testing.T, body []byte) {
	parts(t, body, func(r *Reader) error {
		var rec Record
		if err := r.Record(&rec); err != nil {
			return err
		}
		tidied(&rec.Fields)
		if again := decoded(t, encoded(rec)); !cmp.Equal(rec, again) {
			t.Fatalf("read again (-first +second):\n%s", cmp.Diff(rec, again))
		}
		return nil
	})
}

// twice holds that what a Reader remembers of a body changes nothing when it reads the
// body again.
func twice(t *testing.T, body []byte) {
	r := NewReader()
	var seen [2][]Record
	var errs [2]error
	for i := range seen {
		for errs[i] = r.Reset(body); errs[i] == nil && r.More(); {
			var rec Record
			errs[i] = r.Record(&rec)
			seen[i] = append(seen[i], rec)
		}
	}
	if diff := cmp.Diff(seen[0], seen[1]); diff != "" || fmt.Sprint(errs[0]) != fmt.Sprint(errs[1]) {
		t.Fatalf("errors %v, read again (-first +second):\n%s", errs, diff)
	}
}

// tidied takes for nothing what is there and empty: it isn't written again.
func tidied(f *Fields) {
	for _, b := range [...]*[]byte{&f.Payload, &f.Extra} {
		if len(*b) == 0 {
			*b = nil
		}
	}
}

func inputs(t *testing.T, body []byte) {
	parts(t, body, func(r *Reader) error {
		var in Input
		if err := r.Input(&in); err != nil {
			return err
		}
		tidied(&in.Fields)
		w := NewWriter()
		w.Input(&in)
		var again Input
		if err := reading(t, w.Bytes()).Input(&again); err != nil || !cmp.Equal(in, again) {
			t.Fatalf("read again: error %v (-first +second):\n%s", err, cmp.Diff(in, again))
		}
		return nil
	})
}

func definitions(t *testing.T, body []byte) {
	parts(t, body, func(r *Reader) error {
		d, err := r.Definition()
		if err != nil {
			return err
		}
		w := NewWriter()
		w.Definition(d)
		if again, err := reading(t, w.Bytes()).Definition(); err != nil || !cmp.Equal(d, again) {
			t.Fatalf("read again: error %v (-first +second):\n%s", err, cmp.Diff(d, again))
		}
		return nil
	})
}

// FuzzP76Luggage holds that no bytes make DecodeLuggage panic or take long, that every
// refusal is of the family, and that what is read is written and read again the same.
func FuzzP76Luggage(f *testing.F) {
	f.Fuzz(func(t *testing.T, body []byte) {
		l, err := DecodeLuggage(body)
		if err != nil {
			if !errors.Is(err, ErrCodec) {
				t.Fatalf("error %v is of no family", err)
			}
			return
		}
		if l.Empty() {
			l = Luggage{} // nothing came, so nothing can be kept
		}
		again, err := DecodeLuggage(l.Encode())
		if diff := cmp.Diff(l, again, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatalf("read again: error %v (-first +second):\n%s", err, diff)
		}
	})
}

// reading is another Reader at the start of a body.
func reading(t *testing.T, body []byte) *Reader {
	t.Helper()
	r := NewReader()
	if err := r.Reset(body); err != nil {
		t.Fatal(err)
	}
	return r
}
