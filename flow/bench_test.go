package flow

import "testing"

var benchFields = Fields{Run: RunID{1}, Fence: 1 << 24, Worker: "w1", Version: "2", Lease: 30 * Second, Attempts: 3}

func BenchmarkEncode(b *testing.B) {
	w := NewWriter()
	rec := Record{Kind: RecAdmitted, Fields: benchFields}
	b.ReportAllocs()
	for b.Loop() {
		w.Reset()
		w.Record(&rec)
	}
	b.SetBytes(int64(w.Len()))
}

func BenchmarkDecode(b *testing.B) {
	body := encoded(Record{Kind: RecAdmitted, Fields: benchFields})
	r := NewReader()
	var rec Record
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Reset(body); err != nil {
			b.Fatal(err)
		}
		if err := r.Record(&rec); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkKeyText(b *testing.B) {
	params := []byte(`{"user":{"id":17},"tenant":"acme","items":[1,2,3]}`)
	b.ReportAllocs()
	for b.Loop() {
		if key, err := byTenant.Resolve(params); key != "acme" || err != nil {
			b.Fatal(key, err)
		}
	}
}
